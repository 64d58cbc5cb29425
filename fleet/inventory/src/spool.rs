//! What is still to be sent: a directory of tables that wait until a place has them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::{ReplaceError, lock, replace_with};
use sha2::{Digest as _, Sha256};

use crate::place::{AwayError, Place};

/// Between the parts of the name of a table: no part holds it.
const BETWEEN: char = '~';
/// How long another one is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why tables are not kept or not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    /// The place did not take it.
    #[error("{error}; what is not sent waits in {}: {}", spool.display(), error.remedy())]
    Away {
        /// What the place said.
        error: AwayError,
        /// Where it waits.
        spool: PathBuf,
    },
    /// The directory or a file in it cannot be used.
    #[error("{}: {error}; {}", path.display(), remedy(error.kind()))]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file cannot be written. What was there stays.
    #[error("{}: {error}; {}", path.display(), remedy(kind(error)))]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        error: ReplaceError,
    },
    /// Another one runs.
    #[error("{}: another inventory of this machine runs; wait for it", .0.display())]
    Busy(PathBuf),
}

fn kind(error: &ReplaceError) -> io::ErrorKind {
    error.io().map_or(io::ErrorKind::Other, io::Error::kind)
}

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, and run this again"
        }
        io::ErrorKind::PermissionDenied => {
            "run this as root, or name another directory with --spool"
        }
        _ => "name another directory with --spool",
    }
}

/// What is still to be sent. While it lives, no other process sends from the same directory.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    _lock: File,
}

impl Spool {
    /// The one in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Spool, SpoolError> {
        let spool = |error| SpoolError::Unusable {
            path: directory.to_owned(),
            error,
        };
        fs::create_dir_all(directory).map_err(spool)?;
        match lock(&directory.join("lock"), PATIENCE) {
            Ok(held) => Ok(Spool {
                directory: directory.to_owned(),
                _lock: held,
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(SpoolError::Busy(directory.to_owned()))
            }
            Err(error) => Err(spool(error)),
        }
    }

    /// A time for new rows, in seconds since the epoch: `now`, or one second after the last if the clock
    /// went back since, so that time never runs backwards for a machine.
    pub(crate) fn time(&self, now: i64) -> Result<i64, SpoolError> {
        let path = self.directory.join("time");
        let last = fs::read_to_string(&path).ok();
        let last = last.and_then(|text| text.trim().parse::<i64>().ok());
        let time = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let written = replace_with(&path, format!("{time}\n").as_bytes());
        written.map_err(|error| SpoolError::Write { path, error })?;
        Ok(time)
    }

    /// Keeps a table until it is sent. Its name holds the sum of its content, so that the same table has one
    /// name wherever it is sent to.
    pub(crate) fn keep(&self, date: &str, host: &str, table: &[u8]) -> Result<(), SpoolError> {
        let sum = format!("{:x}", Sha256::digest(table));
        let name = format!("{date}{BETWEEN}{host}{BETWEEN}{sum}");
        let path = self.directory.join(name);
        replace_with(&path, table).map_err(|error| SpoolError::Write { path, error })
    }

    /// Sends all that waits, the oldest first, and forgets what was sent. A table that is damaged is left
    /// where it is and told to `tell`. Returns how many were sent.
    pub(crate) async fn send(
        &self,
        place: &Place,
        tell: &mut dyn FnMut(String),
    ) -> Result<usize, SpoolError> {
        let read = |error| SpoolError::Unusable {
            path: self.directory.clone(),
            error,
        };
        let mut waiting: Vec<String> = Vec::new();
        for entry in self.directory.read_dir().map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            waiting.extend(
                name.to_str()
                    .filter(|name| name.contains(BETWEEN))
                    .map(str::to_owned),
            );
        }
        waiting.sort();
        let mut sent = 0usize;
        for name in waiting {
            let path = self.directory.join(&name);
            let bytes = fs::read(&path).map_err(|error| SpoolError::Unusable {
                path: path.clone(),
                error,
            })?;
            let Some(key) = key_of(&name, &bytes) else {
                tell(format!(
                    "{}: damaged, and not sent; remove it",
                    path.display()
                ));
                continue;
            };
            let put = place.put(&key, bytes).await;
            put.map_err(|error| SpoolError::Away {
                error,
                spool: self.directory.clone(),
            })?;
            fs::remove_file(&path).map_err(|error| SpoolError::Unusable { path, error })?;
            sent = sent.saturating_add(1);
        }
        Ok(sent)
    }
}

