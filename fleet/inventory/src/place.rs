//! Where inventories go: a directory or an object store, by way of a directory of what is still to be sent.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::{lock, replace_with};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};
use sha2::{Digest as _, Sha256};

/// Between the parts of the name of a file that is still to be sent: no part holds it.
const BETWEEN: char = '~';
/// How long another one is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why an inventory did not get to its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The place is none.
    #[error("{place}: {problem}")]
    Place {
        /// As it was given.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The store did not take it.
    #[error("{place}: {error}; what is not sent waits in {}: run this again", spool.display())]
    Away {
        /// The place.
        place: String,
        /// The error.
        error: object_store::Error,
        /// Where it waits.
        spool: PathBuf,
    },
    /// The directory of what is still to be sent cannot be used.
    #[error("{}: {error}", path.display())]
    Spool {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Another one runs.
    #[error("{}: another inventory of this machine runs; wait for it", .0.display())]
    Busy(PathBuf),
}

/// A directory or an object store.
#[derive(Debug)]
pub(crate) struct Place {
    store: Box<dyn ObjectStore>,
    prefix: Key,
    shown: String,
}

impl Place {
    /// The place that `text` names: a directory, or the URL of a store. What a store needs to know else is
    /// in the environment, as AWS_ACCESS_KEY_ID, and is never shown.
    pub(crate) fn open(text: &str) -> Result<Place, PlaceError> {
        let shown = without_secrets(text);
        // Libraries repeat what they were given.
        let wrong = |problem: String| PlaceError::Place {
            place: shown.clone(),
            problem: problem.replace(text, &shown),
        };
        let (store, prefix) = if text.contains("://") && !text.starts_with("file://") {
            remote(text).map_err(wrong)?
        } else {
            let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
            fs::create_dir_all(path).map_err(|error| wrong(error.to_string()))?;
            let local = LocalFileSystem::new_with_prefix(path);
            let local = local
                .map_err(|error| wrong(error.to_string()))?
                .with_fsync(true);
            (Box::new(local) as Box<dyn ObjectStore>, Key::default())
        };
        Ok(Place {
            store,
            prefix,
            shown: without_secrets(text),
        })
    }

    /// Puts `bytes` under a key as a whole or not at all. What is there already stays: the key names its
    /// content.
    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), object_store::Error> {
        let parts = self.prefix.parts().map(|part| part.as_ref().to_owned());
        let key = Key::from_iter(parts.chain(key.split('/').map(str::to_owned)));
        let options = PutOptions::from(PutMode::Create);
        let put = self
            .store
            .put_opts(&key, PutPayload::from(bytes), options)
            .await;
        match put {
            Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

#[cfg(feature = "s3")]
fn s3(url: &str) -> Result<Box<dyn ObjectStore>, String> {
    let retry = object_store::RetryConfig {
        max_retries: 3,
        retry_timeout: Duration::from_secs(30),
        ..object_store::RetryConfig::default()
    };
    let builder = object_store::aws::AmazonS3Builder::from_env();
    let store = builder.with_url(url).with_retry(retry).build();
    Ok(Box::new(store.map_err(|error| error.to_string())?))
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str) -> Result<Box<dyn ObjectStore>, String> {
    Err("this program was built without the feature s3".to_owned())
}

fn remote(text: &str) -> Result<(Box<dyn ObjectStore>, Key), String> {
    #[cfg(feature = "http")]
    // A second try finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    if url.scheme() == "s3" {
        let prefix = Key::parse(url.path()).map_err(|error| error.to_string())?;
        return Ok((s3(text)?, prefix));
    }
    let own = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let known = ["aws_", "azure_", "google_"];
    let own = own.filter(|(name, _)| known.iter().any(|start| name.starts_with(start)));
    object_store::parse_url_opts(&url, own).map_err(|error| error.to_string())
}

/// A place as it may be printed: a URL may hold a password or a token.
fn without_secrets(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(url) if text.contains("://") => {
            let host = url.host_str().unwrap_or_default();
            format!("{}://{host}{}", url.scheme(), url.path())
        }
        _ => text.to_owned(),
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
    pub(crate) fn open(directory: &Path) -> Result<Spool, PlaceError> {
        let spool = |error| PlaceError::Spool {
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
                Err(PlaceError::Busy(directory.to_owned()))
            }
            Err(error) => Err(spool(error)),
        }
    }

    /// A time for new rows, in seconds since the epoch: `now`, or one second after the last if the clock
    /// went back since, so that time never runs backwards for a machine.
    pub(crate) fn time(&self, now: i64) -> Result<i64, PlaceError> {
        let path = self.directory.join("time");
        let last = fs::read_to_string(&path).ok();
        let last = last.and_then(|text| text.trim().parse::<i64>().ok());
        let time = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let written = replace_with(&path, format!("{time}\n").as_bytes());
        written.map_err(|error| PlaceError::Spool {
            path,
            error: io::Error::other(error.to_string()),
        })?;
        Ok(time)
    }

    /// Keeps a table until it is sent. Its name holds the sum of its content, so that the same table has one
    /// name wherever it is sent to.
    pub(crate) fn keep(&self, date: &str, host: &str, table: &[u8]) -> Result<(), PlaceError> {
        let sum = format!("{:x}", Sha256::digest(table));
        let name = format!("{date}{BETWEEN}{host}{BETWEEN}{sum}");
        let path = self.directory.join(name);
        replace_with(&path, table).map_err(|error| PlaceError::Spool {
            path,
            error: io::Error::other(error.to_string()),
        })
    }

    /// Sends all that waits, the oldest first, and forgets what was sent. A table that is damaged is left
    /// where it is and told to `tell`. Returns how many were sent.
    pub(crate) async fn send(
        &self,
        place: &Place,
        tell: &mut dyn FnMut(String),
    ) -> Result<usize, PlaceError> {
        let read = |error| PlaceError::Spool {
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
            let bytes = fs::read(&path).map_err(|error| PlaceError::Spool {
                path: path.clone(),
                error,
            })?;
            let Some(key) = key(&name, &bytes) else {
                tell(format!(
                    "{}: damaged, and not sent; remove it",
                    path.display()
                ));
                continue;
            };
            let put = place.put(&key, bytes).await;
            put.map_err(|error| PlaceError::Away {
                place: place.shown.clone(),
                error,
                spool: self.directory.clone(),
            })?;
            fs::remove_file(&path).map_err(|error| PlaceError::Spool { path, error })?;
            sent = sent.saturating_add(1);
        }
        Ok(sent)
    }
}

/// The key of a table by its name in the spool; `None` if its content is not what the name says.
fn key(name: &str, bytes: &[u8]) -> Option<String> {
    let mut parts = name.split(BETWEEN);
    let (date, host, sum) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = format!("{:x}", Sha256::digest(bytes)) == sum;
    is_whole.then(|| format!("date={date}/host={host}/{sum}.parquet"))
}

/// Whether a table that was sent is what was sent, by its name.
pub(crate) fn is_named_by_content(path: &Path, bytes: &[u8]) -> bool {
    let sum = format!("{:x}", Sha256::digest(bytes));
    path.file_stem().is_some_and(|stem| stem == sum.as_str())
}

/// A host's name as it may stand in a key.
pub(crate) fn host_in_key(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let mut host: String = name
        .chars()
        .map(|letter| match letter {
            '.' => '.',
            letter if plain(letter) => letter,
            _ => '_',
        })
        .take(253)
        .collect();
    if host.chars().all(|letter| letter == '.') {
        host = "unknown".to_owned();
    }
    host
}

/// The date of a time in UTC, as 2026-11-22.
pub(crate) fn date(time: i64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp(time, 0)?;
    Some(time.format("%Y-%m-%d").to_string())
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
        assert!(matches!(Spool::open(&at), Err(PlaceError::Busy(_))));
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

    #[test]
    fn secrets_are_not_shown_and_names_cannot_leave_their_place() {
        let shown = without_secrets("https://key:secret@host/container?sig=token");
        assert_eq!(shown, "https://host/container");
        assert_eq!(host_in_key("../a b/ü"), ".._a_b__");
        assert_eq!(host_in_key(".."), "unknown");
        assert_eq!(date(1_795_392_000).unwrap(), "2026-11-23");
    }
}
