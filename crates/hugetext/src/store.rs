//! `hugetext store`: lists, checks and removes the copies of programs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hugetext_elf::{CoreDump, CoreError};
use hugetext_engine::prepare::user_store_root;
use hugetext_host::open_regular;
use hugetext_store::{Collected, EntryInfo, Flaw, Store, StoreError};

use crate::documents::store::{RanFile, StoreListing, StoreRemoval, StoreVerification};
use crate::failure::Failure;
use crate::meaning;
use crate::output::Output;
use crate::path::shown;
use crate::size::Size;
use crate::table::{bytes, figures};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the store [default: the store of the user]
    #[arg(long, value_name = "DIR", global = true)]
    store: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the copies, least recently used first
    Ls,
    /// Remove leftovers and the least recently used copies beyond the limit
    Gc {
        /// Limit the copies to this many bytes from now on, such as 500M or 8G
        #[arg(long, value_name = "SIZE")]
        limit: Option<Size>,
    },
    /// Remove copies; running programs keep what they have mapped
    Rm {
        /// Keys of copies, beginnings of keys, or paths of originals
        #[arg(required_unless_present = "all")]
        entries: Vec<String>,
        /// Remove all copies
        #[arg(long, conflicts_with = "entries")]
        all: bool,
    },
    /// Print the path of the copy that ran instead of a program, for debuggers and profilers
    ///
    /// gdb "$(hugetext store path core)" core: the file that ran when the core dump was written, a copy or not.
    /// perf buildid-cache -u "$(hugetext store path ./prog)": before `perf report`.
    Path {
        /// A core dump, or the original
        file: PathBuf,
    },
    /// Compare every copy with the content that was written; exit with 1 if one differs
    Verify,
}

/// Length of a key on display: enough to tell copies apart, and to name one to `rm`.
const SHORT: usize = 12;

/// Answers `hugetext store`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let root = match &arguments.store {
        Some(root) => root.clone(),
        None => user_store_root()?,
    };
    let store = Store::open(&root).map_err(failure)?;
    let needed = store
        .as_ref()
        .ok_or_else(|| Failure::at(&root, "no store").remedy("`hugetext run` makes one"));
    match &arguments.task {
        Task::Ls => list(needed?, output),
        Task::Gc { limit } => collect(needed?, *limit, output),
        Task::Rm { entries, all } => remove(needed?, entries, *all, output),
        // A core dump may be of a program that ran as it was.
        Task::Path { file } => path(store.as_ref(), file, output),
        Task::Verify => verify(needed?, output),
    }
}

fn failure(error: StoreError) -> Failure {
    error.into()
}

fn list(store: &Store, output: &Output) -> Result<Verdict, Failure> {
    let listing = StoreListing {
        store: store.root().to_owned(),
        limit: store.limit().map_err(failure)?,
        entries: store.entries().map_err(failure)?,
    };
    output.result("store ls", &listing, |listing| {
        let total: u64 = listing.entries.iter().map(|entry| entry.size).sum();
        let root = shown(&listing.store);
        let meaning = meaning::copies(listing.entries.len(), total, listing.limit);
        format!("{}{root}\n{meaning}", rows(&listing.entries))
    })?;
    Ok(Verdict::Done)
}

fn collect(store: &Store, limit: Option<Size>, output: &Output) -> Result<Verdict, Failure> {
    if let Some(limit) = limit {
        store.set_limit(limit.bytes()).map_err(failure)?;
    }
    let collected = store
        .limit()
        .and_then(|limit| store.collect(limit))
        .map_err(failure)?;
    removed(store, "store gc", collected, output)
}

fn remove(store: &Store, names: &[String], all: bool, output: &Output) -> Result<Verdict, Failure> {
    let named = |entry: &EntryInfo, name: &String| {
        entry.path == *name || (name.len() >= 8 && entry.key.starts_with(name.as_str()))
    };
    let known = store.entries().map_err(failure)?;
    let stranger = names
        .iter()
        .find(|name| !known.iter().any(|entry| named(entry, name)));
    if let Some(name) = stranger {
        let failure = Failure::new(name, "not in the store");
        return Err(failure.remedy("`hugetext store ls` lists the copies"));
    }
    let unwanted = |entry: &EntryInfo| all || names.iter().any(|name| named(entry, name));
    let gone = store.remove(unwanted).map_err(failure)?;
    let left = store.entries().map_err(failure)?;
    let collected = Collected {
        removed: gone,
        left: left.iter().map(|entry| entry.size).sum(),
    };
    removed(store, "store rm", collected, output)
}

fn removed(
    store: &Store,
    command: &str,
    collected: Collected,
    output: &Output,
) -> Result<Verdict, Failure> {
    let removal = StoreRemoval {
        store: store.root().to_owned(),
        collected,
    };
    output.result(command, &removal, |removal| {
        let Collected { removed, left } = &removal.collected;
        let meaning = meaning::removed(removed.len(), *left);
        format!("{}{meaning}", rows(removed))
    })?;
    Ok(Verdict::Done)
}

