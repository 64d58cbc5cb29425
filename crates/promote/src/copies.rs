//! Where copies are kept, and who shares them.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hugetext_host::{FileState, PublicTmpfs, lease, open_lock};
use hugetext_leaf::{CopyName, Leaf, Run};
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, flock,
    openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::copy::{Blueprint, CopyError, HugeCopy, copy_name, has_content, write_symbols};
use crate::target::Mappings;

/// Where copies have paths that every process can open. Whoever promotes later finds them there.
const PLACE: &str = "/run/hugetext/promoted";
/// How many copies of one name are looked at. There is more than one if the file was rewritten in
/// place while processes mapped the copy.
const MOST_OF_A_NAME: u32 = 64;
/// How many copies that no process maps any more keep their symbols, for profiles that were recorded.
const KEPT: usize = 64;

/// The copies that processes share. Root keeps them in a tmpfs, where profilers find their symbols
/// and later promotions find them. Others keep them in memory files, for this value's life.
#[derive(Debug, Default)]
pub struct Copies {
    registry: Option<Registry>,
    in_memory: HashMap<CopyName, (FileState, Rc<HugeCopy>)>,
    planned: HashSet<CopyName>,
}

impl Copies {
    /// Counts a run whose copy is only planned. Returns whether it is the first that needs the
    /// copy.
    pub fn plan(&mut self, mappings: &Mappings, run: &Run, leaf: Leaf) -> bool {
        let name = copy_name(mappings, run, leaf);
        let exists = is_kept(&name);
        self.planned.insert(name) && !exists
    }

    /// The copy of a text, found or made. Returns whether it was made.
    pub(crate) fn get(
        &mut self,
        blueprint: &Blueprint<'_>,
        state: FileState,
    ) -> Result<(Rc<HugeCopy>, bool), CopyError> {
        if self.registry.is_none() {
            self.registry = PublicTmpfs::at(Path::new(PLACE)).ok().map(Registry);
        }
        // A process that cannot be shown a path gets a memory file.
        if let Some(registry) = &self.registry
            && let Some((copy, is_new)) = registry.get(blueprint)?
        {
            return Ok((Rc::new(copy), is_new));
        }
        if let Some((then, copy)) = self.in_memory.get(&blueprint.name)
            && *then == state
        {
            return Ok((Rc::clone(copy), false));
        }
        let copy = Rc::new(HugeCopy::in_memory(blueprint)?);
        let name = blueprint.name.clone();
        self.in_memory.insert(name, (state, Rc::clone(&copy)));
        Ok((copy, true))
    }

    /// Whether copies were made or found under a path, so that [`give_back_until_unused`] has something to do.
    pub fn have_paths(&self) -> bool {
        self.registry.is_some()
    }

    /// Forgets the copies in memory files. They end with the processes that map them, and no other will share them.
    pub fn forget_in_memory(&mut self) {
        self.in_memory.clear();
    }
}

/// Makes the place where copies have a path that profilers find. An error says why this process cannot give them one.
pub fn make_place_of_copies() -> io::Result<()> {
    PublicTmpfs::at(Path::new(PLACE)).map(drop)
}

/// Gives back the memory of copies that no process maps any more. Their symbols stay for a while.
pub fn give_back_unused() {
    if let Ok(Some(tmpfs)) = PublicTmpfs::found(Path::new(PLACE)) {
        Registry(tmpfs).give_back_unused();
    }
}

/// Is locked by the process that gives back.
const LOCK: &str = ".lock";

/// How long the memory of a copy stays at most when its last process has ended.
const EVERY: Duration = Duration::from_secs(5);

/// Gives the memory of copies back as their last processes end, whoever these are: forked ones too. Returns when no
/// process maps a copy, and at once if another process does this already.
///
/// # Errors
/// The copies cannot be reached.
pub fn give_back_until_unused() -> io::Result<()> {
    loop {
        let Some(tmpfs) = PublicTmpfs::found(Path::new(PLACE))? else {
            return Ok(());
        };
        let registry = Registry(tmpfs);
        let lock = open_lock(registry.0.writable(), LOCK)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(()),
            locked => locked?,
        }
        while registry.give_back_unused() > 0 {
            std::thread::sleep(EVERY);
        }
        drop(lock);
        // Who has made a copy since the last look found the lock held, and relies on this process.
        if registry.give_back_unused() == 0 {
            return Ok(());
        }
    }
}

