//! Resolves a command's name to the programs that would run.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hugetext_host::{Guard, may_execute, open_regular};

use super::script;

/// How many interpreters of interpreters are followed; the kernel follows five
/// (fs/exec.c, exec_binprm()).
const MAX_CHAIN: usize = 8;
/// How many bytes of a script the kernel reads (BINPRM_BUF_SIZE).
const SCRIPT_HEAD: u64 = 256;

/// How many bytes of a shell script are searched for the programs that it executes.
const SCRIPT_LENGTH: u64 = 256 << 10;
/// The shells whose scripts are searched.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "mksh", "zsh"];

/// The file that execvp(3) would execute for `name`.
pub fn command(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return may_execute(&path).map(|()| path);
    }
    if name.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for directory in std::env::split_paths(&path) {
        // An empty element is the working directory.
        let candidate = if directory.as_os_str().is_empty() {
            Path::new(".").join(name)
        } else {
            directory.join(name)
        };
        match may_execute(&candidate) {
            Ok(()) => return Ok(candidate),
            // As in execvp(3), a file that may not be executed is skipped, but remembered for the
            // error.
            Err(other) if other.kind() == io::ErrorKind::PermissionDenied => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

/// The programs that executing `path` runs: the program itself. For a script: its interpreter, the
/// program that `env` is told to run, and the programs that a shell script replaces itself by with
/// `exec`, as far as the script shows. They are not checked to be programs.
pub fn programs(path: &Path) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    let mut seen = HashSet::new();
    let mut next = vec![path.to_owned()];
    while let Some(path) = next.pop() {
        if programs.len() >= MAX_CHAIN || !seen.insert(path.clone()) {
            continue;
        }
        match script_head(&path).as_deref().and_then(interpreter) {
            None => programs.push(path),
            Some((interpreter, argument)) if interpreter.file_name() == Some(OsStr::new("env")) => {
                programs.push(interpreter);
                let name = env_command(&argument);
                next.extend(name.and_then(|name| command(&name).ok()));
            }
            Some((interpreter, _)) => {
                if is_shell(&interpreter) {
                    let mut handed = handed_over(&path);
                    handed.reverse();
                    next.append(&mut handed);
                }
                next.push(interpreter);
            }
        }
    }
    programs
}

/// Whether a file is a shell script, which mostly starts another program.
pub fn is_shell_script(path: &Path) -> bool {
    let head = script_head(path);
    let found = head.as_deref().and_then(interpreter);
    found.is_some_and(|(interpreter, _)| is_shell(&interpreter))
}

fn is_shell(interpreter: &Path) -> bool {
    let name = interpreter.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| SHELLS.contains(&name))
}

/// The existing programs that a script names after `exec`.
fn handed_over(script: &Path) -> Vec<PathBuf> {
    let read = || {
        let script = std::fs::canonicalize(script).ok()?;
        let mut text = Vec::new();
        let file = open_regular(&script).ok()?;
        file.take(SCRIPT_LENGTH).read_to_end(&mut text).ok()?;
        Some((script, text))
    };
    let Some((script, text)) = read() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&text);
    let environment = |name: &str| std::env::var(name).ok();
    let words = script::executed(&script, &text, environment);
    words
        .iter()
        .filter_map(|word| command(OsStr::new(word)).ok())
        .collect()
}

fn script_head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let file = open_regular(path).ok()?;
    file.take(SCRIPT_HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The interpreter and the rest of a `#!` line (fs/binfmt_script.c).
fn interpreter(head: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte));
    let (path, argument) = line.split_at(end.unwrap_or(line.len()));
    if path.is_empty() {
        return None;
    }
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    Some((path, argument.trim_ascii().to_vec()))
}

/// The command in the arguments of env(1), as far as a `#!` line can name it.
fn env_command(argument: &[u8]) -> Option<OsString> {
    let words = argument.split(|byte| byte.is_ascii_whitespace());
    let word = words
        .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
        .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))?;
    Some(OsString::from_vec(word.to_vec()))
}

/// Whether executing the program changes the user, group or capabilities. Such a program runs as
/// if it were called directly, because a namespace could change what its capabilities permit.
pub(super) fn changes_user(program: &Path) -> bool {
    let guards = open_regular(program).and_then(|file| Guard::of(&file));
    guards.is_ok_and(|guards| guards.contains(&Guard::Privileged))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(String, String)> {
        let (path, argument) = interpreter(line.as_bytes())?;
        let argument = String::from_utf8(argument).unwrap();
        Some((path.to_str().unwrap().to_owned(), argument))
    }

    #[test]
    fn reads_interpreter_lines_as_the_kernel_does() {
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(parsed("#!/bin/sh\n"), pair("/bin/sh", ""));
        assert_eq!(parsed("#! /bin/sh -e -u \nx"), pair("/bin/sh", "-e -u"));
        assert_eq!(parsed("#!/bin/sh"), pair("/bin/sh", ""));
        assert_eq!(parsed("\x7fELF"), None);
        assert_eq!(parsed("#!\n/bin/sh"), None);
    }

    #[test]
    fn finds_the_command_of_env() {
        let command =
            |text: &str| env_command(text.as_bytes()).map(|name| name.into_string().unwrap());
        assert_eq!(command("python3"), Some("python3".to_owned()));
        assert_eq!(command("-S node --flag"), Some("node".to_owned()));
        assert_eq!(command("-Snode"), Some("node".to_owned()));
        assert_eq!(command("-i A=b perl -w"), Some("perl".to_owned()));
        assert_eq!(command(""), None);
    }

    #[test]
    fn a_script_stands_for_its_interpreters() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let set_mode = |path: &Path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(path, mode).unwrap();
        };
        let inner = write("inner", "#!/bin/sh\n".to_owned());
        let outer = write("outer", format!("#!{} -x\n", inner.display()));
        assert_eq!(programs(&outer), [PathBuf::from("/bin/sh")]);
        let with_env = write("env", "#!/usr/bin/env sh\n".to_owned());
        let found = programs(&with_env);
        assert_eq!(found.len(), 2);
        assert!(found[1].ends_with("sh"));
        set_mode(&inner);
        let launcher = write(
            "launcher",
            format!("#!/bin/sh\nexec {} x\n", inner.display()),
        );
        assert_eq!(programs(&launcher), [PathBuf::from("/bin/sh")]);
        let launcher = write(
            "other",
            "#!/bin/sh\nPROGRAM=cat\nexec $PROGRAM x\n".to_owned(),
        );
        let found = programs(&launcher);
        assert_eq!(found.len(), 2);
        assert!(found[1].ends_with("cat"));
        let own = directory.path().join("loop");
        std::fs::write(&own, format!("#!{}\n", own.display())).unwrap();
        assert!(programs(&own).is_empty());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert_eq!(programs(&pipe), [pipe.as_path()]);
        assert!(!is_shell_script(&pipe) && handed_over(&pipe).is_empty());
    }

    #[test]
    fn tells_what_is_not_there_from_what_may_not_run() {
        let kind = |name: &str| command(OsStr::new(name)).unwrap_err().kind();
        assert_eq!(kind("no-such-command-anywhere"), io::ErrorKind::NotFound);
        assert_eq!(kind("/etc/passwd"), io::ErrorKind::PermissionDenied);
        assert_eq!(kind("/etc"), io::ErrorKind::PermissionDenied);
        assert!(command(OsStr::new("sh")).is_ok());
    }
}