/// Names the file that ran: that of a core dump, or the copy of a file that ran last.
fn path(store: Option<&Store>, file: &Path, output: &Output) -> Result<Verdict, Failure> {
    let read = |error: io::Error| Failure::io(file, &error);
    let opened = open_regular(file).map_err(read)?;
    let ran = match CoreDump::read(&opened) {
        Ok(core) => ran(store, file, &core)?,
        Err(CoreError::NotACore) => {
            let path = file.canonicalize().map_err(read)?;
            copy_of(store, &path, &opened)?
        }
        Err(error) => return Err(Failure::at(file, error)),
    };
    output.result("store path", &ran, |ran| shown(&ran.file))?;
    Ok(Verdict::Done)
}

fn copy_of(store: Option<&Store>, path: &Path, original: &File) -> Result<RanFile, Failure> {
    let copies = store.map(|store| store.copies_of(path, original));
    let mut copies = copies.transpose().map_err(failure)?.unwrap_or_default();
    copies.retain(|entry| !entry.recipe.starts_with("copy-"));
    let copy = copies.pop().ok_or_else(|| {
        let failure = Failure::at(path, "the store has no copy with another layout");
        failure.remedy("the file ran as it is, so tools need no other")
    })?;
    Ok(RanFile {
        file: copy.file.clone(),
        path: path.to_owned(),
        copy: Some(copy),
    })
}

/// The program of a core dump: its own file, one beside it such as a backup, or a copy, whichever begins as its memory did.
fn ran(store: Option<&Store>, dump: &Path, core: &CoreDump) -> Result<RanFile, Failure> {
    // The kernel says so of a file that has no path any more.
    let path = core.path.strip_suffix(b" (deleted)").unwrap_or(&core.path);
    let path = Path::new(OsStr::from_bytes(path));
    let is_it = |file: &Path| {
        let mut head = vec![0; core.head.len()];
        let read = open_regular(file).and_then(|file| file.read_exact_at(&mut head, 0));
        read.is_ok() && head == core.head
    };
    let own = std::iter::once(path.to_owned()).chain(beside(path));
    let mut copies = store
        .map_or(Ok(Vec::new()), Store::entries)
        .map_err(failure)?;
    copies.sort_by_key(|entry| Path::new(&entry.path) == path);
    let (file, copy) = match own.into_iter().find(|file| is_it(file)) {
        Some(file) => (file, None),
        None => {
            let copy = copies.into_iter().rfind(|entry| is_it(&entry.file));
            let copy = copy.ok_or_else(|| not_here(dump, path))?;
            (copy.file.clone(), Some(copy))
        }
    };
    Ok(RanFile {
        file,
        path: path.to_owned(),
        copy,
    })
}

/// The files whose names begin as that of the program: `fix --backup` keeps the old one there.
fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    let (directory, name) = (path.parent(), path.file_name().unwrap_or_default());
    let listed = directory.and_then(|directory| directory.read_dir().ok());
    let files = listed.into_iter().flatten().flatten();
    let alike = files.filter(|file| file.file_name().as_bytes().starts_with(name.as_bytes()));
    alike.map(|file| file.path())
}

fn not_here(dump: &Path, path: &Path) -> Failure {
    let path = shown(path);
    let problem = format!("neither {path} nor a copy of this store is the file that ran");
    Failure::at(dump, problem).remedy("--store names another store")
}

fn verify(store: &Store, output: &Output) -> Result<Verdict, Failure> {
    let verification = StoreVerification {
        store: store.root().to_owned(),
        entries: store.entries().map_err(failure)?.len(),
        flaws: store.verify().map_err(failure)?,
    };
    output.result("store verify", &verification, |verification| {
        let mut text = String::new();
        for Flaw { key, path, problem } in &verification.flaws {
            let key: String = key.chars().take(SHORT).collect();
            if path.is_empty() {
                text.push_str(&format!("{key}: {problem}\n"))
            } else {
                text.push_str(&format!("{path}: its copy {key}: {problem}\n"))
            }
        }
        let bad = verification.flaws.len();
        let first = verification.flaws.first().map(|flaw| flaw.key.as_str());
        text.push_str(&meaning::verified(verification.entries, bad, first).to_string());
        text
    })?;
    if verification.flaws.is_empty() {
        Ok(Verdict::Done)
    } else {
        Ok(Verdict::No)
    }
}

/// The entries as a table; empty if there are none.
fn rows(entries: &[EntryInfo]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let rows = entries.iter().map(|entry| {
        vec![
            entry.key.chars().take(SHORT).collect(),
            bytes(entry.size),
            entry.recipe.clone(),
            entry.path.clone(),
        ]
    });
    let header = ["key", "size", "made by", "original"];
    figures(&header, &[0, 2, 3], rows.collect()) + "\n"
}
