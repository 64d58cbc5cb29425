//! This machine, for looks at files, of which a busy machine has many: its facts and mounts are read again only when
//! mounts have changed, or a minute has passed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hugetext_engine::{Error, HostContext};
use hugetext_host::{LastingMounts, MountsWatch};

/// Settings of the kernel may change without a report.
const FRESH: Duration = Duration::from_secs(60);

/// This machine, as it was seen at one time.
#[derive(Debug)]
pub(crate) struct Here {
    /// Its facts and mounts.
    pub host: HostContext,
    /// Its filesystems that stay mounted.
    pub lasting: LastingMounts,
}

struct Seen {
    here: Arc<Here>,
    at: Instant,
    watch: Option<MountsWatch>,
}

impl Seen {
    fn now() -> Result<Seen, Error> {
        // The watch comes first, so that no change is missed.
        let watch = MountsWatch::new().ok();
        Ok(Seen {
            here: Arc::new(Here {
                host: HostContext::with_huge_pages()?,
                lasting: LastingMounts::read(),
            }),
            at: Instant::now(),
            watch,
        })
    }

    fn is_fresh(&self) -> bool {
        let watch = self.watch.as_ref();
        watch.is_some_and(|watch| !watch.has_changed()) && self.at.elapsed() < FRESH
    }
}

/// This machine as it is now; an error if it has no huge pages. No file is touched but those of proc and sysfs.
pub(crate) fn here() -> Result<Arc<Here>, Error> {
    static SEEN: Mutex<Option<Seen>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seen) = seen.as_ref().filter(|seen| seen.is_fresh()) {
        return Ok(Arc::clone(&seen.here));
    }
    Ok(Arc::clone(&seen.insert(Seen::now()?).here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read_once_for_many_looks() {
        match (here(), here()) {
            (Ok(first), Ok(second)) => assert!(Arc::ptr_eq(&first, &second)),
            other => println!("skipped: no huge pages here: {other:?}"),
        }
    }
}
