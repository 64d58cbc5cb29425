//! The command in its own root directory, as in image builds, sbuild, schroot and mock. The root
//! is a directory and not a mount point, and /proc and /sys may be missing.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");

/// A root directory with the command, its libraries, and a copy of the command as the file to
/// check.
struct Root(tempfile::TempDir);

/// The filesystems that are mounted in the root.
#[derive(Clone, Copy)]
enum Mounted {
    Nothing,
    Proc,
    ProcAndSysfs,
}

impl Root {
    /// `None`, with the reason printed, if no root can be entered.
    fn new() -> Option<Root> {
        let root = Root(tempfile::tempdir().unwrap());
        for directory in ["bin", "proc", "sys", "tmp"] {
            fs::create_dir(root.path(directory)).unwrap();
        }
        for file in libraries(Path::new(HUGETEXT)) {
            let copy = root.path(file.strip_prefix("/").unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(file, copy).unwrap();
        }
        fs::copy(HUGETEXT, root.path("bin/hugetext")).unwrap();
        fs::copy(HUGETEXT, root.path("bin/subject")).unwrap();
        let entered = root.run(Mounted::Proc, &["--version"]);
        if !entered.status.success() {
            let reason = String::from_utf8_lossy(&entered.stderr);
            println!("skipped: no chroot with proc here: {}", reason.trim_end());
            return None;
        }
        Some(root)
    }

    fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(inside)
    }

    /// Runs the command with this as its root and with an empty environment. Its mounts are in a
    /// separate namespace.
    fn run(&self, mounted: Mounted, arguments: &[&str]) -> Output {
        let script = match mounted {
            Mounted::Nothing => r#"exec chroot "$0" /bin/hugetext "$@""#,
            Mounted::Proc => {
                r#"mount -t proc proc "$0/proc" && exec chroot "$0" /bin/hugetext "$@""#
            }
            Mounted::ProcAndSysfs => {
                r#"mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" &&
                exec chroot "$0" /bin/hugetext "$@""#
            }
        };
        let mut unshare = Command::new("unshare");
        // A user becomes root of a user namespace. In a chroot, no process may create one.
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            unshare.arg("--map-root-user");
        }
        unshare
            .args(["--mount", "sh", "-c", script])
            .arg(self.0.path())
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        unshare.output().unwrap()
    }

    fn json(&self, mounted: Mounted, arguments: &[&str]) -> Value {
        let output = self.run(mounted, arguments);
        assert_eq!(stderr(&output), "");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The files that the dynamic loader maps for `program`. A static program has none.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    String::from_utf8(listed.stdout)
        .unwrap()
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_answers_as_outside() {
    let Some(root) = Root::new() else { return };
    let outside = Command::new(HUGETEXT)
        .args(["check", "--json"])
        .arg(root.path("bin/subject"))
        .output()
        .unwrap();
    let outside: Value = serde_json::from_slice(&outside.stdout).unwrap();
    for mounted in [Mounted::Proc, Mounted::Nothing] {
        let inside = root.json(mounted, &["check", "--json", "/bin/subject"]);
        for field in ["filesystem", "text", "segments"] {
            assert_eq!(
                inside["files"][0][field], outside["files"][0][field],
                "{field}"
            );
        }
    }
}

#[test]
fn fix_replaces_a_file() {
    let Some(root) = Root::new() else { return };
    for mounted in [Mounted::Proc, Mounted::Nothing] {
        fs::copy(HUGETEXT, root.path("bin/subject")).unwrap();
        let fixed = root.run(mounted, &["fix", "--in-place", "/bin/subject"]);
        assert_eq!(stderr(&fixed), "");
        assert!(fixed.status.success());
        let arguments = ["check", "--same", "/bin/hugetext", "/bin/subject"];
        assert!(root.run(mounted, &arguments).status.success());
    }
    let left = fs::read_dir(root.path("bin")).unwrap().count();
    assert_eq!(left, 2, "no temporary file is left");
}

#[test]
fn run_shows_a_copy_in_place_of_the_program() {
    let Some(root) = Root::new() else { return };
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: in a chroot only root may make a namespace");
        return;
    }
    let reached = |output: &Output| -> u64 {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["summary"]["reached"].as_u64().unwrap()
    };
    let check = ["check", "--json", "/bin/subject"];
    let before = root.run(Mounted::ProcAndSysfs, &check);
    let run = ["run", "-v", "--store", "/tmp/store", "--", "/bin/subject"];
    let output = root.run(Mounted::ProcAndSysfs, &[&run[..], &check].concat());
    let said = stderr(&output);
    if said.contains("no transparent huge pages") {
        println!("skipped: {said}");
        return;
    }
    assert!(!said.contains("no mount namespace"), "{said}");
    assert!(reached(&output) > reached(&before), "{said}");
}

#[test]
fn what_needs_proc_or_sysfs_says_so() {
    let Some(root) = Root::new() else { return };
    for (arguments, remedy) in [
        (
            &["stat", "--all"][..],
            "proc is not mounted; mount it on /proc",
        ),
        (&["stat", "1"], "proc is not mounted; mount it on /proc"),
        (&["warm", "/bin/subject"], "mount sysfs on /sys"),
    ] {
        let output = root.run(Mounted::Nothing, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(remedy), "{}", stderr(&output));
    }
}