fn is_kept(name: &CopyName) -> bool {
    // Nobody waits for a copy that is only counted.
    let flags = READ | OFlags::NONBLOCK;
    (0..MOST_OF_A_NAME)
        .map(|number| Path::new(PLACE).join(path_of(name, number)))
        .map_while(|path| openat(CWD, path, flags, Mode::empty()).ok())
        .any(|copy| has_content(&copy.into(), name))
}

fn directory(name: &CopyName, number: u32) -> String {
    format!("{}.{number}", name.facts())
}

fn basename(name: &CopyName) -> &str {
    match name.basename.as_str() {
        "" | "." | ".." => "text",
        other => other,
    }
}

fn path_of(name: &CopyName, number: u32) -> String {
    format!("{}/{}", directory(name, number), basename(name))
}

/// Copies in a tmpfs, one directory each.
///
/// Invariant: a file under its path is never written. It is whole, or it is what profilers need without the text,
/// and another file takes its path when it becomes the other. So whoever has opened a copy can map it, whatever
/// becomes of the path. A file at the top, whose name begins with a dot, is being written, but for [`LOCK`].
#[derive(Debug)]
struct Registry(PublicTmpfs);

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

impl Registry {
    /// The copy, opened through its directory as the process finds it. Returns whether it was made. `None` if the
    /// process cannot be shown the directory.
    fn get(&self, blueprint: &Blueprint<'_>) -> Result<Option<(HugeCopy, bool)>, CopyError> {
        let name = &blueprint.name;
        for number in 0..MOST_OF_A_NAME {
            let own = directory(name, number);
            let in_it = |directory: OwnedFd| {
                openat(directory, basename(name), READ, Mode::empty()).map(File::from)
            };
            let open = || in_it(self.writable_directory(&own)?);
            let is_new = match open() {
                Err(Errno::NOENT) => self.make(blueprint, number, RenameFlags::NOREPLACE)?,
                Ok(file) if !has_content(&file, name) => {
                    self.make(blueprint, number, RenameFlags::empty())?
                }
                Ok(_) | Err(_) => false,
            };
            // The program may have been rewritten in place since, and another hugetext may have made this copy or
            // given it back meanwhile. So every copy is compared.
            if let Ok(file) = open()
                && blueprint.is_in(&file)
            {
                let pid = blueprint.target.pid();
                let Ok(shown) = self.0.shown_to(pid, &own) else {
                    return Ok(None);
                };
                let Ok(file) = in_it(shown) else {
                    continue;
                };
                if !blueprint.is_in(&file) {
                    continue;
                }
                let copy = HugeCopy::of(file, blueprint.windows(), blueprint.leaf)?;
                return Ok(Some((copy, is_new)));
            }
        }
        Err(CopyError::Create(io::ErrorKind::AlreadyExists.into()))
    }

    fn writable_directory(&self, name: &str) -> Result<OwnedFd, Errno> {
        openat(
            self.0.writable(),
            name,
            READ | OFlags::DIRECTORY,
            Mode::empty(),
        )
    }

