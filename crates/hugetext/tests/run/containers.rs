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

#[test]
fn containers_share_what_is_warm_on_the_host() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !is_root() {
        println!("skipped: overlay mounts take root");
        return;
    }
    let image = subject.directory().join("image");
    fs::create_dir(&image).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/subject.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wl,-z,max-page-size=0x200000", "-o"])
        .args([&image.join("subject"), Path::new(source)])
        .status();
    assert!(built.unwrap().success());
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            TWO_CONTAINERS,
            "sh",
        ])
        .args([subject.directory(), Path::new(HUGETEXT)])
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("no overlay") || said.contains("cannot hold") || said.contains("unshare:") {
        println!("skipped: {said}");
        return;
    }
    let figures: Vec<u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("huge=")?.parse().ok())
        .collect();
    assert_eq!(figures.len(), 2, "{said}");
    assert!(figures.iter().all(|huge| *huge >= 6 << 20), "{said}");
}
