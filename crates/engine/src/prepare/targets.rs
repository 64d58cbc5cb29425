//! Finds the files that can gain.

use hugetext_host::names::shown;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hugetext_leaf::{FileId, Leaf};
use hugetext_loader::{Closure, ClosureError, Environment, Finder, Loader};

use super::resolve;
use crate::error::plain;
use crate::problem::Problem;
use crate::program::is_native;
use crate::tree;

/// The files to prepare, and the errors of the search.
#[derive(Debug)]
pub struct Targets<'e> {
    /// Programs, then the libraries that they need, that are long enough for a window of text. Each
    /// inode is listed once.
    pub files: Vec<PathBuf>,
    /// Files that are too short.
    pub small: Vec<PathBuf>,
    /// What could not be followed.
    pub problems: Vec<Problem>,
    seen: HashSet<FileId>,
    finder: Finder<'e>,
    leaf: Leaf,
    merge: bool,
}

impl<'e> Targets<'e> {
    /// An empty set. A window of `leaf` must fit in the text of a file; with `merge`, in the file.
    /// Libraries are those that a program finds in `environment`.
    pub fn new(leaf: Leaf, merge: bool, environment: &'e Environment) -> Targets<'e> {
        Targets {
            files: Vec::new(),
            small: Vec::new(),
            problems: Vec::new(),
            seen: HashSet::new(),
            finder: Finder::new(environment),
            leaf,
            merge,
        }
    }

    /// Adds a program with the libraries that its loader maps at its start.
    pub fn add_program(&mut self, path: &Path) {
        match self.finder.closure(path) {
            Ok(closure) => self.add(path, closure),
            Err(error) => self.problem(plain(error)),
        }
    }

    fn problem(&mut self, line: String) {
        self.problems.push(Problem::line(line));
    }

    fn add(&mut self, path: &Path, closure: Closure) {
        if closure.loader == Loader::Unknown {
            let path = shown(path);
            self.problem(format!(
                "{path}: unknown loader, so its libraries stay as they are"
            ));
        }
        for object in closure.objects {
            let image = &object.image;
            let len = if self.merge {
                image.file_len
            } else {
                image.text_len()
            };
            match (self.seen.insert(object.id), len >= self.leaf.bytes()) {
                (true, true) => self.files.push(object.path),
                (true, false) => self.small.push(object.path),
                (false, _) => {}
            }
        }
    }

    /// Adds a name of `--also`: a path, a glob, a directory to search, or a command on PATH.
    pub fn add_named(&mut self, name: &OsStr) {
        let (paths, exact) = expand(name);
        if paths.is_empty() {
            let name = shown(Path::new(name));
            self.problem(format!("{name}: no file or command has this name"));
        }
        for path in paths {
            if path.is_dir() {
                self.add_directory(&path);
            } else if exact {
                for program in resolve::programs(&path) {
                    self.add_program(&program);
                }
            } else {
                self.add_if_program(&path);
            }
        }
    }

    /// Adds every program and library of this machine in a directory; other files are skipped.
    fn add_directory(&mut self, directory: &Path) {
        for path in tree::entries(directory, FileType::is_file) {
            self.add_if_program(&path);
        }
    }

    fn add_if_program(&mut self, path: &Path) {
        match self.finder.closure(path) {
            Ok(closure) if is_foreign(&closure) => {}
            Ok(closure) => self.add(path, closure),
            Err(ClosureError::Image { source, .. }) if source.is_no_program() => {}
            Err(error) => self.problem(plain(error)),
        }
    }
}

/// Whether the program is for another machine.
fn is_foreign(closure: &Closure) -> bool {
    let program = closure.objects.first();
    program.is_some_and(|program| !is_native(&program.image))
}

/// The paths that a name stands for, and whether it names exactly one.
fn expand(name: &OsStr) -> (Vec<PathBuf>, bool) {
    let pattern = match Path::new(name).strip_prefix("~") {
        Ok(rest) => std::env::home_dir().map(|home| home.join(rest)),
        Err(_) => None,
    };
    let pattern = pattern.unwrap_or_else(|| PathBuf::from(name));
    if pattern.exists() {
        return (vec![pattern], true);
    }
    if !name.as_bytes().contains(&b'/')
        && let Ok(path) = resolve::command(name)
    {
        return (vec![path], true);
    }
    let matches = pattern.to_str().map(glob::glob);
    let Some(Ok(matches)) = matches else {
        return (Vec::new(), false);
    };
    (matches.filter_map(Result::ok).collect(), false)
}
