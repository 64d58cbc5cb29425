//! `hugetext store` after `hugetext run`.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Output};

use crate::subject::{HUGETEXT, Subject, is_excused, text};

fn store(subject: &Subject, arguments: &[&str]) -> Output {
    let mut command = Command::new(HUGETEXT);
    command
        .args(["store", "--store"])
        .arg(subject.directory().join("store"));
    command.args(arguments).output().unwrap()
}

#[test]
fn copies_are_listed_verified_and_removed() {
    let Some(subject) = Subject::build() else {
        return;
    };
    assert_eq!(store(&subject, &["ls"]).status.code(), Some(2));
    let run = || {
        subject
            .run()
            .args(["--backend", "cache", "--"])
            .arg(&subject.program)
            .arg("exit")
            .output()
    };
    let first = run().unwrap();
    if is_excused(&first) || text(&first.stderr).contains("huge folios") {
        return;
    }
    let listing: serde_json::Value =
        serde_json::from_slice(&store(&subject, &["ls", "--json"]).stdout).unwrap();
    let entry = &listing["entries"][0];
    assert_eq!(entry["path"], subject.program.to_str().unwrap());
    assert_eq!(store(&subject, &["verify"]).status.code(), Some(0));

    let key = entry["key"].as_str().unwrap();
    let file = subject.directory().join("store/entries").join(key);
    // The writer is root, or the owner after chmod.
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap()
        .write_all(b"x")
        .unwrap();
    let verified = store(&subject, &["verify"]);
    assert_eq!(verified.status.code(), Some(1));
    let told = text(&verified.stdout);
    for part in [subject.program.to_str().unwrap(), &key[..12], "store rm"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert_eq!(
        store(&subject, &["rm", "no-such-entry"]).status.code(),
        Some(2)
    );
    assert_eq!(store(&subject, &["rm", &key[..12]]).status.code(), Some(0));
    assert!(!file.exists());

    assert_eq!(run().unwrap().status.code(), Some(42));
    assert!(file.exists(), "the next run did not make the copy again");
    assert_eq!(
        store(&subject, &["gc", "--limit", "1M"]).status.code(),
        Some(0)
    );
    // The copy does not fit even if the store is empty.
    let full = run().unwrap();
    assert!(text(&full.stderr).contains("store gc --limit"), "{full:?}");
    let left = fs::read_dir(subject.directory().join("store/entries")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_damaged_copy_is_not_run_but_made_again() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let run = || {
        let mut run = subject.run();
        run.args(["--backend", "cache", "--"]);
        run.arg(&subject.program).arg("exit").output().unwrap()
    };
    let first = run();
    if is_excused(&first) || text(&first.stderr).contains("huge folios") {
        return;
    }
    let copy = || {
        let files = fs::read_dir(subject.directory().join("store/entries")).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        paths.find(|path| path.extension().is_none()).unwrap()
    };
    let whole = fs::read(copy()).unwrap();
    let times = fs::metadata(copy()).unwrap().modified().unwrap();
    // The writer is root, or the owner after chmod. The file keeps its times.
    fs::set_permissions(copy(), Permissions::from_mode(0o755)).unwrap();
    let file = OpenOptions::new().write(true).open(copy()).unwrap();
    file.write_at(b"\xcc", 4 << 20).unwrap();
    file.set_modified(times).unwrap();
    drop(file);
    fs::set_permissions(copy(), Permissions::from_mode(0o555)).unwrap();
    assert_eq!(run().status.code(), Some(42));
    assert_eq!(fs::read(copy()).unwrap(), whole);
    assert_eq!(store(&subject, &["verify"]).status.code(), Some(0));
}

/// A program that computes a checksum of its own segments finds what it finds without `run`.
#[test]
fn a_shown_copy_has_the_segments_of_the_original() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let mut run = subject.run();
    run.args(["--backend", "cache", "--"]).arg(&subject.program);
    let shown = run.arg("exit").output().unwrap();
    if is_excused(&shown) || text(&shown.stderr).contains("huge folios") {
        return;
    }
    let listing: serde_json::Value =
        serde_json::from_slice(&store(&subject, &["ls", "--json"]).stdout).unwrap();
    let entries = subject.directory().join("store/entries");
    let copy = entries.join(listing["entries"][0]["key"].as_str().unwrap());
    let [before, after] = [&subject.program, &copy].map(|file| {
        let mut check = Command::new(HUGETEXT);
        let report = check.args(["--json", "check"]).arg(file).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        let segments = report["files"][0]["segments"].as_array().unwrap().clone();
        let seen = |segment: &serde_json::Value| {
            ["vaddr", "filesz", "memsz", "perms"].map(|field| segment[field].clone())
        };
        segments.iter().map(seen).collect::<Vec<_>>()
    });
    assert_eq!(before, after);
}
