//! A program that needs a fixed copy, a store for it, and ways to run it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use hugetext_host::Namespace;
use tempfile::TempDir;

use crate::session::{HARMLESS, session};

pub(crate) const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");
/// A user who owns no files.
pub(crate) const NOBODY: u32 = 65534;

/// The program, in its own directory.
pub(crate) struct Subject {
    directory: TempDir,
    pub(crate) program: PathBuf,
}

impl Subject {
    /// Compiles the program. `None`, with the reason printed, if it cannot be compiled or if text
    /// on disk cannot be huge here.
    pub(crate) fn build() -> Option<Subject> {
        Subject::build_with(&["-no-pie", "-Wl,--section-start=.text=0x512000"])
    }

    /// The same as a PIE, whose image is moved, so that it needs no copy.
    pub(crate) fn build_pie() -> Option<Subject> {
        Subject::build_with(&["-pie", "-fPIE"])
    }

    /// Compiles a program that has the kernel refuse calls to the command that it executes, or kill it for them.
    pub(crate) fn refuse(&self) -> PathBuf {
        let refuse = self.directory().join("refuse");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/refuse.c");
        let mut compiled = Command::new("cc");
        compiled.args([Path::new("-o"), &refuse, Path::new(source)]);
        assert!(compiled.status().unwrap().success());
        refuse
    }

    /// One of each, as far as they can be compiled.
    pub(crate) fn both() -> Vec<Subject> {
        let both = [Subject::build(), Subject::build_pie()];
        both.into_iter().flatten().collect()
    }

    /// The same, with `options` of the compiler.
    pub(crate) fn build_with(options: &[&str]) -> Option<Subject> {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let program = directory.path().join("subject");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/subject.c");
        let compiled = Command::new("cc")
            .args(["-O1", "-o"])
            .args([&program, Path::new(source)])
            .args(options)
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("skipped: no C compiler");
            return None;
        }
        Some(Subject { directory, program })
    }

    /// Whether copies can be shown here. Prints the reason if they cannot. For example, a user in
    /// a chroot may not create a namespace.
    pub(crate) fn can_be_shown(&self) -> bool {
        let store = self.directory().join("store of a trial");
        let mut run = Command::new(HUGETEXT);
        run.arg("run").arg("--store").arg(store);
        run.arg("--").arg(&self.program).arg("exit");
        let said = text(&run.output().unwrap().stderr);
        let refused = said.contains("no mount namespace");
        if refused {
            println!("skipped: {said}");
        }
        !refused
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `hugetext run` with its own store. The caller adds options and the command.
    pub(crate) fn run(&self) -> Command {
        let mut command = on_a_harmless_machine(self.directory());
        let store = self.directory().join("store");
        command.arg("run").arg("--store").arg(store);
        command
    }

    /// As [`Subject::run`], by a user who is not root and has a store of its own. If root does not
    /// run the test, the user stays the same.
    pub(crate) fn run_as_nobody(&self) -> Command {
        let mut command = on_a_harmless_machine(self.directory());
        let home = self.directory().join("home");
        fs::create_dir_all(&home).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        command.arg("run").arg("--store").arg(home.join("store"));
        command
    }
}

/// The command as on a machine about which such a verdict was found. What is tested of `run` is the same on all.
pub(crate) fn on_a_machine(verdict: &str, directory: &Path) -> Command {
    let mut command = Command::new(HUGETEXT);
    command.env("XDG_RUNTIME_DIR", session(verdict, directory));
    command
}

/// The command as on a machine on which leaves do no harm. What a busy machine found of itself is another matter.
pub(crate) fn on_a_harmless_machine(directory: &Path) -> Command {
    on_a_machine(HARMLESS, directory)
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Runs a shell script as root in a mount namespace of its own, with `directory`, the command and `words` as
/// arguments. unshare(1) cannot do that in a chroot whose root is no mount. An error says that no namespace can
/// be had.
pub(crate) fn in_mount_namespace(
    script: &str,
    directory: &Path,
    words: &[&str],
) -> io::Result<Output> {
    let mut command = Command::new("sh");
    command
        .env("XDG_RUNTIME_DIR", session(HARMLESS, directory))
        .args(["-c", script, "sh"])
        .args([directory, Path::new(HUGETEXT)])
        .args(words)
        .current_dir(directory);
    let apart = || {
        Namespace::Mount.enter()?;
        command.output()
    };
    thread::scope(|scope| scope.spawn(apart).join().unwrap())
}

/// Makes an executable file. Another process writes it. If this process had it open for writing, a
/// child that another test forks would have it open too. The kernel would then refuse to execute
/// it (ETXTBSY).
pub(crate) fn executable(path: &Path, content: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path);
    let mut child = install.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(content.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Runs with a line on standard input.
pub(crate) fn with_input(command: &mut Command) -> Output {
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A command that does not read its input may have ended.
    let _ = child.stdin.take().unwrap().write_all(b"a line\n");
    child.wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The `huge=` figure of the subject, in bytes.
pub(crate) fn huge(output: &Output) -> u64 {
    let text = text(&output.stderr);
    let line = text.lines().find_map(|line| line.strip_prefix("huge="));
    line.unwrap_or_else(|| panic!("no figure in {text}"))
        .parse()
        .unwrap()
}

/// Whether the machine forbids something that the figure needs. Prints the reason.
pub(crate) fn is_excused(output: &Output) -> bool {
    let warned = text(&output.stderr);
    let excuses = [
        "no tmpfs",
        "no mount namespace",
        "no transparent huge pages",
    ];
    let excused = excuses.iter().any(|excuse| warned.contains(excuse));
    if excused {
        println!("skipped: {warned}");
    }
    excused
}
