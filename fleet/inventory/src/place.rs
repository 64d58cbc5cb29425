//! Where inventories go: a directory or an object store.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::{fs, io, iter};

use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use sha2::{Digest as _, Sha256};

use crate::credentials::Variables;
use crate::stores;

/// Why a text names no place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub(crate) struct PlaceError {
    /// As it may be printed.
    place: String,
    /// What is wrong, and what helps.
    problem: String,
}

/// Why a place did not take a table.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {}{}", access.said(), without_secrets_in(error))]
pub(crate) struct AwayError {
    /// As it may be printed.
    place: String,
    access: Access,
    /// What the store said.
    error: object_store::Error,
}

impl AwayError {
    /// What helps.
    pub(crate) fn remedy(&self) -> String {
        let first: &(dyn Error + 'static) = &self.error;
        let causes = iter::successors(Some(first), |error| (*error).source());
        let kinds = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
        let kinds: Vec<io::ErrorKind> = kinds.map(io::Error::kind).collect();
        let is_full = |kind: &io::ErrorKind| {
            matches!(
                kind,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        };
        let again = "run this again";
        if kinds.iter().any(is_full) {
            return format!("free space there, and {again}");
        }
        if kinds.contains(&io::ErrorKind::PermissionDenied) {
            return format!("let this user write there, and {again}");
        }
        match (&self.access, &self.error) {
            (Access::Without(variables), _) => format!("set {}, and {again}", variables.words),
            (
                Access::By(variables),
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. },
            ) => format!("check {}, and {again}", variables.words),
            (Access::By(_), object_store::Error::NotFound { .. }) => {
                format!("make the bucket or container, and {again}")
            }
            _ => again.to_owned(),
        }
    }
}

/// How a place lets rows in.
#[derive(Debug, Clone, Copy)]
enum Access {
    /// A directory: by its mode.
    Directory,
    /// A store, with credentials from the environment.
    By(&'static Variables),
    /// A store, without any there. The machine may have a role in its cloud.
    Without(&'static Variables),
}

impl Access {
    /// What an error says first.
    fn said(&self) -> &'static str {
        match self {
            Access::Directory | Access::By(_) => "",
            Access::Without(_) => "the environment has no credentials for it: ",
        }
    }
}

/// A directory or an object store.
#[derive(Debug)]
pub(crate) struct Place {
    store: Box<dyn ObjectStore>,
    prefix: Key,
    /// Without secrets, and the same from wherever it is named.
    name: String,
    access: Access,
}

impl Place {
    /// The place that `text` names: a directory, or the URL of a store. What a store needs to know else is
    /// in the environment, as AWS_ACCESS_KEY_ID, and is never shown.
    pub(crate) fn open(text: &str) -> Result<Place, PlaceError> {
        if text.contains("://") && !text.starts_with("file://") {
            Place::store(text)
        } else {
            Place::directory(text.strip_prefix("file://").unwrap_or(text))
        }
    }

    fn store(url: &str) -> Result<Place, PlaceError> {
        let name = without_secrets(url);
        let (opened, prefix) = stores::open(url).map_err(|problem| PlaceError {
            place: name.clone(),
            problem: without_secrets_in(&problem),
        })?;
        let access = match opened.has_credentials {
            true => Access::By(opened.variables),
            false => Access::Without(opened.variables),
        };
        Ok(Place {
            store: opened.store,
            prefix,
            name,
            access,
        })
    }

    fn directory(path: &str) -> Result<Place, PlaceError> {
        let wrong = |error: String| PlaceError {
            place: path.to_owned(),
            problem: format!("{error}; name a directory that this user may write"),
        };
        let io = |error: io::Error| wrong(error.to_string());
        fs::create_dir_all(path).map_err(io)?;
        // A relative path is another place for a run that starts elsewhere.
        let path = fs::canonicalize(path).map_err(io)?;
        let local = LocalFileSystem::new_with_prefix(&path);
        let local = local.map_err(|error| wrong(error.to_string()))?;
        Ok(Place {
            store: Box::new(local.with_fsync(true)),
            prefix: Key::default(),
            name: path.display().to_string(),
            access: Access::Directory,
        })
    }

    /// What tells this place from others. It holds no secret.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Puts `bytes` under a key as a whole or not at all. The key names its content, so what is there already
    /// stays if it is as long.
    pub(crate) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), AwayError> {
        let parts = self.prefix.parts().map(|part| part.as_ref().to_owned());
        let key = Key::from_iter(parts.chain(key.split('/').map(str::to_owned)));
        self.put_once(&key, PutPayload::from(bytes))
            .await
            .map_err(|error| AwayError {
                place: self.name.clone(),
                access: self.access,
                error,
            })
    }

    async fn put_once(&self, key: &Key, table: PutPayload) -> Result<(), object_store::Error> {
        let len = u64::try_from(table.content_length()).unwrap_or(u64::MAX);
        let new = PutOptions::from(PutMode::Create);
        match self.store.put_opts(key, table.clone(), new).await {
            Err(object_store::Error::AlreadyExists { .. }) => {}
            other => return other.map(drop),
        }
        // Not every store is atomic: one that was killed may show half a table. Some also say so of an upload that
        // is still on its way and may fail.
        match self.store.head(key).await {
            Ok(there) if there.size == len => Ok(()),
            Ok(_) => self.store.put(key, table).await.map(drop),
            // Who may only write believes the store.
            Err(
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. },
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A place as it may be printed: a URL may hold a password or a token. In abfss://CONTAINER@HOST/PREFIX, the user is
/// a container, and no secret.
fn without_secrets(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(url) if text.contains("://") => {
            let scheme = url.scheme();
            let user = match (scheme, url.username()) {
                ("abfs" | "abfss", user) if !user.is_empty() => format!("{user}@"),
                _ => String::new(),
            };
            let host = url.host_str().unwrap_or_default();
            let port = url.port().map_or(String::new(), |port| format!(":{port}"));
            let path = url.path().trim_end_matches('/');
            format!("{scheme}://{user}{host}{port}{path}")
        }
        _ => text.to_owned(),
    }
}

/// A message as it may be printed: libraries put whole URLs into theirs, also that which they were given.
fn without_secrets_in(message: &impl Display) -> String {
    let message = message.to_string();
    let words = message.split(' ').map(|word| {
        let Some((scheme, rest)) = word.split_once("://") else {
            return word.to_owned();
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{path}")
    });
    words.collect::<Vec<_>>().join(" ")
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

    #[test]
    fn secrets_are_not_shown_and_names_cannot_leave_their_place() {
        let shown = without_secrets("https://key:secret@host/container?sig=token");
        assert_eq!(shown, "https://host/container");
        let containers = ["one", "two"].map(|name| {
            without_secrets(&format!("abfss://{name}:secret@h.dfs.core.windows.net/a/"))
        });
        assert_eq!(containers[0], "abfss://one@h.dfs.core.windows.net/a");
        assert_ne!(containers[0], containers[1]);
        let message =
            "Error performing PUT http://key:secret@host:1/a?sig=secret in 1s (http://h?secret)";
        assert_eq!(
            without_secrets_in(&message),
            "Error performing PUT http://host:1/a in 1s (http://h"
        );
        assert_eq!(host_in_key("../a b/ü"), ".._a_b__");
        assert_eq!(host_in_key(".."), "unknown");
        assert_eq!(date(1_795_392_000).unwrap(), "2026-11-23");
    }
}
