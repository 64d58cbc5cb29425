//! What is still to be sent: tables that wait until the place that they are for has them. Those for one place lie in
//! a directory of their own, whose file `place` names it: a later run for another place leaves them there.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::{ReplaceError, lock, replace_with};
use sha2::{Digest as _, Sha256};

use crate::place::{AwayError, Place};

/// Between the parts of the name of a table: no part holds it.
const BETWEEN: char = '~';
/// The file that names the place which the tables beside it are for.
const PLACE: &str = "place";
/// How long another one is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why tables are not kept or not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    /// The place did not take it.
    #[error("{error}; what is not sent waits in {}: {}", spool.display(), error.remedy())]
    Away {
        /// What the place said.
        error: Box<AwayError>,
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
    place: Place,
    /// The directory of what is for `place`.
    queue: PathBuf,
    _lock: File,
}

/// Tables that this run did not send, because they are not known to be for its place.
#[derive(Debug)]
pub(crate) struct Other {
    directory: PathBuf,
    tables: usize,
    /// The place that they are for, if something says so.
    place: Option<String>,
    /// Where they would go to the place of this run.
    queue: PathBuf,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (directory, tables) = (self.directory.display(), self.tables);
        match &self.place {
            Some(place) => write!(
                f,
                "{directory}: {tables} files wait for {place}; run this with -o {place} to send them"
            ),
            None => write!(
                f,
                "{directory}: {tables} files wait, and nothing says for which place; move them to {} to send them \
                 with the next run",
                self.queue.display()
            ),
        }
    }
}

impl Spool {
    /// The one in `directory`, for tables that go to `place`.
    pub(crate) fn open(directory: &Path, place: Place) -> Result<Spool, SpoolError> {
        let sum = format!("{:x}", Sha256::digest(place.name()));
        let queue = directory.join(sum.get(..16).unwrap_or(&sum));
        fs::create_dir_all(&queue).map_err(|error| unusable(directory, error))?;
        match lock(&directory.join("lock"), PATIENCE) {
            Ok(held) => Ok(Spool {
                directory: directory.to_owned(),
                place,
                queue,
                _lock: held,
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(SpoolError::Busy(directory.to_owned()))
            }
            Err(error) => Err(unusable(directory, error)),
        }
    }

    /// A time for new rows, in seconds since the epoch: `now`, or one second after the last if the clock
    /// went back since, so that time never runs backwards for a machine.
    pub(crate) fn time(&self, now: i64) -> Result<i64, SpoolError> {
        let path = self.directory.join("time");
        let last = fs::read_to_string(&path).ok();
        let last = last.and_then(|text| text.trim().parse::<i64>().ok());
        let time = last.map_or(now, |last| now.max(last.saturating_add(1)));
        write(path, format!("{time}\n").as_bytes())?;
        Ok(time)
    }

    /// Keeps a table until it is sent. Its name holds the sum of its content, so that the same table has one
    /// name wherever it is sent to.
    pub(crate) fn keep(&self, date: &str, host: &str, table: &[u8]) -> Result<(), SpoolError> {
        // No table is ever there without the name of its place.
        let place = format!("{}\n", self.place.name());
        write(self.queue.join(PLACE), place.as_bytes())?;
        let sum = format!("{:x}", Sha256::digest(table));
        let name = format!("{date}{BETWEEN}{host}{BETWEEN}{sum}");
        write(self.queue.join(name), table)
    }

    /// Sends all that waits for the place, the oldest first, and forgets what was sent. A table that is damaged is
    /// left where it is and told to `tell`. Returns how many were sent.
    pub(crate) async fn send(&self, tell: &mut dyn FnMut(String)) -> Result<usize, SpoolError> {
        let mut sent = 0usize;
        for name in tables(&self.queue)? {
            let path = self.queue.join(&name);
            let bytes = fs::read(&path).map_err(|error| unusable(&path, error))?;
            let Some(key) = key_of(&name, &bytes) else {
                tell(format!(
                    "{}: damaged, and not sent; remove it",
                    path.display()
                ));
                continue;
            };
            let put = self.place.put(&key, bytes).await;
            put.map_err(|error| SpoolError::Away {
                error: Box::new(error),
                spool: self.directory.clone(),
            })?;
            fs::remove_file(&path).map_err(|error| unusable(&path, error))?;
            sent = sent.saturating_add(1);
        }
        Ok(sent)
    }

    /// What waits and is not for the place of this run.
    pub(crate) fn others(&self) -> Result<Vec<Other>, SpoolError> {
        let wrong = |error| unusable(&self.directory, error);
        let mut directories = vec![self.directory.clone()];
        for entry in self.directory.read_dir().map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            if is_queue(&path) && path != self.queue {
                directories.push(path);
            }
        }
        directories.sort();
        let mut others = Vec::new();
        for directory in directories {
            let tables = tables(&directory)?.len();
            if tables > 0 {
                let place = fs::read_to_string(directory.join(PLACE)).ok();
                others.push(Other {
                    directory,
                    tables,
                    place: place.map(|place| place.trim_end().to_owned()),
                    queue: self.queue.clone(),
                });
            }
        }
        Ok(others)
    }
}

