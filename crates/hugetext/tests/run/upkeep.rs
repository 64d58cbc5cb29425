//! `hugetext store` after `hugetext run`.

use std::fs::{self, OpenOptions};
use std::io::Write;
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
    assert!(file.exists(), "the next run makes it again");
    assert_eq!(
        store(&subject, &["gc", "--limit", "1M"]).status.code(),
        Some(0)
    );
    // What does not fit even alone.
    let full = run().unwrap();
    assert!(text(&full.stderr).contains("store gc --limit"), "{full:?}");
    let left = fs::read_dir(subject.directory().join("store/entries")).unwrap();
    assert_eq!(left.count(), 0);
}