/// The key of a table by its name in the spool; `None` if its content is not what the name says.
fn key_of(name: &str, bytes: &[u8]) -> Option<String> {
    let mut parts = name.split(BETWEEN);
    let (date, host, sum) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = format!("{:x}", Sha256::digest(bytes)) == sum;
    is_whole.then(|| format!("date={date}/host={host}/{sum}.parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<F: std::future::Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(future)
    }

    fn files(directory: &Path) -> Vec<String> {
        let found = walkdir::WalkDir::new(directory)
            .sort_by_file_name()
            .into_iter()
            .flatten();
        let found = found.filter(|entry| entry.file_type().is_file());
        let name = |path: &Path| path.strip_prefix(directory).unwrap().display().to_string();
        found.map(|entry| name(entry.path())).collect()
    }

    #[test]
    fn what_is_sent_twice_is_there_once_and_the_spool_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let (spool, target) = (
            directory.path().join("spool"),
            directory.path().join("target"),
        );
        let place = Place::open(target.to_str().unwrap()).unwrap();
        for _ in 0..2 {
            let spool = Spool::open(&spool).unwrap();
            spool.keep("2026-11-22", "h", b"table").unwrap();
            assert_eq!(block(spool.send(&place, &mut |_| {})).unwrap(), 1);
        }
        let sum = format!("{:x}", Sha256::digest(b"table"));
        assert_eq!(
            files(&target),
            [format!("date=2026-11-22/host=h/{sum}.parquet")]
        );
        assert_eq!(files(&spool), ["lock"]);
    }

    #[test]
    fn half_a_table_at_its_place_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let sum = format!("{:x}", Sha256::digest(b"table"));
        let table = target.join(format!("date=2026-11-22/host=h/{sum}.parquet"));
        fs::create_dir_all(table.parent().unwrap()).unwrap();
        fs::write(&table, "tab").unwrap();
        let spool = Spool::open(&directory.path().join("spool")).unwrap();
        spool.keep("2026-11-22", "h", b"table").unwrap();
        let place = Place::open(target.to_str().unwrap()).unwrap();
        assert_eq!(block(spool.send(&place, &mut |_| {})).unwrap(), 1);
        assert_eq!(fs::read(&table).unwrap(), b"table");
    }

    #[test]
    fn what_is_damaged_is_not_sent_and_keeps_nothing_back() {
        let directory = tempfile::tempdir().unwrap();
        let (at, target) = (
            directory.path().join("spool"),
            directory.path().join("target"),
        );
        let spool = Spool::open(&at).unwrap();
        spool.keep("2026-11-21", "h", b"first").unwrap();
        let first = files(&at)
            .into_iter()
            .find(|name| name.contains(BETWEEN))
            .unwrap();
        fs::write(at.join(&first), b"fir").unwrap();
        spool.keep("2026-11-22", "h", b"second").unwrap();
        let mut told = Vec::new();
        let place = Place::open(target.to_str().unwrap()).unwrap();
        let sent = block(spool.send(&place, &mut |line| told.push(line))).unwrap();
        assert_eq!((sent, told.len()), (1, 1), "{told:?}");
        assert!(told[0].contains("damaged"), "{told:?}");
        assert_eq!(files(&target).len(), 1);
    }

    #[test]
    fn a_place_that_is_away_keeps_the_rows_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("spool");
        let spool = Spool::open(&at).unwrap();
        assert!(matches!(Spool::open(&at), Err(SpoolError::Busy(_))));
        spool.keep("2026-11-22", "h", b"table").unwrap();
        let target = directory.path().join("target");
        let place = Place::open(target.to_str().unwrap()).unwrap();
        // Where the table is to lie, something else lies.
        fs::write(target.join("date=2026-11-22"), b"").unwrap();
        let error = block(spool.send(&place, &mut |_| {}))
            .unwrap_err()
            .to_string();
        assert!(error.contains("run this again"), "{error}");
        fs::remove_file(target.join("date=2026-11-22")).unwrap();
        assert_eq!(block(spool.send(&place, &mut |_| {})).unwrap(), 1);
    }

    #[test]
    fn time_never_runs_backwards() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let times = [1000, 1000, 400, 5000].map(|now| spool.time(now).unwrap());
        assert_eq!(times, [1000, 1001, 1002, 5000]);
    }
}