/// Whether a path is that of a directory as [`Spool::open`] names them.
fn is_queue(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_sum = |name: &str| name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
    name.is_some_and(is_sum) && path.is_dir()
}

/// The names of the tables in a directory, the oldest first.
fn tables(directory: &Path) -> Result<Vec<String>, SpoolError> {
    let wrong = |error| unusable(directory, error);
    let mut names: Vec<String> = Vec::new();
    for entry in directory.read_dir().map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        let table = name.to_str().filter(|name| name.contains(BETWEEN));
        names.extend(table.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn unusable(path: &Path, error: io::Error) -> SpoolError {
    SpoolError::Unusable {
        path: path.to_owned(),
        error,
    }
}

fn write(path: PathBuf, content: &[u8]) -> Result<(), SpoolError> {
    replace_with(&path, content).map_err(|error| SpoolError::Write { path, error })
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

    /// All files below a directory, but for the names of places.
    fn files(directory: &Path) -> Vec<PathBuf> {
        let found = walkdir::WalkDir::new(directory)
            .sort_by_file_name()
            .into_iter()
            .flatten();
        let found = found.filter(|entry| entry.file_type().is_file());
        let found = found.map(walkdir::DirEntry::into_path);
        found.filter(|path| !path.ends_with(PLACE)).collect()
    }

    fn open(spool: &Path, target: &Path) -> Spool {
        let place = Place::open(target.to_str().unwrap()).unwrap();
        Spool::open(spool, place).unwrap()
    }

    /// A directory, and paths in it of a spool and of a target.
    fn paths() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let [spool, target] = ["spool", "target"].map(|name| directory.path().join(name));
        (directory, spool, target)
    }

    #[test]
    fn what_is_sent_twice_is_there_once_and_the_spool_is_empty() {
        let (_directory, at, target) = paths();
        for _ in 0..2 {
            let spool = open(&at, &target);
            spool.keep("2026-11-22", "h", b"table").unwrap();
            assert_eq!(block(spool.send(&mut |_| {})).unwrap(), 1);
        }
        let sum = format!("{:x}", Sha256::digest(b"table"));
        let table = target.join(format!("date=2026-11-22/host=h/{sum}.parquet"));
        assert_eq!(files(&target), [table]);
        assert_eq!(files(&at), [at.join("lock")]);
    }

    #[test]
    fn what_waits_for_one_place_is_never_sent_to_another() {
        let (directory, at, target) = paths();
        let first = open(&at, &target);
        first.keep("2026-11-21", "h", b"first").unwrap();
        drop(first);
        let elsewhere = directory.path().join("elsewhere");
        let second = open(&at, &elsewhere);
        second.keep("2026-11-22", "h", b"second").unwrap();
        assert_eq!(block(second.send(&mut |_| {})).unwrap(), 1);
        assert_eq!(files(&elsewhere).len(), 1);
        assert!(files(&target).is_empty());
        let others = second.others().unwrap();
        let [other] = &others[..] else {
            panic!("{others:?}")
        };
        let remedy = format!("run this with -o {} to send them", target.display());
        assert!(other.to_string().contains(&remedy), "{other}");
        drop(second);
        let first = open(&at, &target);
        assert_eq!(block(first.send(&mut |_| {})).unwrap(), 1);
        let sent = files(&target);
        assert_eq!(sent.len(), 1);
        assert_eq!(fs::read(&sent[0]).unwrap(), b"first");
        assert!(first.others().unwrap().is_empty());
    }

    #[test]
    fn what_waits_for_a_place_that_nothing_names_stays_and_is_told() {
        let (_directory, at, target) = paths();
        let spool = open(&at, &target);
        let sum = format!("{:x}", Sha256::digest(b"table"));
        let name = format!("2026-11-22~h~{sum}");
        fs::write(at.join(&name), b"table").unwrap();
        assert_eq!(block(spool.send(&mut |_| {})).unwrap(), 0);
        let told = spool.others().unwrap().remove(0).to_string();
        assert!(told.contains(spool.queue.to_str().unwrap()), "{told}");
        fs::rename(at.join(&name), spool.queue.join(&name)).unwrap();
        assert_eq!(block(spool.send(&mut |_| {})).unwrap(), 1);
    }

    #[test]
    fn half_a_table_at_its_place_is_replaced() {
        let (_directory, at, target) = paths();
        let sum = format!("{:x}", Sha256::digest(b"table"));
        let table = target.join(format!("date=2026-11-22/host=h/{sum}.parquet"));
        fs::create_dir_all(table.parent().unwrap()).unwrap();
        fs::write(&table, "tab").unwrap();
        let spool = open(&at, &target);
        spool.keep("2026-11-22", "h", b"table").unwrap();
        assert_eq!(block(spool.send(&mut |_| {})).unwrap(), 1);
        assert_eq!(fs::read(&table).unwrap(), b"table");
    }

    #[test]
    fn what_is_damaged_is_not_sent_and_keeps_nothing_back() {
        let (_directory, at, target) = paths();
        let spool = open(&at, &target);
        spool.keep("2026-11-21", "h", b"first").unwrap();
        let first = tables(&spool.queue).unwrap().remove(0);
        fs::write(spool.queue.join(first), b"fir").unwrap();
        spool.keep("2026-11-22", "h", b"second").unwrap();
        let mut told = Vec::new();
        let sent = block(spool.send(&mut |line| told.push(line))).unwrap();
        assert_eq!((sent, told.len()), (1, 1), "{told:?}");
        assert!(told[0].contains("damaged"), "{told:?}");
        assert_eq!(files(&target).len(), 1);
    }

    #[test]
    fn a_place_that_is_away_keeps_the_rows_waiting() {
        let (_directory, at, target) = paths();
        let spool = open(&at, &target);
        let place = Place::open(target.to_str().unwrap()).unwrap();
        assert!(matches!(Spool::open(&at, place), Err(SpoolError::Busy(_))));
        spool.keep("2026-11-22", "h", b"table").unwrap();
        // Where the table is to lie, something else lies.
        fs::write(target.join("date=2026-11-22"), b"").unwrap();
        let error = block(spool.send(&mut |_| {})).unwrap_err().to_string();
        assert!(error.contains("run this again"), "{error}");
        fs::remove_file(target.join("date=2026-11-22")).unwrap();
        assert_eq!(block(spool.send(&mut |_| {})).unwrap(), 1);
    }

    #[test]
    fn time_never_runs_backwards() {
        let (_directory, at, target) = paths();
        let spool = open(&at, &target);
        let times = [1000, 1000, 400, 5000].map(|now| spool.time(now).unwrap());
        assert_eq!(times, [1000, 1001, 1002, 5000]);
    }
}
