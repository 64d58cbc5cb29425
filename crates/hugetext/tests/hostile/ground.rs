//! A program that needs a fix, and a plain user who runs it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::session::{HARMLESS, session};

const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");
/// A user who owns nothing else. The tests run as this user where root starts them.
const NOBODY: u32 = 65534;

/// A directory of the plain user with a program in it that prints `A`.
pub(crate) struct Ground {
    directory: TempDir,
    /// Where the byte that the program prints lies in its file.
    pub(crate) mark: u64,
}

impl Ground {
    /// `None`, with the reason printed, without a C compiler.
    pub(crate) fn new() -> Option<Ground> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let source = "int puts(const char *);\nconst char mark[] = \"MARK:A\";\n\
             __asm__(\".text\\n.balign 4096\\n.globl pad\\npad: .skip 8 << 20, 0x90\\nret\\n\");\n\
             int main(void) { return puts(mark + 5) < 0; }\n";
        let path = directory.path().join("program.c");
        fs::write(&path, source).unwrap();
        let program = directory.path().join("program");
        let mut compiler = Command::new("cc");
        // Its text lies at a fixed address that no leaf fits, so nothing but a copy helps.
        compiler.args(["-w", "-no-pie", "-Wl,-Ttext-segment=0x450000"]);
        let compiled = compiler.args([path.as_path(), Path::new("-o")]);
        if !compiled
            .arg(&program)
            .status()
            .is_ok_and(|status| status.success())
        {
            println!("skipped: no C compiler");
            return None;
        }
        let bytes = fs::read(&program).unwrap();
        let mark = bytes.windows(6).position(|part| part == b"MARK:A").unwrap() + 5;
        let ground = Ground {
            directory,
            mark: mark as u64,
        };
        for path in [ground.path(""), program] {
            ground.give(&path);
        }
        Some(ground)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Makes a file the plain user's.
    pub(crate) fn give(&self, path: &Path) {
        if is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// A copy of the program.
    pub(crate) fn copy(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path("").join(name.as_ref());
        fs::copy(self.path("program"), &path).unwrap();
        self.give(&path);
        path
    }

    /// A command of the plain user, in the directory.
    pub(crate) fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(self.path(""));
        // On a machine where leaves do harm, `run` makes no copy that could be attacked.
        command.env("XDG_RUNTIME_DIR", session(HARMLESS, self.directory.path()));
        command
    }

    /// `hugetext` as the plain user runs it.
    pub(crate) fn hugetext(&self, words: &[&str]) -> Command {
        let mut command = self.plain(HUGETEXT);
        command.args(words);
        command
    }

    /// `hugetext run` of a program with a store.
    pub(crate) fn run(&self, store: &str, program: &Path) -> Command {
        let mut command = self.hugetext(&["run", "--store", store, "--"]);
        command.arg(program);
        command
    }

    /// Asserts that a store is sound, and gives the number of its copies.
    pub(crate) fn sound(&self, store: &str) -> usize {
        let verified = self
            .hugetext(&["store", "--store", store, "verify"])
            .output();
        let verified = verified.unwrap();
        assert!(verified.status.success(), "{verified:?}");
        let entries = fs::read_dir(self.path(store).join("entries"));
        let names = entries.into_iter().flatten().flatten();
        let names = names.filter(|entry| entry.file_name().len() == 64);
        names.count()
    }
}

/// How often something is tried: `all` times if HUGETEXT_HOSTILE is set, as `make test-hostile` does.
pub(crate) fn often(few: usize, all: usize) -> usize {
    if std::env::var_os("HUGETEXT_HOSTILE").is_some() {
        all
    } else {
        few
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Asserts that the program ran as without hugetext.
pub(crate) fn assert_ran(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"A\n", "{output:?}");
}
