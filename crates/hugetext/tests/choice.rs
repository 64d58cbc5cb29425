//! What each command does by itself on a machine where leaves do harm, and elsewhere. The verdict is one that a session
//! remembers, so all machines are tested.

#![allow(clippy::unwrap_used, clippy::panic)]

mod session;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use serde_json::Value;

const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// A file with windows of text, which lies in small folios.
    fn program(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::copy(HUGETEXT, &path).unwrap();
        // A write fills large folios; what is read again after a drop does not.
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        path
    }

    fn under(&self, verdict: &str, words: &[&str]) -> Output {
        let session = session::session(verdict, self.0.path());
        let mut command = Command::new(HUGETEXT);
        command.args(words).env("XDG_RUNTIME_DIR", session);
        command.output().unwrap()
    }

    fn told(&self, verdict: &str, words: &[&str]) -> Value {
        let output = self.under(verdict, words);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first file of a document of `warm`; `None`, with the reason, if no huge folio can be had here.
fn warmed(told: &Value) -> &Value {
    &told["files"][0]
}

#[test]
fn warm_leaves_text_as_it_is_where_leaves_do_harm() {
    let place = Place::new();
    let program = place.program("program");
    let path = program.to_str().unwrap();
    let left = place.told("harmful", &["warm", "--json", path]);
    let file = warmed(&left);
    if file["windows"] == 0 {
        return println!("skipped: no window: {file}");
    }
    assert_eq!(
        (&file["leaves"], &file["huge"]),
        (&"as-it-is".into(), &0.into()),
        "{file}"
    );
    let output = place.under("harmful", &["warm", path]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(
        said.contains("--leaves makes it huge all the same"),
        "{said}"
    );
    assert!(
        said.trim_end()
            .ends_with(&format!("Next: hugetext run {path}")),
        "{said}"
    );
    // Who asks for leaves gets them.
    let told = place.told("harmful", &["warm", "--leaves", "--json", path]);
    if warmed(&told)["huge"] == 0 {
        return println!("skipped: no huge folios here: {told}");
    }
    assert_eq!(warmed(&told)["leaves"], "leaves");
    let other = place.program("other");
    let told = place.told(
        session::HARMLESS,
        &["warm", "--json", other.to_str().unwrap()],
    );
    assert!(warmed(&told)["huge"].as_u64() > Some(0), "{told}");
}

#[test]
fn warm_replaces_a_file_by_folios_that_no_leaf_maps() {
    let place = Place::new();
    let program = place.program("program");
    let path = program.to_str().unwrap();
    let told = place.told("harmful", &["warm", "--replace", "--json", path]);
    let file = warmed(&told);
    if file["windows"] == 0 || file["folios"].is_null() {
        return println!("skipped: no window, or no large folios here: {file}");
    }
    assert_eq!(
        (&file["leaves"], &file["huge"]),
        (&"tables".into(), &0.into()),
        "{file}"
    );
    assert_eq!(file["method"], "replace", "{file}");
    assert_eq!(fs::read(path).unwrap(), fs::read(HUGETEXT).unwrap());
    let checked = place.told("harmful", &["warm", "--check", "--json", path]);
    assert_eq!(warmed(&checked)["huge"], 0, "{checked}");
    let found = &file["folios"]["now"]["folios"];
    let Some(folios) = found.as_u64() else {
        return println!("skipped: only root sees folios: {file}");
    };
    assert!(Some(folios) <= file["folios"]["least"].as_u64(), "{file}");
    // A second time there is nothing to do.
    let again = place.told("harmful", &["warm", "--replace", "--json", path]);
    assert_eq!(warmed(&again)["method"], "already-huge", "{again}");
}

#[test]
fn fix_writes_no_folio_that_a_leaf_maps() {
    let place = Place::new();
    let program = place.program("program");
    for (verdict, leaves) in [("harmful", "tables"), ("worth-it", "leaves")] {
        let fixed = place.0.path().join(verdict);
        let words = [
            "fix",
            "--json",
            "-o",
            fixed.to_str().unwrap(),
            program.to_str().unwrap(),
        ];
        let told = place.told(verdict, &words);
        let cache = &told["cache"];
        if cache.is_null() {
            return println!("skipped: nothing to fix: {told}");
        }
        assert_eq!(cache["leaves"], leaves, "{cache}");
        if leaves == "tables" {
            assert_eq!(cache["huge"], 0, "{cache}");
        }
    }
}

/// Ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn promote_leaves_processes_unless_a_method_is_named() {
    let place = Place::new();
    let program = place.program("program");
    // It waits for processes that never come.
    let mut command = Command::new(&program);
    command.args(["promote", "--name", "no such program", "--wait", "1000"]);
    let running = Running(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    let pid = running.0.id().to_string();
    let told = place.told("harmful", &["promote", "--dry-run", "--json", &pid]);
    assert_eq!(told["leaves"], "as-it-is", "{told}");
    let reason = told["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("--backend remap or collapse"), "{reason}");
    let output = place.under("harmful", &["promote", "--dry-run", &pid]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output).trim_end().ends_with("Next: hugetext host"),
        "{output:?}"
    );
    let named = ["promote", "--dry-run", "--json", "--backend", "remap", &pid];
    assert_eq!(place.told("harmful", &named)["leaves"], "leaves");
    assert_eq!(
        place.told(session::HARMLESS, &["promote", "--dry-run", "--json", &pid])["leaves"],
        "leaves"
    );
    drop(running);
}

#[test]
fn keep_holds_text_as_it_lies_where_leaves_do_harm() {
    let place = Place::new();
    let program = place.program("program");
    let lists = place.0.path().join("lists");
    let (lists, store) = (lists.to_str().unwrap(), place.0.path().join("store"));
    let options = ["keep", "--lists", lists, "--store", store.to_str().unwrap()];
    let keep = |words: &[&str]| place.under("harmful", &[&options[..], words].concat());
    assert!(keep(&["add", program.to_str().unwrap()]).status.success());
    let output = keep(&["apply"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if text(&output).contains("No listed file") && said.is_empty() {
        return println!("skipped: its text fills no window");
    }
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said.contains("held in the folios that it lies in"),
        "{said}"
    );
    assert!(
        !store.join("entries").exists(),
        "a copy would be mapped by leaves"
    );
}
