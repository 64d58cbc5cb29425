//! The places for copies.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_leaf::Filesystem;
use hugetext_store::Store;

use super::request::{CopyBackend, PrepareRequest};
use crate::error::Error;
use crate::host_context::HostContext;
use crate::user;

/// Root's store, which every user may use.
const SYSTEM: &str = "/var/cache/hugetext";
/// A directory on which the administrator may mount a tmpfs of huge pages (packaging/systemd).
const SHARED_TMPFS: &str = "/run/hugetext";

/// The place where copies are looked for and made.
#[derive(Debug)]
pub enum CopyPlace {
    /// In these stores: all of them are searched, and copies are made in the last.
    Stores(Vec<Store>),
    /// In a tmpfs over this directory that only this command and its children see.
    Private(PathBuf),
}

/// What a copy takes, by where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyGround {
    /// Whole pages.
    Pages,
    /// Whole windows, of a tmpfs of huge pages that only one command sees.
    Windows,
    /// The same, and one window for the record of the entry, of a store on such a tmpfs.
    WindowsAndRecord,
}

/// The directory of the user's own store.
pub fn user_store_root() -> Result<PathBuf, Error> {
    if hugetext_host::is_root() {
        return Ok(PathBuf::from(SYSTEM));
    }
    let base = user::directory("XDG_CACHE_HOME", ".cache");
    base.map(|base| base.join("hugetext")).ok_or(Error::NoHome)
}

/// The total time that a command waits for other processes that change its store. It then starts
/// without copies.
const PATIENCE: Duration = Duration::from_secs(1);

/// Chooses the place for copies.
pub(super) fn choose(request: &PrepareRequest, host: &HostContext) -> Result<CopyPlace, Error> {
    let named = request.store.as_deref();
    let in_memory = || in_memory(named, host);
    // A replica is worth it without huge pages.
    let folios = match request.replica {
        Some(_) => FoliosWanted::Any,
        None => FoliosWanted::Huge,
    };
    let place = match request.backend {
        CopyBackend::Memory => in_memory(),
        CopyBackend::Auto => stores_with(named, host, folios)
            .map(CopyPlace::Stores)
            .or_else(|_| in_memory()),
        _ => stores_with(named, host, folios).map(CopyPlace::Stores),
    };
    Ok(match place? {
        CopyPlace::Stores(stores) => {
            let hurried = |store: Store| store.with_patience(PATIENCE);
            CopyPlace::Stores(stores.into_iter().map(hurried).collect())
        }
        private => private,
    })
}

/// Where copies would lie, as far as that can be told before anything is made.
pub(super) fn ground(request: &PrepareRequest, host: &HostContext) -> CopyGround {
    let on_huge_tmpfs = |path: &Path| {
        let existing = path.ancestors().find(|part| part.exists());
        existing.is_some_and(|part| is_huge_tmpfs(part, host))
    };
    match request.backend {
        CopyBackend::Memory if is_huge_tmpfs(Path::new(SHARED_TMPFS), host) => {
            CopyGround::WindowsAndRecord
        }
        CopyBackend::Memory => CopyGround::Windows,
        CopyBackend::Auto | CopyBackend::Cache | CopyBackend::None => {
            let root = root(request.store.as_deref()).ok();
            let root = root.and_then(|root| std::path::absolute(root).ok());
            match root {
                Some(root) if on_huge_tmpfs(&root) => CopyGround::WindowsAndRecord,
                _ => CopyGround::Pages,
            }
        }
    }
}

fn is_huge_tmpfs(directory: &Path, host: &HostContext) -> bool {
    File::open(directory)
        .and_then(|file| host.mounts.of(&file).map(|mount| mount.filesystem))
        .is_ok_and(|filesystem| filesystem == Filesystem::HugeTmpfs)
}

/// The folios that a store must be able to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoliosWanted {
    Huge,
    Any,
}

/// The user's own store on disk, or the one named, preceded by root's.
pub fn stores_on_disk(named: Option<&Path>, host: &HostContext) -> Result<Vec<Store>, Error> {
    stores_with(named, host, FoliosWanted::Huge)
}

fn stores_with(
    named: Option<&Path>,
    host: &HostContext,
    folios: FoliosWanted,
) -> Result<Vec<Store>, Error> {
    let store = Store::create(&root(named)?).map_err(|source| Error::Store {
        subject: "store".to_owned(),
        source,
    })?;
    serves(&store, host, folios)?;
    let mut stores = Vec::new();
    if named.is_none() && !hugetext_host::is_root() {
        // A problem of root's store is for root to solve, so it is not an error here.
        stores.extend(Store::open(Path::new(SYSTEM)).ok().flatten());
    }
    stores.push(store);
    Ok(stores)
}

fn root(named: Option<&Path>) -> Result<PathBuf, Error> {
    named.map_or_else(user_store_root, |directory| Ok(directory.to_owned()))
}

/// Checks that text in the store can be in such folios and can be executed.
fn serves(store: &Store, host: &HostContext, folios: FoliosWanted) -> Result<(), Error> {
    let root = store.root();
    let failed = Error::io(root);
    let directory = File::open(root).map_err(&failed)?;
    let mount = host.mounts.of(&directory).map_err(&failed)?;
    let pages = host.mounts.page_cache(&directory, root).map_err(failed)?;
    if folios == FoliosWanted::Huge
        && let Some(cause) = host.large_folio_obstacle(pages, host.leaf)
    {
        return Err(Error::UnfitStore {
            path: root.to_owned(),
            cause,
        });
    }
    if mount.noexec {
        return Err(Error::NoexecStore {
            path: root.to_owned(),
        });
    }
    Ok(())
}

fn in_memory(named: Option<&Path>, host: &HostContext) -> Result<CopyPlace, Error> {
    let shared = Path::new(SHARED_TMPFS);
    if is_huge_tmpfs(shared, host)
        && let Ok(store) = Store::create(shared)
        && store.is_writable()
    {
        return Ok(CopyPlace::Stores(vec![store]));
    }
    let own = root(named)?;
    std::fs::create_dir_all(&own).map_err(|source| Error::NoStoreDirectory {
        path: own.clone(),
        source,
    })?;
    Ok(CopyPlace::Private(own))
}
