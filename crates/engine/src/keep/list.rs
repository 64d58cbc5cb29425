//! The lists of files to keep warm: small TOML files in /etc and in the user's configuration.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_host::{is_root, read_regular, read_trusted, replace_with};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unit;
use crate::error::Error;
use crate::program::Program;
use crate::user;

/// Root's lists.
const SYSTEM: &str = "/etc/hugetext/keep.d";

/// One list. The named programs are warmed with the libraries that they need.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepList {
    /// Paths and globs of programs and libraries, and directories to search.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Installed packages (dpkg or rpm), with all their programs and libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// systemd units, with their ExecStart programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
}

impl KeepList {
    /// A list of these files. TOML holds names in UTF-8 alone.
    pub fn of_paths(paths: impl Iterator<Item = String>) -> KeepList {
        KeepList {
            paths: paths.collect(),
            ..KeepList::default()
        }
    }

    /// Reads one file; the list is empty if the file is missing. It says what is held in memory, so root takes it from
    /// nobody else. Users may share theirs.
    pub fn read(path: &Path) -> Result<KeepList, Error> {
        const LONGEST: u64 = 16 << 20;
        let read = if is_root() {
            read_trusted(path, LONGEST)
        } else {
            read_regular(path)
        };
        let text = match read {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeepList::default()),
            Err(error) => return Err(Error::io(path)(error)),
        };
        toml::from_str(&text).map_err(|error| Error::KeepList {
            place: match line(&text, &error) {
                Some(line) => format!("{}:{line}", path.display()),
                None => path.display().to_string(),
            },
            problem: error.message().to_owned(),
        })
    }

    /// Writes the list, replacing an existing file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = toml::to_string_pretty(self).map_err(|error| Error::KeepList {
            place: path.display().to_string(),
            problem: error.to_string(),
        })?;
        replace_with(path, text.as_bytes()).map_err(|source| Error::Replace {
            path: path.to_owned(),
            source,
        })
    }

    /// Adds the entries of another.
    fn extend(&mut self, other: KeepList) {
        self.paths.extend(other.paths);
        self.packages.extend(other.packages);
        self.units.extend(other.units);
    }

    /// The names to prepare, in the form of `run --also`, and those that are not installed, one
    /// line each.
    pub fn names(&self) -> (BTreeSet<String>, Vec<String>) {
        let mut names: BTreeSet<String> = self.paths.iter().cloned().collect();
        let mut problems = Vec::new();
        for package in &self.packages {
            match package_files(package) {
                Some(files) => names.extend(files),
                None => problems.push(format!("{package}: no such package installed")),
            }
        }
        for unit in &self.units {
            match unit::programs(unit) {
                Some(programs) if programs.is_empty() => {
                    problems.push(format!("{unit}: it starts no program"));
                }
                Some(programs) => names.extend(programs),
                None => problems.push(format!("{unit}: no such unit")),
            }
        }
        (names, problems)
    }
}

/// The directories of lists: root's, and the user's own.
pub fn list_directories() -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::from(SYSTEM)];
    directories.extend(own_list_directory().filter(|own| own != Path::new(SYSTEM)));
    directories
}

/// The directory of the user's own lists.
pub fn own_list_directory() -> Option<PathBuf> {
    if hugetext_host::is_root() {
        return Some(PathBuf::from(SYSTEM));
    }
    let base = user::directory("XDG_CONFIG_HOME", ".config");
    base.map(|base| base.join("hugetext/keep.d"))
}

/// The number of the line of `text` that an error concerns, from 1.
fn line(text: &str, error: &toml::de::Error) -> Option<usize> {
    let before = text.as_bytes().get(..error.span()?.start)?;
    Some(before.iter().filter(|byte| **byte == b'\n').count() + 1)
}

/// All lists in `directories` as one, and the errors of unreadable ones. A directory may be
/// missing.
pub fn read_lists(directories: &[PathBuf]) -> (KeepList, Vec<Error>) {
    let mut all = KeepList::default();
    let mut failures = Vec::new();
    for directory in directories {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                failures.push(Error::io(directory)(error));
                continue;
            }
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "toml")
            })
            .collect();
        files.sort();
        for file in files {
            match KeepList::read(&file) {
                Ok(list) => all.extend(list),
                Err(failure) => failures.push(failure),
            }
        }
    }
    (all, failures)
}

/// The regular files of a package that could be programs or libraries.
fn package_files(package: &str) -> Option<Vec<String>> {
    let queries: [&[&str]; 2] = [&["dpkg-query", "-L", package], &["rpm", "-ql", package]];
    let listing = queries.iter().find_map(|query| {
        let (program, arguments) = query.split_first()?;
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then_some(output.stdout)
    })?;
    let listing = String::from_utf8_lossy(&listing).into_owned();
    let files = listing.lines().filter(|line| {
        let path = Path::new(line);
        path.is_file() && Program::read(path).is_ok()
    });
    Some(files.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_being_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.toml");
        assert_eq!(KeepList::read(&path).unwrap(), KeepList::default());
        let list = KeepList {
            paths: vec!["/usr/lib/gcc/*/*/cc1".to_owned()],
            packages: vec!["postgresql-15".to_owned()],
            units: vec!["cron.service".to_owned()],
        };
        list.write(&path).unwrap();
        assert_eq!(KeepList::read(&path).unwrap(), list);
        fs::write(&path, "paths = []\npath = [\"misspelt\"]").unwrap();
        let (all, failures) = read_lists(&[directory.path().to_owned()]);
        assert_eq!(all, KeepList::default());
        let [failure] = failures.as_slice() else {
            panic!("{failures:?}");
        };
        let place = format!("{}:2: unknown field `path`", path.display());
        assert!(failure.to_string().starts_with(&place), "{failure}");
    }

    #[test]
    fn root_reads_no_list_that_others_could_have_written() {
        use std::os::unix::fs::PermissionsExt;
        if !is_root() {
            return println!("skipped: for root alone");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.toml");
        let list = KeepList::of_paths(std::iter::once("/usr/bin/cc".to_owned()));
        list.write(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).unwrap();
        let (all, failures) = read_lists(&[directory.path().to_owned()]);
        assert_eq!(all, KeepList::default());
        let [failure] = failures.as_slice() else {
            panic!("{failures:?}");
        };
        assert!(
            failure.to_string().contains("others may write to it"),
            "{failure}"
        );
    }

    #[test]
    fn what_is_not_installed_is_said() {
        let list = KeepList {
            packages: vec!["no-such-package".to_owned()],
            units: vec!["no-such.service".to_owned()],
            ..KeepList::default()
        };
        let (names, problems) = list.names();
        assert!(names.is_empty());
        assert_eq!(problems.len(), 2);
    }
}
