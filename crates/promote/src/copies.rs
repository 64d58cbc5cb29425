//! Where copies are kept, and who shares them.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use hugetext_host::{FileState, PublicTmpfs, lease};
use hugetext_leaf::{CopyName, Leaf, Run};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Uid, fallocate, fchmod, fchown,
    ftruncate, mkdirat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::copy::{Blueprint, CopyError, HugeCopy};
use crate::engine::copy_name;
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
        let shown = self.registry.as_ref().and_then(|registry| {
            let directory = registry.0.shown_to(blueprint.target.pid()).ok()?;
            Some((registry, directory))
        });
        if let Some((registry, directory)) = shown {
            let (copy, is_new) = registry.get(blueprint, &directory)?;
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

    /// Forgets the copies in memory files. They end with the processes that map them, and no other will share them.
    pub fn forget_in_memory(&mut self) {
        self.in_memory.clear();
    }
}

/// Whether this process can give copies a path where profilers find them. Makes the place for them.
pub fn can_show_copies() -> bool {
    PublicTmpfs::at(Path::new(PLACE)).is_ok()
}

/// Gives back the memory of copies that no process maps any more. Their symbols stay for a while.
pub fn give_back_unused() {
    if let Ok(Some(tmpfs)) = PublicTmpfs::found(Path::new(PLACE)) {
        Registry(tmpfs).give_back_unused();
    }
}

fn is_kept(name: &CopyName) -> bool {
    (0..MOST_OF_A_NAME)
        .map(|number| {
            Path::new(PLACE)
                .join(directory(name, number))
                .join(basename(name))
        })
        .map_while(|path| std::fs::metadata(path).ok())
        .any(|copy| has_content(&copy, name))
}

