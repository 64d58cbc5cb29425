//! The command as a user runs it: on real programs of this machine, and on files that it must
//! survive.

#![allow(clippy::unwrap_used)]

mod check;
mod names;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn hugetext(arguments: &[&str]) -> Output {
    hugetext_of(arguments)
}

fn hugetext_of<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = hugetext(arguments);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A large program of this machine: the compiler proper, or else the newest rustc driver.
fn big_program() -> Option<PathBuf> {
    let cc1 = Command::new("cc")
        .arg("-print-prog-name=cc1")
        .output()
        .ok()?;
    let cc1 = PathBuf::from(String::from_utf8(cc1.stdout).ok()?.trim_end());
    let big = cc1
        .metadata()
        .is_ok_and(|metadata| metadata.len() > 8 << 20);
    if !big {
        println!("skipped: no C compiler with a program of more than 8 MiB");
    }
    big.then_some(cc1)
}

#[test]
fn bad_input_is_one_line_and_the_other_files_are_still_done() {
    let directory = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let script = file("script", b"#!/bin/sh\nexit 0\n");
    let short = file("short", &fs::read(&own).unwrap()[..100]);
    let empty = file("empty", b"");
    let fifo = directory.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let missing = directory.path().join("missing");
    let bad = [
        &script,
        &short,
        &empty,
        &fifo,
        &missing,
        &directory.path().to_owned(),
    ];

    let mut arguments = vec!["check", "--json"];
    arguments.extend(bad.iter().map(|bad| path(bad)));
    arguments.push(path(&own));
    let output = hugetext(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let lines = stderr(&output);
    assert_eq!(lines.lines().count(), bad.len(), "{lines}");
    for bad in bad {
        let about = format!("hugetext: {}: ", bad.display());
        assert!(
            lines.lines().any(|line| line.starts_with(&about)),
            "{bad:?} in {lines}"
        );
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["summary"]["files"], 1);

    for mode in [&["warm"][..], &["check"], &["warm", "--with-libs"]] {
        let output = hugetext(&[mode, &[path(&script)]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn a_scan_passes_over_what_is_no_program() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes"), "text").unwrap();
    fs::copy(std::env::current_exe().unwrap(), directory.path().join("a")).unwrap();
    fs::hard_link(directory.path().join("a"), directory.path().join("b")).unwrap();
    std::os::unix::fs::symlink("a", directory.path().join("c")).unwrap();
    let report = json(&["check", "--json", "--recursive", path(directory.path())]);
    assert_eq!(report["summary"]["files"], 1);
    assert_eq!(report["summary"]["errors"], 0);
}

#[test]
fn stat_shows_the_text_of_a_process_and_says_who_is_gone() {
    let pid = std::process::id().to_string();
    let report = json(&["stat", "--json", &pid]);
    let own = std::env::current_exe().unwrap();
    let mappings = report["processes"][0]["mappings"].as_array().unwrap();
    assert!(
        mappings.iter().any(|mapping| mapping["path"] == path(&own)),
        "{mappings:?}"
    );
    let gone = hugetext(&["stat", "4194304"]);
    assert_eq!(gone.status.code(), Some(2));
    assert_eq!(
        stderr(&gone),
        "hugetext: process 4194304: no such process\n"
    );
    assert!(hugetext(&["stat", "--all"]).status.success());
    assert!(hugetext(&["check", "--pid", &pid]).status.success());
}

#[test]
fn a_process_that_has_ended_is_said_to_have_no_text() {
    let mut ended = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let mut nothing = String::new();
    // The kernel closes the files of a process after it has freed the memory. So the memory is
    // gone when the pipe ends.
    let mut output = ended.stdout.take().unwrap();
    output.read_to_string(&mut nothing).unwrap();
    let pid = ended.id().to_string();
    let page = tempfile::tempdir().unwrap();
    let page = page.path().join("page.html");
    for arguments in [
        &["stat", &pid][..],
        &["check", "--pid", &pid],
        &["report", "-o", path(&page), &pid],
    ] {
        let refused = hugetext(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("no text"), "{}", stderr(&refused));
    }
    assert!(ended.wait().unwrap().success());
}

#[test]
fn a_dry_run_lists_what_stays_as_it_is_if_asked() {
    let plan = |flags: &[&str]| {
        let output = hugetext(&[&["run", "--dry-run"], flags, &["true"]].concat());
        if !output.status.success() {
            println!("skipped: {}", stderr(&output));
        }
        String::from_utf8(output.stdout).unwrap()
    };
    let (short, long) = (plan(&[]), plan(&["--verbose"]));
    assert!(long.starts_with(short.trim_end()), "{long}");
    assert_eq!(short.is_empty(), !long.contains("\n  /"), "{long}");
    assert_eq!(plan(&["--quiet"]), "");
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(["stat", "--all", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn warm_brings_a_copy_of_a_big_program_into_huge_folios() {
    let Some(program) = big_program() else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = directory.path().join("program");
    fs::copy(&program, &copy).unwrap();
    let check = json(&["check", "--json", path(&copy)]);
    if check["files"][0]["causes"] != Value::Array(Vec::new()) {
        println!("skipped: {}", check["files"][0]["causes"]);
        return;
    }
    // A running instance pins the pages that it maps, and the report must name it. Its text is
    // replaced while it runs.
    let mut running = Command::new(&copy)
        .args(["-quiet", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let before = fs::metadata(&copy).unwrap();
    // If memory is fragmented, the kernel gives small folios for some windows, and makes room for
    // the next attempt.
    let warm = || json(&["warm", "--json", "--replace", path(&copy)])["files"][0].clone();
    let all_huge = |file: &Value| file["huge"] == file["windows"];
    let first = warm();
    let mut attempts = std::iter::once(first.clone()).chain(std::iter::repeat_with(warm).take(9));
    assert!(attempts.any(|file| all_huge(&file)), "{first}");
    assert_eq!(fs::metadata(&copy).unwrap().len(), before.len());
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&program).unwrap());
    let mut input = running.stdin.take().unwrap();
    input.write_all(b"int x;\n").unwrap();
    drop(input);
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_name_may_hold_any_byte() {
    let directory = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let foreign = directory.path().join(OsStr::from_bytes(b"not\xffutf-8"));
    let control = directory.path().join("red\u{1b}[31m\nhugetext: ");
    for name in [&foreign, &control] {
        fs::copy(&own, name).unwrap();
    }
    for words in [&["check"][..], &["warm"], &["fix", "--dry-run"]] {
        let mut words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        words.extend([OsStr::new("--json"), foreign.as_os_str()]);
        let output = hugetext_of(&words);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report.to_string().contains("not\u{fffd}utf-8"), "{report}");
    }
    let [run, also, end] = ["run", "--also", "true"].map(OsStr::new);
    let output = hugetext_of(&[run, also, foreign.as_os_str(), end]);
    assert!(output.status.success(), "{}", stderr(&output));

    let missing = control.with_extension("missing");
    for path in [&control, &missing] {
        let output = hugetext_of(&[OsStr::new("check"), path.as_os_str()]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(r"red\u{1b}[31m\nhugetext: "), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}

/// The exit status of the command with a standard output that nobody reads.
fn status_unread(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .stdout(writer)
        .stderr(Stdio::null())
        .status();
    status.unwrap().code()
}

#[test]
fn the_exit_status_holds_when_nobody_reads_the_output() {
    let own = std::env::current_exe().unwrap();
    let own = path(&own);
    let directory = tempfile::tempdir().unwrap();
    for form in [&[][..], &["--json"]] {
        for (arguments, expected) in [
            (&["check", own][..], 0),
            (&["check", own, "--require", "100"], 1),
            (&["check", own, "/nowhere"], 2),
            (&["check", "--same", own, "/bin/sh"], 1),
            (&["check", "--pid", "4194304"], 2),
            (&["stat", "4194304"], 2),
            (&["learn", "--by", "ptrace", "--", "sh", "-c", "exit 7"], 7),
            (&["run", "--dry-run", "no-such-command-anywhere"], 127),
            (&["keep", "--lists", path(directory.path()), "apply"], 0),
        ] {
            let arguments: Vec<&str> = form.iter().chain(arguments).copied().collect();
            assert_eq!(status_unread(&arguments), Some(expected), "{arguments:?}");
        }
    }
}

#[test]
fn what_follows_the_output_is_done_when_nobody_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.toml");
    let learned = status_unread(&[
        "learn",
        "--by",
        "ptrace",
        "--keep",
        path(&list),
        "--",
        "true",
    ]);
    assert_eq!(learned, Some(0));
    assert!(list.exists());
}

#[test]
fn stat_tells_on_which_nodes_text_lies_and_runs() {
    let own = std::process::id().to_string();
    let output = hugetext(&["stat", "--nodes", "--json", &own]);
    if stderr(&output).contains("the nodes of its pages are unknown") {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = &report["processes"][0]["nodes"];
    let sum = |value: &Value| -> u64 {
        let parts = value.as_object().unwrap().values();
        parts.map(|bytes| bytes.as_u64().unwrap()).sum()
    };
    let near = nodes["local"].as_u64().unwrap() + nodes["remote"].as_u64().unwrap();
    assert_eq!(sum(&nodes["bytes"]), near);
    assert!(near > 0 && !nodes["runs_on"].as_array().unwrap().is_empty());
    for mapping in nodes["mappings"].as_array().unwrap() {
        let windows = mapping["windows"].as_array().unwrap().iter();
        let of_windows: u64 = windows.map(|window| sum(&window["bytes"])).sum();
        if nodes["source"] == "move-pages" {
            assert_eq!(of_windows, sum(&mapping["bytes"]));
        }
    }
    let text = hugetext(&["stat", "--nodes", &own]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("runs on node "), "{text}");
}

#[test]
fn warm_puts_text_on_a_node_and_tells_which_exist() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = directory.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_hugetext"), &copy).unwrap();
    let missing = hugetext(&["warm", "--node", "900", path(&copy)]);
    assert_eq!(missing.status.code(), Some(2));
    let told = stderr(&missing);
    if told.contains("no transparent huge pages") {
        println!("skipped: {told}");
        return;
    }
    assert!(told.contains("node 900 has no memory"), "{told}");
    assert_eq!(
        hugetext(&["warm", "--node", "near", path(&copy)])
            .status
            .code(),
        Some(2)
    );
    for choice in ["local", "spread"] {
        let report = json(&["warm", "--json", "--node", choice, path(&copy)]);
        let file = &report["files"][0];
        if file.is_null() {
            println!("skipped: {report}");
            return;
        }
        let after = file["nodes"]["after"].as_object().unwrap();
        let there: u64 = after.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert!(there > 1 << 20, "{file}");
        if after.len() == 1 {
            assert_eq!(file["nodes"]["elsewhere"], 0);
        }
    }
}
