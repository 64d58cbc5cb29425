//! The places for copies.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::Store;
use hugetext_leaf::Filesystem;

use crate::failure::{Failure, plain};
use crate::run::{Backend, Options};
use crate::warm::Ground;

/// Root's store, which every user may use.
const SYSTEM: &str = "/var/cache/hugetext";
/// A directory on which the administrator may mount a tmpfs of huge pages (packaging/systemd).
const SHARED_TMPFS: &str = "/run/hugetext";

/// The place where copies are looked for and made.
#[derive(Debug)]
pub(crate) enum Place {
    /// In these stores: all of them are searched, and copies are made in the last.
    Stores(Vec<Store>),
    /// In a tmpfs over this directory that only this command and its children see.
    Private(PathBuf),
}

/// The directory of the user's own store.
pub(crate) fn own_root() -> Result<PathBuf, Failure> {
    if hugetext_host::is_root() {
        return Ok(PathBuf::from(SYSTEM));
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    base.map(|base| base.join("hugetext"))
        .ok_or_else(|| Failure::new("store", "no home directory").remedy("name one with --store"))
}

/// The total time that a command waits for other processes that change its store. It then starts
/// without copies.
const PATIENCE: Duration = Duration::from_secs(1);

/// Chooses the place for copies.
pub(crate) fn choose(options: &Options, ground: &Ground) -> Result<Place, Failure> {
    let named = options.store.as_deref();
    let in_memory = || in_memory(named, ground);
    let place = match options.backend {
        Backend::Store => in_memory(),
        Backend::Auto => choose_on_disk(named, ground).or_else(|_| in_memory()),
        _ => choose_on_disk(named, ground),
    };
    Ok(match place? {
        Place::Stores(stores) => {
            let hurried = |store: Store| store.with_patience(PATIENCE);
            Place::Stores(stores.into_iter().map(hurried).collect())
        }
        private => private,
    })
}

/// The user's own store on disk, or the one named, preceded by root's.
pub(crate) fn choose_on_disk(named: Option<&Path>, ground: &Ground) -> Result<Place, Failure> {
    let store = Store::create(&root(named)?).map_err(|error| Failure::store("store", &error))?;
    serves(&store, ground)?;
    let mut stores = Vec::new();
    if named.is_none() && !hugetext_host::is_root() {
        // A problem of root's store is for root to solve, so it is not an error here.
        stores.extend(Store::open(Path::new(SYSTEM)).ok().flatten());
    }
    stores.push(store);
    Ok(Place::Stores(stores))
}

fn root(named: Option<&Path>) -> Result<PathBuf, Failure> {
    named.map_or_else(own_root, |directory| Ok(directory.to_owned()))
}

/// Checks that text in the store can be on huge pages and can be executed.
fn serves(store: &Store, ground: &Ground) -> Result<(), Failure> {
    let root = store.root();
    let failed = |error| Failure::io(root, &error);
    let directory = File::open(root).map_err(failed)?;
    let mount = ground.mounts.of(&directory).map_err(failed)?;
    let pages = ground.mounts.page_cache(&directory, root).map_err(failed)?;
    if let Some(cause) = ground.obstacle(pages, ground.leaf) {
        return Err(Failure::at(root, cause).remedy("try --backend store"));
    }
    if mount.noexec {
        return Err(Failure::at(root, "mounted noexec").remedy("name another with --store"));
    }
    Ok(())
}

fn in_memory(named: Option<&Path>, ground: &Ground) -> Result<Place, Failure> {
    let shared = Path::new(SHARED_TMPFS);
    let is_huge = File::open(shared)
        .and_then(|file| ground.mounts.of(&file).map(|mount| mount.filesystem))
        .is_ok_and(|filesystem| filesystem == Filesystem::HugeTmpfs);
    if is_huge
        && let Ok(store) = Store::create(shared)
        && store.is_writable()
    {
        return Ok(Place::Stores(vec![store]));
    }
    let own = root(named)?;
    std::fs::create_dir_all(&own)
        .map_err(|error| Failure::at(&own, plain(&error)).remedy("name another with --store"))?;
    Ok(Place::Private(own))
}
