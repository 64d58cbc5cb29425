//! `hugetext host` as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A user who owns no files and has a session of its own.
fn host(session: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command.arg("host").args(words);
    command.env("XDG_RUNTIME_DIR", session);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        std::os::unix::fs::chown(session, Some(65_534), Some(65_534)).unwrap();
        command.uid(65_534).gid(65_534);
    }
    command.output().unwrap()
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn it_ends_in_a_sentence_and_the_next_command() {
    let session = tempfile::tempdir().unwrap();
    let output = host(session.path(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("tarts gain")
            || text.contains("start faster")
            || text.contains("not possible"),
        "{text}"
    );
    if !text.contains("not possible") {
        assert!(
            text.trim_end().ends_with("Next: hugetext check PROGRAM"),
            "{text}"
        );
    }
}

/// The same verdict, the times of the first trial.
#[test]
fn it_is_remembered_and_damage_is_not_believed() {
    let session = tempfile::tempdir().unwrap();
    let first = document(&host(session.path(), &["--json"]));
    assert_eq!(first["remembered"], false);
    let again = document(&host(session.path(), &["--json", "--remembered"]));
    assert_eq!(again["remembered"], true);
    assert_eq!(
        (&again["verdict"], &again["missed"]),
        (&first["verdict"], &first["missed"])
    );
    let file = session.path().join("hugetext/host.json");
    let kept = fs::read_to_string(&file).unwrap();
    fs::write(&file, &kept[..kept.len() / 2]).unwrap();
    let third = document(&host(session.path(), &["--json", "--remembered"]));
    // Root may have found the same machine out before.
    let is_of_root = Path::new("/run/hugetext/host.json").exists();
    assert!(third["remembered"] == false || is_of_root, "{third:#}");
}
