//! Installed programs print the same version before and after a fix, under their real paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::programs;
use crate::sample::{hugetext, path};

/// The restrictions for a program that may not know the question. No process lives longer than ten
/// seconds or sees another process. Files that it writes to its home disappear with it. It has no
/// input, no network and no terminal. $1 is the program, and $2 is the file that takes its place.
const ASKED: &str = r#"
[ -z "$2" ] || mount --bind "$2" "$1" || exit 99
mount -t tmpfs none /mnt || exit 99
export HOME=/mnt TERM=dumb DISPLAY=
cd / && exec timeout -k 1 10 "$1" --version
"#;

/// Programs that act instead of printing when asked for a version, and programs that print the
/// time.
const UNKIND: [&str; 4] = ["reboot", "shutdown", "poweroff", "halt"];

/// The output and the exit status. `None` if the program cannot be asked.
fn version(program: &Path, stand_in: Option<&Path>) -> Option<(Option<i32>, Vec<u8>)> {
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "--net", "--pid", "--fork"])
        .args(["--mount-proc", "--kill-child", "sh", "-c", ASKED, "sh"])
        .args([path(program), stand_in.map_or("", path)])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let code = output.status.code();
    (code != Some(99)).then_some((code, output.stdout))
}

/// Whether the program prints the same version when the file takes its place. `None` if the
/// program prints no version, or two different answers without the file. Such answers show nothing
/// about the file.
pub(crate) fn is_same(program: &Path, stand_in: &Path) -> Option<bool> {
    let told = |answer: &(Option<i32>, Vec<u8>)| answer.0 == Some(0) && !answer.1.is_empty();
    let before = version(program, None).filter(told)?;
    if version(program, None)? != before {
        return None;
    }
    Some(version(program, Some(stand_in))? == before)
}

/// The programs in the directories where a shell looks for them.
fn commands() -> impl Iterator<Item = PathBuf> {
    let in_path = |program: &PathBuf| {
        let directory = program.parent().and_then(Path::file_name);
        directory.is_some_and(|name| name == "bin" || name == "sbin")
    };
    let kind = |program: &PathBuf| {
        let name = program.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| !UNKIND.iter().any(|unkind| name.contains(unkind)))
    };
    programs().into_iter().filter(in_path).filter(kind)
}

#[test]
#[ignore = "runs every program of the machine; make test-all runs it"]
fn every_command_tells_the_same_version() {
    if version(Path::new("/bin/true"), None).is_none_or(|(code, _)| code != Some(0)) {
        println!("skipped: no private mounts here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let new = directory.path().join("new");
    let (mut same, mut silent, mut other) = (0, 0, Vec::new());
    for program in commands() {
        let merge = ["--strategy", "merge", "--geometry", "arm64-4k"];
        let arguments = [
            &["-q", "fix", path(&program)],
            &merge[..],
            &["-o", path(&new)],
        ];
        if !hugetext(&arguments.concat()).status.success() {
            continue;
        }
        match is_same(&program, &new) {
            None => silent += 1,
            Some(true) => same += 1,
            Some(false) => other.push(program),
        }
        fs::remove_file(&new).unwrap();
    }
    println!("{same} tell the same version, {silent} tell none");
    assert!(other.is_empty(), "{other:?}");
    assert!(same > 0);
}