/// Whether a copy has its memory. Without it, what is left are the symbols.
fn has_content(copy: &Metadata, name: &CopyName) -> bool {
    copy.blocks().saturating_mul(512) >= name.len
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

/// Copies in a tmpfs, one directory each.
#[derive(Debug)]
struct Registry(PublicTmpfs);

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
const WRITE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl Registry {
    /// The copy, opened through `shown`, the directory as the process finds it.
    fn get(
        &self,
        blueprint: &Blueprint<'_>,
        shown: &OwnedFd,
    ) -> Result<(HugeCopy, bool), CopyError> {
        let name = &blueprint.name;
        let open = |number| {
            let path = format!("{}/{}", directory(name, number), basename(name));
            openat(shown, path, READ, Mode::empty()).map(File::from)
        };
        let copy = |file| HugeCopy::of(file, blueprint.windows(), blueprint.leaf);
        for number in 0..MOST_OF_A_NAME {
            let is_new = match open(number) {
                Err(Errno::NOENT) => self.make(blueprint, number)?,
                Err(_) => false,
                Ok(file) => self.fill_again(blueprint, number, file)?,
            };
            // Another hugetext may have made a directory of that name meanwhile.
            if let Ok(file) = open(number)
                && (is_new || blueprint.is_in(&file))
            {
                return Ok((copy(file)?, is_new));
            }
        }
        Err(CopyError::Create(io::ErrorKind::AlreadyExists.into()))
    }

    /// Makes the copy under a number; `false` if there is one already.
    fn make(&self, blueprint: &Blueprint<'_>, number: u32) -> Result<bool, CopyError> {
        let own = format!(".{}.{number}", std::process::id());
        let create = |error: Errno| CopyError::Create(error.into());
        let root = self.0.writable();
        let _ = self.remove(&own);
        mkdirat(root, &own, Mode::from_raw_mode(0o755)).map_err(create)?;
        let path = format!("{own}/{}", basename(&blueprint.name));
        let made = openat(
            root,
            &path,
            WRITE | OFlags::CREATE | OFlags::EXCL,
            Mode::RUSR,
        )
        .map_err(create)
        .and_then(|file| self.finish(blueprint, &File::from(file)))
        .and_then(|()| {
            let name = directory(&blueprint.name, number);
            match renameat_with(root, &own, root, name, RenameFlags::NOREPLACE) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(error) => Err(create(error)),
            }
        });
        if !matches!(made, Ok(true)) {
            let _ = self.remove(&own);
        }
        made
    }

    /// Fills a copy whose memory was given back, under the path that profiles have recorded. `false` if
    /// it has its content, or somebody else fills it.
    fn fill_again(
        &self,
        blueprint: &Blueprint<'_>,
        number: u32,
        found: File,
    ) -> Result<bool, CopyError> {
        let is_whole = |file: &File| {
            let metadata = file.metadata();
            metadata.is_ok_and(|metadata| has_content(&metadata, &blueprint.name))
        };
        if is_whole(&found) {
            return Ok(false);
        }
        // An open file would prevent the lease.
        drop(found);
        let directory = directory(&blueprint.name, number);
        let Some((_, file)) = self.only_file(&directory) else {
            return Ok(false);
        };
        if !lease(&file).unwrap_or(false) || is_whole(&file) {
            return Ok(false);
        }
        // Nobody maps it, and nobody can open it before `file` is closed. The program may have been
        // rewritten in place since, so nothing of the old file stays.
        let emptied = ftruncate(&file, 0).map_err(|error| CopyError::Create(error.into()));
        let filled = emptied.and_then(|()| self.finish(blueprint, &file));
        if filled.is_err() {
            let _ = self.remove(&directory);
        }
        filled.map(|()| true)
    }

    /// Fills a copy, and lets those read it who may read the program.
    fn finish(&self, blueprint: &Blueprint<'_>, file: &File) -> Result<(), CopyError> {
        blueprint.write(file)?;
        let program = blueprint.program.metadata().map_err(CopyError::Read)?;
        let (user, group) = (Uid::from_raw(program.uid()), Gid::from_raw(program.gid()));
        fchown(file, Some(user), Some(group))
            .and_then(|()| fchmod(file, Mode::from_raw_mode(program.mode() & 0o444)))
            .map_err(|error| CopyError::Create(error.into()))?;
        let file = file.try_clone().map_err(CopyError::Create)?;
        HugeCopy::of(file, blueprint.windows(), blueprint.leaf).map(drop)
    }

    fn give_back_unused(&self) {
        let mut unused = Vec::new();
        for directory in names(self.0.writable()) {
            let Some((path, file)) = self.only_file(&directory) else {
                // A directory without a file belongs to a hugetext that works, or was killed.
                let _ = unlinkat(self.0.writable(), &directory, AtFlags::REMOVEDIR);
                continue;
            };
            if !lease(&file).unwrap_or(false) {
                continue;
            }
            // Nobody maps it, and nobody can open it before `file` is closed.
            let parsed: Option<CopyName> = directory.parse().ok();
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let punched = parsed.map(|name| fallocate(&file, punch, name.at, name.len));
            match punched {
                Some(Ok(())) => {
                    let made = file.metadata().map_or(0, |metadata| metadata.mtime());
                    unused.push((made, directory));
                }
                _ => {
                    let _ = unlinkat(self.0.writable(), &path, AtFlags::empty());
                    let _ = self.remove(&directory);
                }
            }
        }
        unused.sort();
        for (_, directory) in unused.iter().rev().skip(KEPT) {
            let _ = self.remove(directory);
        }
    }

    /// The file in a directory, open for writing.
    fn only_file(&self, directory: &str) -> Option<(String, File)> {
        let root = self.0.writable();
        let opened = openat(root, directory, READ | OFlags::DIRECTORY, Mode::empty()).ok()?;
        let name = names(opened.as_fd()).into_iter().next()?;
        let path = format!("{directory}/{name}");
        let file = openat(root, &path, WRITE, Mode::empty()).ok()?;
        Some((path, file.into()))
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
