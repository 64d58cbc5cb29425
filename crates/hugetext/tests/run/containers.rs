//! Two containers of one image.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::subject::{HUGETEXT, Subject, is_root, text};

/// Two overlays over one lower directory, in a namespace that ends with the shell; prints what the
/// subject in each says of itself.
const TWO_CONTAINERS: &str = r#"
set -e
cd "$1"
mkdir up1 up2 w1 w2 c1 c2
for n in 1 2; do
    mount -t overlay overlay -o "lowerdir=image,upperdir=up$n,workdir=w$n" c$n || { echo no overlay; exit 0; }
done
"$2" warm image/subject >&2 || true
for n in 1 2; do c$n/subject </dev/null 2>&1 >/dev/null; done
"#;

/// A store on an overlay, whose upper layer is then hidden as it is from inside a container.
const STORE_ON_OVERLAY: &str = r#"
set -e
cd "$1"
mkdir lower up work root
mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/up,workdir=$1/work" root || { echo no overlay; exit 0; }
run() { "$2" run --backend cache --store root/store -- "$1/subject" </dev/null 2>&1 >/dev/null; }
run "$@"
mount -t tmpfs none up
run "$@"
"#;

/// The host fills a store from the image's own file; the container has the store read-only.
const STORE_OF_THE_HOST: &str = r#"
set -e
cd "$1"
mkdir image up w c shared
cp subject image/
run() { "$HUGETEXT" run -v --backend cache --store "$1/shared" -- "$2" </dev/null 2>&1 >/dev/null; }
HUGETEXT=$2
run "$1" "$1/image/subject" >&2
mount -t overlay overlay -o "lowerdir=image,upperdir=up,workdir=w" c || { echo no overlay; exit 0; }
mount --bind shared shared
mount -o remount,bind,ro shared
run "$1" "$1/c/subject"
"#;

#[test]
fn containers_use_what_the_host_alone_writes() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let Some(said) = in_a_mount_namespace(STORE_OF_THE_HOST, &subject) else {
        return;
    };
    let figures = said.lines().filter_map(|line| line.strip_prefix("huge="));
    let figures: Vec<u64> = figures.map(|figure| figure.parse().unwrap()).collect();
    assert_eq!(figures.len(), 2, "{said}");
    assert!(figures.iter().all(|huge| *huge >= 6 << 20), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_store_lies_on_an_overlay_only_where_its_layers_are_seen() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let Some(said) = in_a_mount_namespace(STORE_ON_OVERLAY, &subject) else {
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    let huge = |line: &str| line.strip_prefix("huge=")?.parse::<u64>().ok();
    assert!(huge(lines[0]) >= Some(6 << 20), "{said}");
    assert!(
        lines[1].contains("warning") && lines[1].contains("--backend store"),
        "{said}"
    );
    assert!(huge(lines[2]).is_some(), "it runs all the same: {said}");
}

/// What a script says as root, given the subject's directory and the command; `None` where this
/// machine forbids it, with the reason printed.
fn in_a_mount_namespace(script: &str, subject: &Subject) -> Option<String> {
    if !is_root() {
        println!("skipped: overlay mounts take root");
        return None;
    }
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .args([subject.directory(), Path::new(HUGETEXT)])
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    let forbidden = ["no overlay", "cannot hold", "unshare:"];
    if forbidden.iter().any(|reason| said.contains(reason)) {
        println!("skipped: {said}");
        return None;
    }
    Some(said)
}

#[test]
fn containers_share_what_is_warm_on_the_host() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let image = subject.directory().join("image");
    fs::create_dir(&image).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/subject.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wl,-z,max-page-size=0x200000", "-o"])
        .args([&image.join("subject"), Path::new(source)])
        .status();
    assert!(built.unwrap().success());
    let Some(said) = in_a_mount_namespace(TWO_CONTAINERS, &subject) else {
        return;
    };
    let figures: Vec<u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("huge=")?.parse().ok())
        .collect();
    assert_eq!(figures.len(), 2, "{said}");
    assert!(figures.iter().all(|huge| *huge >= 6 << 20), "{said}");
}
