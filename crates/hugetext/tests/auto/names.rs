//! Names of any bytes, and a daemon that was killed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::place::{Place, Working, can_hold, hugetext};

/// A byte that is no UTF-8, and control sequences of terminals.
const NAME: &[u8] = b"x\xff\x1b[31m\xc2\x9b1m\nend";

fn asked(place: &Place, words: &[&str], file: Option<&Path>) -> Output {
    let mut command = hugetext();
    command.args(words).args(file);
    command.arg("--run-dir").arg(place.path("run"));
    command.output().unwrap()
}

/// Whether a terminal would show only what was meant.
fn is_harmless(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.chars()
        .all(|letter| letter == '\n' || !letter.is_control())
}

#[test]
fn a_name_of_any_bytes_stops_no_document_and_reaches_no_terminal() {
    let place = Place::new("observe");
    if !can_hold(&place) {
        return;
    }
    let odd = place.path("odd").with_file_name(OsStr::from_bytes(NAME));
    fs::copy(place.path("program"), &odd).unwrap();
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    let working = Working(Command::new(&odd).arg("on").spawn().unwrap());
    let seen = || {
        let status = place.status().to_string();
        status.contains("x\u{fffd}")
    };
    let mut turns = (0..20_000).map(|_| {
        let _ = Command::new(&odd).status().unwrap();
    });
    assert!(turns.any(|()| seen()), "{:#}", place.status());
    let why = asked(&place, &["auto", "why"], Some(&odd));
    let said = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(said.contains("start"), "{said}");
    let pid = working.0.id().to_string();
    let mut outputs = vec![why];
    for words in [
        &["auto", "status", "--all"][..],
        &["--json", "auto", "status"],
        &["auto", "top", "--once"],
        &["--json", "auto", "top", "--once"],
    ] {
        outputs.push(asked(&place, words, None));
    }
    for words in [
        &["stat"][..],
        &["--json", "stat"],
        &["promote", "--dry-run"],
    ] {
        outputs.push(hugetext().args(words).arg(&pid).output().unwrap());
    }
    for output in &outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty() || !said.contains("UTF-8"), "{said}");
        assert!(is_harmless(&output.stdout), "{:?}", output.stdout);
    }
    drop(working);
    daemon.end();
}

#[test]
fn what_a_killed_daemon_said_is_called_old() {
    let place = Place::new("observe");
    let mut daemon = place.daemon(&[]);
    let _ = place.status_source();
    let now = asked(&place, &["auto", "status"], None);
    assert!(now.stderr.is_empty(), "{now:?}");
    daemon.signal(Signal::KILL);
    daemon.child.wait().unwrap();
    let later = asked(&place, &["auto", "status"], None);
    let said = String::from_utf8_lossy(&later.stderr).into_owned();
    assert!(said.contains("has ended"), "{said}");
    let text = String::from_utf8_lossy(&later.stdout).into_owned();
    assert!(!text.contains("observes"), "{text}");
    let json = asked(&place, &["--json", "auto", "status"], None);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["daemon"], "ended");
}
