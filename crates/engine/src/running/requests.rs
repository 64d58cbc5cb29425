//! Which containers may be promoted while they run, as far as their pods have a say.
//!
//! Who knows the pods is the plugin of containerd. It keeps an empty file for each container whose pod asks, and a
//! lock on their directory. Who promotes looks there. The kernel releases the lock when the plugin ends, however that
//! happens, and what it left counts no more.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hugetext_host::{container_id, is_shared, share};

/// Where the plugin keeps requests by default.
pub const REQUESTS_DIRECTORY: &str = "/run/hugetext-nri";

/// Requests for promotion, kept until this value is dropped or the process dies.
#[derive(Debug)]
pub struct PromotionRequests {
    directory: PathBuf,
    _lock: File,
}

impl PromotionRequests {
    /// Keeps requests in `directory`, which is made if it is missing, for its owner alone. Forgets those that an earlier
    /// process left there.
    pub fn keep(directory: &Path) -> io::Result<PromotionRequests> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        clear(directory)?;
        Ok(PromotionRequests {
            directory: directory.to_owned(),
            _lock: share(directory)?,
        })
    }

    /// The container with this id asks for it. The id is that of its control group: 64 hexadecimal digits.
    pub fn add(&self, container: &str) -> io::Result<()> {
        File::create(self.file(container)?).map(drop)
    }

    /// It has ended.
    pub fn remove(&self, container: &str) -> io::Result<()> {
        remove(&self.file(container)?)
    }

    /// Nothing is known of any container any more.
    pub fn clear(&self) -> io::Result<()> {
        clear(&self.directory)
    }

    fn file(&self, container: &str) -> io::Result<PathBuf> {
        match container_id(container) {
            Some(id) if id == container => Ok(self.directory.join(id)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not the id of a container",
            )),
        }
    }
}

impl Drop for PromotionRequests {
    fn drop(&mut self) {
        // What cannot be removed counts no more without the lock.
        let _ = self.clear();
    }
}

/// Removes the files of all containers, and nothing else.
fn clear(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_container = |name: &str| container_id(name) == Some(name);
        if name.to_str().is_some_and(is_container) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether a container asks that its processes be promoted, by the path of their control group: the pod asked for
/// it, and a process that keeps requests in `directory` lives. Without that directory, nobody asks for anything.
pub fn asks_for_promotion(directory: &Path, cgroup: &str) -> io::Result<bool> {
    // Groups below the outermost container are those that it made itself, with names of its choice.
    let Some(container) = cgroup.split('/').find_map(container_id) else {
        return Ok(false);
    };
    match is_shared(directory) {
        Ok(true) => fs::exists(directory.join(container)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: &str) -> String {
        digit.repeat(64)
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_wish_counts_until_the_container_ends() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("requests");
        let (asks, other) = (id("a"), id("b"));
        let requests = |cgroup: &str| asks_for_promotion(&directory, cgroup).unwrap();
        let scope = format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{asks}.scope");
        assert!(!requests(&scope), "nobody keeps requests");
        let kept = PromotionRequests::keep(&directory).unwrap();
        assert!(!requests(&scope), "it has not asked");
        kept.add(&asks).unwrap();
        assert!(requests(&scope));
        assert!(requests(&format!("/../../kubepods/pod1/{asks}/worker")));
        for stranger in [
            "/".to_owned(),
            "/system.slice/x.service".to_owned(),
            format!("/kubepods/pod1/{other}"),
            // A container names the groups below its own as it likes.
            format!("/kubepods/pod1/{other}/cri-containerd-{asks}.scope"),
        ] {
            assert!(!requests(&stranger), "{stranger}");
        }
        kept.remove(&asks).unwrap();
        kept.remove(&asks).unwrap();
        assert!(!requests(&scope), "it has ended");
    }

    #[test]
    fn what_a_plugin_left_that_was_killed_does_not_count_and_the_next_one_removes_it() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let group = format!("/kubepods/pod1/{}", id("a"));
        // Nobody holds the lock.
        fs::write(directory.join(id("a")), "").unwrap();
        fs::write(directory.join("somebody's"), "").unwrap();
        assert!(!asks_for_promotion(directory, &group).unwrap());
        let kept = PromotionRequests::keep(directory).unwrap();
        assert!(!asks_for_promotion(directory, &group).unwrap());
        kept.add(&id("a")).unwrap();
        drop(kept);
        assert_eq!(names(directory), ["somebody's"]);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = PromotionRequests::keep(temporary.path()).unwrap();
        for name in [
            "",
            "..",
            "../x",
            "x/y",
            &id("a")[1..],
            &format!("x-{}", id("a")),
        ] {
            let error = kept.add(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(names(temporary.path()), [""; 0]);
    }
}
