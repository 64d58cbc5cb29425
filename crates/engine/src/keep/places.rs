//! The changes after which a list may name other files: every existing directory in which its
//! entries are looked up, with the names in it that matter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::path::{Component, Path, PathBuf};

use glob::Pattern;
use hugetext_host::Change;

use super::list::KeepList;
use super::unit;
use crate::tree;

/// Names in one directory.
#[derive(Debug, Default)]
struct Names {
    any: bool,
    exact: BTreeSet<OsString>,
    patterns: Vec<Pattern>,
}

impl Names {
    fn contain(&self, name: &OsStr) -> bool {
        let text = name.to_string_lossy();
        self.any
            || self.exact.contains(name)
            || self.patterns.iter().any(|pattern| pattern.matches(&text))
    }
}

/// The directories to watch, with the names in them that matter.
#[derive(Debug, Default)]
pub struct WatchedPlaces(BTreeMap<PathBuf, Names>);

/// The maximum number of watched directories; the rest is found at the next look.
const MOST: usize = 4096;

/// A path with more symbolic links is a loop (path_resolution(7)).
const LINKS: usize = 40;

/// The files that package managers change after each operation.
const PACKAGES: [&str; 4] = [
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages",
];

impl WatchedPlaces {
    /// The directories of the lists themselves, and of the files that they name.
    pub fn of(list: &KeepList, lists: &[PathBuf]) -> WatchedPlaces {
        let mut places = WatchedPlaces::default();
        for directory in lists {
            places.add(&directory.join("*.toml"));
        }
        for entry in &list.paths {
            places.add_entry(entry);
        }
        if !list.packages.is_empty() {
            PACKAGES.iter().for_each(|path| places.add(Path::new(path)));
        }
        for unit in &list.units {
            unit::files(unit).for_each(|path| places.add(&path));
        }
        places
    }

    /// The lookup of an entry; [`crate::prepare::Targets`] has the possible meanings.
    fn add_entry(&mut self, entry: &str) {
        if let (Some(rest), Some(home)) = (entry.strip_prefix("~/"), std::env::home_dir()) {
            return self.add(&home.join(rest));
        }
        if !entry.contains('/') {
            let path = std::env::var_os("PATH").unwrap_or_default();
            for directory in std::env::split_paths(&path) {
                self.add(&directory.join(entry));
            }
        }
        if let Ok(path) = std::path::absolute(entry) {
            self.add(&path);
        }
    }

    /// Follows an absolute path or a glob, as far as it exists.
    pub fn add(&mut self, path: &Path) {
        self.follow(PathBuf::from("/"), steps(path), LINKS);
    }

    fn follow(&mut self, mut directory: PathBuf, mut rest: VecDeque<OsString>, links: usize) {
        while let Some(step) = rest.pop_front() {
            if step == ".." {
                directory.pop();
                continue;
            }
            let here = directory.join(&step);
            let text = step.to_string_lossy().into_owned();
            if text.contains(['*', '?', '[']) && fs::symlink_metadata(&here).is_err() {
                return self.follow_glob(&directory, &text, &rest, links);
            }
            let Some(names) = self.names(&directory) else {
                return;
            };
            names.exact.insert(step);
            if fs::symlink_metadata(&here).is_err() {
                return;
            }
            match fs::read_link(&here) {
                Ok(target) => {
                    let Some(links) = links.checked_sub(1) else {
                        return;
                    };
                    let start = if target.is_absolute() {
                        PathBuf::from("/")
                    } else {
                        directory
                    };
                    let mut steps = steps(&target);
                    steps.append(&mut rest);
                    return self.follow(start, steps, links);
                }
                Err(_) => directory = here,
            }
        }
        self.add_tree(&directory);
    }

    /// The paths that a pattern matches now, and the directories where it may match later.
    fn follow_glob(
        &mut self,
        directory: &Path,
        pattern: &str,
        rest: &VecDeque<OsString>,
        links: usize,
    ) {
        if pattern == "**" {
            return self.add_tree(directory);
        }
        let Ok(pattern) = Pattern::new(pattern) else {
            return;
        };
        let Some(names) = self.names(directory) else {
            return;
        };
        names.patterns.push(pattern.clone());
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if pattern.matches(&name.to_string_lossy()) {
                let mut rest = rest.clone();
                rest.push_front(name);
                self.follow(directory.to_owned(), rest, links);
            }
        }
    }

    /// All names in a directory, if the path is one.
    fn add_tree(&mut self, directory: &Path) {
        for path in tree::entries(directory, FileType::is_dir) {
            match self.names(&path) {
                Some(names) => names.any = true,
                None => return,
            }
        }
    }

    /// The names of a directory; `None` if there are too many already.
    fn names(&mut self, directory: &Path) -> Option<&mut Names> {
        let full = self.0.len() >= MOST && !self.0.contains_key(directory);
        (!full).then(|| self.0.entry(directory.to_owned()).or_default())
    }

    /// The directories to watch.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Whether a listed name may mean other files after a change.
    pub fn concern(&self, change: &Change) -> bool {
        match change {
            Change::Unknown => true,
            Change::Name { directory, name } => {
                let names = self.0.get(directory);
                names.is_some_and(|names| names.contain(name))
            }
        }
    }
}

/// The names of a path, in order, without those that have no effect.
fn steps(path: &Path) -> VecDeque<OsString> {
    let named = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn concerns(places: &WatchedPlaces, path: &Path) -> bool {
        places.concern(&Change::Name {
            directory: path.parent().unwrap().to_owned(),
            name: path.file_name().unwrap().to_owned(),
        })
    }

    #[test]
    fn what_is_not_there_yet_is_awaited_in_the_nearest_directory() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let mut places = WatchedPlaces::default();
        places.add(&root.join("opt/app/bin/program"));
        assert!(concerns(&places, &root.join("opt")));
        assert!(!concerns(&places, &root.join("other")));
        assert!(concerns(&places, &root), "its own removal also counts");

        fs::create_dir_all(root.join("opt/app")).unwrap();
        let mut places = WatchedPlaces::default();
        places.add(&root.join("opt/app/bin/program"));
        assert!(concerns(&places, &root.join("opt/app/bin")));
        assert!(!concerns(&places, &root.join("opt/app/bin/program")));
    }

    #[test]
    fn links_are_watched_where_they_are_and_where_they_lead() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("releases/1/bin")).unwrap();
        fs::write(root.join("releases/1/bin/program"), "").unwrap();
        symlink("releases/1", root.join("current")).unwrap();
        symlink(root.join("current/bin/../bin/program"), root.join("link")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let mut places = WatchedPlaces::default();
        places.add(&root.join("link"));
        places.add(&root.join("loop"));
        for path in ["link", "current", "releases/1", "releases/1/bin/program"] {
            assert!(concerns(&places, &root.join(path)), "{path}");
        }
    }

    #[test]
    fn a_glob_awaits_what_it_would_match() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("gcc/12/bin")).unwrap();
        fs::create_dir_all(root.join("tree/a/b")).unwrap();
        let mut places = WatchedPlaces::default();
        places.add(&root.join("gcc/1?/bin/cc*"));
        places.add(&root.join("tree"));
        places.add(&root.join("[odd"));
        for path in ["gcc/13", "gcc/12/bin", "gcc/12/bin/cc1", "tree/a/b/new"] {
            assert!(concerns(&places, &root.join(path)), "{path}");
        }
        assert!(!concerns(&places, &root.join("gcc/9")));
        assert!(!concerns(&places, &root.join("gcc/12/bin/as")));
    }
}
