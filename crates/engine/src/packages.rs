//! Which package a file belongs to. A package manager reads all its lists for one answer, so none is asked twice about a file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::voucher::Voucher;

/// The package managers of this machine, and what they have answered.
#[derive(Debug)]
pub(crate) struct Packages {
    dpkg: PathBuf,
    rpm: PathBuf,
    /// By path without symbolic links.
    answers: Mutex<HashMap<PathBuf, Option<Voucher>>>,
}

impl Packages {
    /// Those that this process finds. Nothing is asked yet.
    pub(crate) fn here() -> Packages {
        Packages {
            dpkg: "dpkg-query".into(),
            rpm: "rpm".into(),
            answers: Mutex::default(),
        }
    }

    /// The package of the file at `path`. Only an audit of the system notices a changed file.
    pub(crate) fn package_of(&self, path: &Path) -> Option<Voucher> {
        let path = fs::canonicalize(path).ok()?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(&path) {
            return answer.clone();
        }
        let names = names(&path);
        let answer =
            dpkg(&self.dpkg, &names).or_else(|| names.iter().find_map(|name| rpm(&self.rpm, name)));
        answers.insert(path, answer.clone());
        answer
    }
}

/// The names by which a package may list a file: where /lib is a link to /usr/lib, packages may still list /lib.
fn names(path: &Path) -> Vec<PathBuf> {
    let without_usr = path.strip_prefix("/usr").ok();
    let without_usr = without_usr.map(|rest| Path::new("/").join(rest));
    [path.to_owned()].into_iter().chain(without_usr).collect()
}

fn dpkg(query: &Path, names: &[PathBuf]) -> Option<Voucher> {
    let patterns = names.iter().map(|name| pattern(name));
    // It fails if one of the names is listed nowhere.
    let output = Command::new(query).arg("-S").args(patterns).output();
    let said = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let owner = said.lines().find(|line| !line.starts_with("diversion "))?;
    let (name, _) = owner.split_once(": ")?;
    Some(Voucher::Package {
        name: name.to_owned(),
        manager: "dpkg",
    })
}

/// dpkg-query takes patterns, so special characters are escaped.
fn pattern(name: &Path) -> OsString {
    let mut pattern = Vec::new();
    for byte in name.as_os_str().as_bytes() {
        if b"*?[]\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    OsString::from_vec(pattern)
}

fn rpm(query: &Path, name: &Path) -> Option<Voucher> {
    let mut asked = Command::new(query);
    asked.args(["-qf", "--queryformat", "%{NAME}\\n"]).arg(name);
    let output = asked.output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = said.lines().next().filter(|_| output.status.success())?;
    Some(Voucher::Package {
        name: name.to_owned(),
        manager: "rpm",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package manager that knows one file, by its name in a list, and counts how often it is asked.
    fn manager(directory: &Path, listed: &Path) -> PathBuf {
        let path = directory.join("query");
        let script = format!(
            "#!/bin/sh\necho >> {0}/asked\nfor name; do [ \"$name\" = {1} ] && echo \"diversion by a from: $name\" && echo \"a:amd64, b: $name\"; done\nexit 1\n",
            directory.display(),
            listed.display()
        );
        // Another process writes it: what this one has open for writing, nobody can execute.
        let made = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(&path)
            .arg(script)
            .status();
        assert!(made.unwrap().success());
        path
    }

    #[test]
    fn nobody_is_asked_twice_about_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(directory.path()).unwrap();
        for name in ["listed", "stranger"] {
            fs::write(at.join(name), "x").unwrap();
        }
        let packages = Packages {
            dpkg: manager(&at, &at.join("listed")),
            rpm: at.join("none"),
            answers: Mutex::default(),
        };
        let found = Voucher::Package {
            name: "a:amd64, b".to_owned(),
            manager: "dpkg",
        };
        for (name, expected) in [("listed", Some(found)), ("stranger", None)] {
            for _ in 0..3 {
                assert_eq!(packages.package_of(&at.join(name)), expected);
            }
        }
        let asked = fs::read(at.join("asked")).unwrap();
        assert_eq!(asked, b"\n\n", "once about each file");
    }

    #[test]
    fn both_names_of_a_file_are_asked_for_at_once() {
        let expected = ["/usr/lib/a", "/lib/a"].map(PathBuf::from);
        assert_eq!(names(Path::new("/usr/lib/a")), expected);
        assert_eq!(names(Path::new("/opt/a")), [PathBuf::from("/opt/a")]);
        assert_eq!(pattern(Path::new("/a*[b]")), r"/a\*\[b\]");
    }
}
