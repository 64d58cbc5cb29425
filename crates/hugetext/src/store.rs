//! `hugetext store`: lists, checks and removes the copies of programs.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hugetext_engine::prepare::user_store_root;
use hugetext_store::{Collected, EntryInfo, Flaw, Store, StoreError};

use crate::documents::store::{StoreCopy, StoreListing, StoreRemoval, StoreVerification};
use crate::failure::Failure;
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
    /// Print the path of the copy that runs instead of a file, for debuggers and profilers
    ///
    /// gdb "$(hugetext store path ./prog)" core: a core dump of a program that ran as a copy.
    /// perf buildid-cache -u "$(hugetext store path ./prog)": before `perf report`.
    Path {
        /// The original
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
    let Some(store) = Store::open(&root).map_err(failure)? else {
        return Err(Failure::at(&root, "no store").remedy("`hugetext run` makes one"));
    };
    match &arguments.task {
        Task::Ls => list(&store, output),
        Task::Gc { limit } => collect(&store, *limit, output),
        Task::Rm { entries, all } => remove(&store, entries, *all, output),
        Task::Path { file } => copy_of(&store, file, output),
        Task::Verify => verify(&store, output),
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
        let total = listing.entries.iter().map(|entry| entry.size).sum();
        let root = shown(&listing.store);
        let (total, limit) = (bytes(total), bytes(listing.limit));
        format!("{}{root}: {total} of {limit}", rows(&listing.entries))
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
        let count = removed.len();
        format!("{}{count} removed; {} left", rows(removed), bytes(*left))
    })?;
    Ok(Verdict::Done)
}

/// Names the copy of a file that ran last.
fn copy_of(store: &Store, file: &Path, output: &Output) -> Result<Verdict, Failure> {
    let path = file
        .canonicalize()
        .map_err(|error| Failure::io(file, &error))?;
    let mut copies = store.entries().map_err(failure)?.into_iter();
    let copy =
        copies.rfind(|entry| Path::new(&entry.path) == path && !entry.recipe.starts_with("copy-"));
    let Some(copy) = copy else {
        let failure = Failure::at(file, "the store has no copy with another layout");
        return Err(failure.remedy("the file ran as it is, so tools need no other"));
    };
    output.result("store path", &StoreCopy(copy), |StoreCopy(copy)| {
        shown(&copy.file)
    })?;
    Ok(Verdict::Done)
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
        let (bad, all) = (verification.flaws.len(), verification.entries);
        text.push_str(&format!("{} of {all} sound", all.saturating_sub(bad)));
        if bad > 0 {
            text.push_str("; `hugetext store rm KEY` removes a copy; the next run makes a new one");
        }
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
