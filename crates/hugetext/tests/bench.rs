//! Benchmarks as a user runs them. They are small: the tests check the reports, not the figures.

#![allow(clippy::unwrap_used)]

#[path = "bench/cut_short.rs"]
mod cut_short;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cut_short::{ends_on_ctrl_c, sees_a_full_disk};
use serde_json::Value;
use tempfile::TempDir;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .arg("bench")
        .args(arguments)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The benchmarks of a report. `None`, with the reason printed, if this machine cannot run them.
fn benchmarks(arguments: &[&str]) -> Option<Vec<Value>> {
    let output = bench(arguments);
    let said = stderr(&output);
    if output.status.code() == Some(1) || said.contains("no mount namespace") {
        println!("skipped: {}", stderr(&output));
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 3);
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    Some(report["benchmarks"].as_array().unwrap().clone())
}

fn measure<'b>(benchmark: &'b Value, name: &str) -> &'b Vec<Value> {
    let measures = benchmark["measures"].as_array().unwrap();
    let measure = measures.iter().find(|measure| measure["name"] == name);
    measure.unwrap()["values"].as_array().unwrap()
}

/// A copy of the compiler proper: a program with windows that no other process runs.
fn program() -> Option<(TempDir, PathBuf)> {
    let asked = Command::new("cc").arg("-print-prog-name=cc1").output();
    let name = asked.map(|output| String::from_utf8(output.stdout).unwrap());
    let Some(compiler) = name.ok().filter(|name| name.starts_with('/')) else {
        println!("skipped: no C compiler");
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    // Another process copies the file. Otherwise a child that another test forks would inherit the
    // open file (ETXTBSY).
    let mut copy = Command::new("cp");
    let copied = copy.arg(compiler.trim_end()).arg(&path).status();
    assert!(copied.unwrap().success());
    Some((directory, path))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn exec_puts_the_same_file_into_both_states() {
    let Some((directory, program)) = program() else {
        return;
    };
    let run = ["exec", "--json", "--rounds", "2", "--per-round", "2"];
    let place = ["--directory", path(directory.path()), "--"];
    let compile = [path(&program), "-quiet", "-o", "/dev/null", "/dev/null"];
    let arguments = [&run[..], &place, &compile].concat();
    let Some(benchmarks) = benchmarks(&arguments) else {
        return;
    };
    let benchmark = &benchmarks[0];
    assert_eq!(benchmark["sides"][0]["name"], "small folios");
    assert_eq!(benchmark["sides"][1]["name"], "warmed");
    let wall = measure(benchmark, "wall");
    assert_eq!(wall[0]["rounds"].as_array().unwrap().len(), 2);
    assert!(wall[1]["ratio"]["median"].as_f64().unwrap() > 0.0);
    let faults = measure(benchmark, "minor faults");
    assert!(faults[1]["median"].as_f64() < faults[0]["median"].as_f64());
    let huge = measure(benchmark, "text on huge pages");
    assert_eq!(huge[0]["median"], 0.0);
    assert!(huge[1]["median"].as_f64() > Some(0.0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let sides = benchmark["sides"].as_array().unwrap();
    let found = sides.last().unwrap();
    assert_eq!(found["name"], "as found");
    let state = found["state"].as_str().unwrap();
    assert!(state.contains("dropped, then started; "), "{state}");
    if sides.len() < 5 {
        println!("skipped: {}", benchmark["notes"]);
        return;
    }
    assert_eq!(benchmark["sides"][2]["name"], "fixed");
    assert_eq!(benchmark["sides"][3]["name"], "merged");
    assert!(huge[3]["median"].as_f64() > huge[1]["median"].as_f64());
    let mappings = measure(benchmark, "file mappings at exit");
    assert!(mappings[3]["median"].as_f64() < mappings[0]["median"].as_f64());
    let mmaps = measure(benchmark, "mmap calls for files");
    assert!(mmaps[0]["median"].as_f64() > Some(0.0));
}

#[test]
fn a_copy_that_stands_in_is_run_by_whoever_starts_the_program() {
    let Some((directory, program)) = program() else {
        return;
    };
    let run = ["exec", "--json", "--rounds", "1", "--per-round", "1"];
    let place = ["--directory", path(directory.path()), "--copy", "--program"];
    let script = format!("{} -quiet -o /dev/null /dev/null", path(&program));
    let command = [path(&program), "--", "sh", "-c", &script];
    let Some(benchmarks) = benchmarks(&[&run[..], &place, &command].concat()) else {
        return;
    };
    assert_eq!(benchmarks[0]["sides"][0]["name"], "small folios");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn ctrl_c_ends_a_benchmark_and_its_files() {
    let Some((_directory, program)) = program() else {
        return;
    };
    let compile = [
        "--",
        path(&program),
        "-quiet",
        "-o",
        "/dev/null",
        "/dev/null",
    ];
    // Copies need a mount namespace, which a user in a chroot may not create.
    let once = ["exec", "--json", "--rounds", "1", "--per-round", "1"];
    let Some(measured) = benchmarks(&[&once[..], &compile].concat()) else {
        return;
    };
    let has_copies = measured[0]["sides"].as_array().unwrap().len() > 3;
    let many = ["--rounds", "100000"];
    let place = tempfile::tempdir().unwrap();
    let directory = ["--directory", path(place.path())];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command
        .args(["bench", "exec"])
        .args([&many[..], &directory, &compile].concat());
    ends_on_ctrl_c(&mut command, place.path(), has_copies);
}

#[test]
fn a_full_disk_is_seen_before_the_first_byte() {
    let command = env!("CARGO_BIN_EXE_hugetext");
    sees_a_full_disk(&[format!("'{command}' bench exec")]);
}

#[test]
fn a_command_that_fails_or_does_not_end_is_an_error_in_one_line() {
    let Some((_directory, program)) = program() else {
        return;
    };
    let run = ["exec", "--program", path(&program), "--timeout", "1", "--"];
    for (command, said) in [
        (&["sh", "-c", "exit 3"][..], "exit status 3"),
        (&["sleep", "1000"], "--timeout"),
        (&["no-such-program"], "no-such-program"),
    ] {
        let output = bench(&[&run[..], command].concat());
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_program_without_windows_is_no_answer() {
    let output = bench(&["exec", "--", "/bin/true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no window"), "{}", stderr(&output));
}

#[test]
fn text_without_windows_is_measured_in_small_and_in_the_largest_folios() {
    let directory = tempfile::tempdir().unwrap();
    let shell = directory.path().join("shell");
    let copied = Command::new("cp").arg("/bin/bash").arg(&shell).status();
    if !copied.unwrap().success() {
        return println!("skipped: no /bin/bash");
    }
    let quick = ["exec", "--json", "--rounds", "1", "--per-round", "1", "--"];
    let command = [path(&shell), "-c", ":"];
    let Some(benchmarks) = benchmarks(&[&quick[..], &command].concat()) else {
        return;
    };
    let sides = benchmarks[0]["sides"].as_array().unwrap();
    let state = |name: &str| {
        let mut sides = sides.iter().filter(|side| side["name"] == name);
        sides.next().map(|side| side["state"].to_string())
    };
    let (Some(small), Some(warmed)) = (state("small folios"), state("warmed")) else {
        return println!("skipped: no folios of it are seen here: {sides:?}");
    };
    assert!(small.contains("text in small folios"), "{small}");
    assert!(warmed.contains("in the largest folios"), "{warmed}");
}

#[test]
fn work_that_needs_a_missing_package_names_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(["bench", "work", "--rounds", "1", "mold"])
        // Scripts find a shell and nothing else.
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let said = stderr(&output);
    if said.contains("no huge pages") {
        return println!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("install mold"), "{said}");
}

#[test]
fn unknown_work_is_an_error_that_names_all() {
    let output = bench(&["work", "quake"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("postgres"));
}

#[test]
fn rivals_are_sides_of_their_own_and_those_that_fail_are_named() {
    let Some((directory, program)) = program() else {
        return;
    };
    let run = ["exec", "--json", "--rounds", "2", "--per-round", "1"];
    let rivals = [
        "--rival",
        "checking=env:MALLOC_CHECK_=0",
        "--rival",
        "broken=word:--no-such",
    ];
    let place = ["--directory", path(directory.path()), "--"];
    let compile = [path(&program), "-quiet", "-o", "/dev/null", "/dev/null"];
    let arguments = [&run[..], &rivals, &place, &compile].concat();
    let Some(benchmarks) = benchmarks(&arguments) else {
        return;
    };
    let sides = benchmarks[0]["sides"].as_array().unwrap();
    let rival = sides.last().unwrap();
    assert_eq!(rival["name"], "checking");
    let state = rival["state"].as_str().unwrap();
    assert!(state.contains("MALLOC_CHECK_=0") && state.contains("small folios"));
    let notes = benchmarks[0]["notes"].as_array().unwrap();
    let note = notes
        .iter()
        .find_map(|note| note.as_str()?.strip_prefix("broken left out: "));
    assert!(note.unwrap().contains("exit status"), "{notes:?}");
}

#[test]
fn a_rival_of_no_known_form_is_an_error_that_names_the_forms() {
    let output = bench(&["exec", "--rival", "faster"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("NAME=preload:LIBRARY"));
}

/// A command with `hugetext-bench` beside it, which is this script.
fn with_laboratory(script: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let command = directory.path().join("hugetext");
    fs::hard_link(env!("CARGO_BIN_EXE_hugetext"), &command)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_hugetext"), &command).map(drop))
        .unwrap();
    let bench = directory.path().join("hugetext-bench");
    let write = "printf '%s' \"$0\" >\"$1\" && chmod 755 \"$1\"";
    // Another process writes the file, so that no child of another test holds it open.
    let written = Command::new("sh")
        .args(["-c", write, script, path(&bench)])
        .status();
    assert!(written.unwrap().success());
    (directory, command)
}

#[test]
fn benchmarks_of_the_laboratory_are_found_beside_the_command() {
    let (_directory, command) = with_laboratory("#!/bin/sh\necho \"$*\"; exit 7\n");
    let words = ["-q", "bench", "cold", "--json", "--size", "8", "--help"];
    let output = Command::new(command).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "--quiet cold --json --size 8 --help\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_laboratory_that_is_missing_is_named_with_what_installs_it() {
    let (directory, command) = with_laboratory("");
    fs::remove_file(directory.path().join("hugetext-bench")).unwrap();
    let output = Command::new(command)
        .args(["bench", "rmap"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("hugetext-bench: not installed") && said.contains("lab/crates/bench"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_benchmark_that_nobody_has_is_an_error_in_one_line() {
    // Where hugetext-bench is, it answers, with the names that it knows.
    let (directory, command) = with_laboratory("");
    fs::remove_file(directory.path().join("hugetext-bench")).unwrap();
    let output = Command::new(command)
        .args(["bench", "cool", "--size", "8"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("bench cool: no such benchmark"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