    /// Makes the copy under a number; `false` if there is one already.
    fn make(
        &self,
        blueprint: &Blueprint<'_>,
        number: u32,
        flags: RenameFlags,
    ) -> Result<bool, CopyError> {
        let program = blueprint.program.metadata().map_err(CopyError::Read)?;
        let begun = self.begin().map_err(CopyError::Create)?;
        blueprint.write(&begun.file)?;
        begun.give_to(&program).map_err(CopyError::Create)?;
        let file = begun.file.try_clone().map_err(CopyError::Create)?;
        HugeCopy::of(file, blueprint.windows(), blueprint.leaf)?;
        let name = &blueprint.name;
        match begun.publish(&directory(name, number), basename(name), flags) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(CopyError::Create(error)),
        }
    }

    /// A new file without a path of a copy.
    fn begin(&self) -> io::Result<Unpublished<'_>> {
        /// Threads of one process may write at once.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let root = self.0.writable();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{count}", std::process::id());
        // A process that was killed had the same number.
        let _ = unlinkat(root, &name, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
        let file = openat(root, &name, flags, Mode::RUSR)?.into();
        let tmpfs = &self.0;
        Ok(Unpublished { tmpfs, name, file })
    }

    /// Returns how many copies are in use.
    fn give_back_unused(&self) -> usize {
        let mut unused = Vec::new();
        let mut used = 0_usize;
        for entry in names(self.0.writable()) {
            if entry.starts_with('.') {
                if entry != LOCK {
                    self.remove_abandoned(&entry);
                }
                continue;
            }
            let Some((basename, file)) = self.only_file(&entry) else {
                // A directory without a file belongs to a hugetext that works, or was killed.
                let _ = unlinkat(self.0.writable(), &entry, AtFlags::REMOVEDIR);
                continue;
            };
            if !lease(&file).unwrap_or(false) {
                used = used.saturating_add(1);
                continue;
            }
            // Nobody maps it. A process that maps it after all, because the lease ended too early, keeps the file.
            let kept = entry
                .parse()
                .ok()
                .map(|name| self.keep_symbols(&name, &entry, &basename, &file));
            match kept {
                Some(Ok(())) => {
                    let made = file.metadata().map_or(0, |metadata| metadata.mtime());
                    unused.push((made, entry));
                }
                _ => {
                    let _ = self.remove(&entry);
                }
            }
        }
        unused.sort();
        for (_, directory) in unused.iter().rev().skip(KEPT) {
            let _ = self.remove(directory);
        }
        used
    }

    /// Puts a file without the text in the place of a copy.
    fn keep_symbols(
        &self,
        name: &CopyName,
        directory: &str,
        basename: &str,
        copy: &File,
    ) -> io::Result<()> {
        if !has_content(copy, name) {
            return Ok(());
        }
        let begun = self.begin()?;
        write_symbols(copy, name, &begun.file)?;
        begun.give_to(&copy.metadata()?)?;
        begun.publish(directory, basename, RenameFlags::empty())
    }

    /// Removes a file that a process wrote which was killed.
    fn remove_abandoned(&self, name: &str) {
        let root = self.0.writable();
        let opened = openat(root, name, READ, Mode::empty()).map(File::from);
        if opened.is_ok_and(|file| lease(&file).unwrap_or(false)) {
            let _ = unlinkat(root, name, AtFlags::empty());
        }
    }

    /// The file in a directory, with its name.
    fn only_file(&self, directory: &str) -> Option<(String, File)> {
        let root = self.0.writable();
        let opened = openat(root, directory, READ | OFlags::DIRECTORY, Mode::empty()).ok()?;
        let name = names(opened.as_fd()).into_iter().next()?;
        let file = openat(&opened, &name, READ, Mode::empty()).ok()?;
        Some((name, file.into()))
    }

    fn remove(&self, directory: &str) -> Result<(), Errno> {
        let root = self.0.writable();
        let opened = openat(root, directory, READ | OFlags::DIRECTORY, Mode::empty())?;
        for name in names(opened.as_fd()) {
            unlinkat(&opened, name, AtFlags::empty())?;
        }
        unlinkat(root, directory, AtFlags::REMOVEDIR)
    }
}

/// A file that is being written. It goes with this value unless it was published.
struct Unpublished<'r> {
    tmpfs: &'r PublicTmpfs,
    name: String,
    file: File,
}

impl Unpublished<'_> {
    /// Lets those read it who may read `other`.
    fn give_to(&self, other: &Metadata) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(other.uid()), Gid::from_raw(other.gid()));
        // The other way round takes CAP_FOWNER.
        fchmod(&self.file, Mode::from_raw_mode(other.mode() & 0o444))?;
        Ok(fchown(&self.file, Some(user), Some(group))?)
    }

    /// Gives it its path, in a directory that is made if it is missing.
    fn publish(self, directory: &str, basename: &str, flags: RenameFlags) -> io::Result<()> {
        /// Somebody else removes directories without a file.
        const ATTEMPTS: u32 = 8;
        let root = self.tmpfs.writable();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let published = self.tmpfs.directory(directory).and_then(|directory| {
                Ok(renameat_with(root, &self.name, directory, basename, flags)?)
            });
            match published {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        // Nothing has this name any more if it was published.
        let _ = unlinkat(self.tmpfs.writable(), &self.name, AtFlags::empty());
    }
}

/// The names in a directory that are UTF-8, as those of copies are.
fn names(directory: impl AsFd) -> Vec<String> {
    let opened = openat(directory, ".", READ | OFlags::DIRECTORY, Mode::empty());
    let entries = opened.and_then(Dir::new).into_iter().flatten().flatten();
    let name = |entry: rustix::fs::DirEntry| Some(entry.file_name().to_str().ok()?.to_owned());
    entries
        .filter_map(name)
        .filter(|name| name != "." && name != "..")
        .collect()
}
