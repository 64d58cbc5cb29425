//! Programs on images that were made elsewhere. The times of such files do not show their changes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::subject::{Subject, in_mount_namespace, is_root, text};

/// Mounts one image after the other on the same device and directory. Prints the state of each
/// image's program and runs the program through `run`, which keeps its copies outside the image.
/// $1: directory, $2: command, $3: type, $4: options.
const UPDATE: &str = r#"
set -e
cd "$1"
mkdir -p root
device=$(losetup --find --show image1) || { echo no device; exit 0; }
trap 'umount root 2>/dev/null || true; losetup --detach $device || true' EXIT
for version in 1 2; do
    losetup --detach $device
    losetup $device image$version
    mount -t $3 -o "$4" $device root || { echo no mount; exit 0; }
    stat -c 'state %d %i %s %Y %Z' root/program
    "$2" run --backend cache --store "$1/store" -- "$1/root/program" exit || echo "ran $?"
    umount root
done
"#;

/// The identifier that all images have.
const ID: &str = "7b1a4d0e-9f1c-4f6e-8a55-0c3d0f6c2b11";

/// Makes an image. The arguments are the source directory and the path of the image.
type Maker = fn(&Path, &Path) -> Command;

fn squashfs(from: &Path, image: &Path) -> Command {
    let mut command = Command::new("mksquashfs");
    command.args([from, image]);
    command.args([
        "-all-time",
        "1700000000",
        "-mkfs-time",
        "1700000000",
        "-quiet",
    ]);
    command
}

fn erofs(from: &Path, image: &Path) -> Command {
    let mut command = Command::new("mkfs.erofs");
    command.args(["-T", "1700000000", "-U", ID]);
    command.args([image, from]);
    command
}

fn ext4(from: &Path, image: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = "mke2fs -q -t ext4 -U $3 -E hash_seed=$3,lazy_itable_init=0 -d \"$1\" \"$2\" 40M && \
                  for time in mtime ctime atime; do debugfs -w -R \
                  \"set_inode_field /program $time 20231114221320\" \"$2\"; done";
    command
        .args(["-c", script, "sh"])
        .args([from, image])
        .arg(ID);
    command
}

#[test]
fn an_updated_image_runs_the_updated_program() {
    for (kind, options, make) in [
        ("squashfs", "ro", squashfs as Maker),
        ("erofs", "ro", erofs),
        ("ext4", "ro", ext4),
        ("ext4", "rw", ext4),
    ] {
        let Some(subject) = Subject::build() else {
            return;
        };
        if !is_root() {
            println!("skipped: only root can mount an image");
            return;
        }
        if let Some(said) = update(&subject, kind, options, make) {
            let states: Vec<&str> = said.lines().filter(|l| l.starts_with("state")).collect();
            if states.len() != 2 || states[0] != states[1] {
                println!("skipped: {kind} tells its versions apart by itself: {said}");
                continue;
            }
            let ran: Vec<&str> = said.lines().filter(|l| l.starts_with("ran")).collect();
            assert_eq!(ran, ["ran 42", "ran 43"], "{kind} {options}: {said}");
        }
    }
}

/// The output of the script for two versions of a program that differ only in content.
fn update(subject: &Subject, kind: &str, options: &str, make: Maker) -> Option<String> {
    let directory = subject.directory();
    let tree = directory.join("tree");
    fs::create_dir(&tree).unwrap();
    for version in [1, 2] {
        let program = tree.join("program");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/subject.c");
        let compiled = Command::new("cc")
            .arg(format!("-DSTATUS={}", 41 + version))
            .args(["-O1", "-o"])
            .args([&program, Path::new(source)])
            .status();
        assert!(compiled.unwrap().success());
        let made = make(&tree, &directory.join(format!("image{version}"))).output();
        match made {
            Ok(output) if output.status.success() => {}
            other => {
                println!("skipped: no {kind} image: {other:?}");
                return None;
            }
        }
    }
    let output = match in_mount_namespace(UPDATE, directory, &[kind, options]) {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: no mount namespace: {error}");
            return None;
        }
    };
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("no device") || said.contains("no mount") {
        println!("skipped: {kind} cannot be mounted here: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(said)
}
