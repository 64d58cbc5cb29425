//! Other tools see the same program before and after a fix, and can still change it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::sample::{fix, json, link, path, run, text, tool, worked};

/// The sample, and its fixed copy. The sample is linked by lld, whose layout needs a shift, or
/// else by the default linker.
fn fixed(directory: &TempDir, strategy: &str) -> (PathBuf, PathBuf) {
    let old = link(directory, "old", &["-fuse-ld=lld"])
        .or_else(|| link(directory, "old", &[]))
        .unwrap();
    let new = directory.path().join("new");
    fix(&old, &new, &["--strategy", strategy]);
    (old, new)
}

/// Bytes of text within reach once loaded on this machine.
fn reached(file: &Path) -> u64 {
    let report = json(&["check", "--geometry", "x86-64", path(file)]);
    report["files"][0]["now"][0]["reached"].as_u64().unwrap()
}

#[test]
fn symbolizers_answer_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for strategy in ["shift", "merge"] {
        let (old, new) = fixed(&directory, strategy);
        let symbols = |file: &Path| tool("nm", &["-nS", path(file)]);
        let Some(before) = symbols(&old) else { return };
        assert_eq!(symbols(&new).as_ref(), Some(&before));
        let answer = before
            .lines()
            .find(|line| line.ends_with(" answer"))
            .unwrap();
        let address = answer.split(' ').next().unwrap();
        let line = |file: &Path| tool("addr2line", &["-fe", path(file), address]).unwrap();
        assert!(line(&old).contains("sample.c:"), "{}", line(&old));
        assert_eq!(line(&old), line(&new));
        let gdb = |file: &Path| {
            let code = "disassemble answer";
            tool(
                "gdb",
                &[
                    "-batch",
                    "-nx",
                    "-ex",
                    "info line answer",
                    "-ex",
                    code,
                    path(file),
                ],
            )
        };
        assert_eq!(gdb(&old), gdb(&new));
        for option in ["-sW", "-rW", "-nW", "-VW", "--debug-dump=decodedline"] {
            let read = |file: &Path| {
                let read = tool("readelf", &[option, path(file)]).unwrap();
                without_places(&read).replace(path(file), "FILE")
            };
            assert_eq!(read(&old), read(&new), "readelf {option}");
        }
    }
}

/// perf finds symbols by file offset, which a fix changes. perf also keeps copies of files by
/// build id, which a fix does not change. So perf must be told about the new file.
#[test]
fn profilers_name_the_same_functions() {
    for strategy in ["shift", "merge"] {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = fixed(&directory, strategy);
        let data = directory.path().join("perf.data");
        let perf = |arguments: &[&str]| {
            let home = ("HOME", directory.path());
            Command::new("perf")
                .env(home.0, home.1)
                .args(arguments)
                .output()
        };
        // The event is a clock of the kernel, because virtual machines have no counters.
        let record = ["record", "-q", "-e", "cpu-clock:u", "-o", path(&data)];
        let busiest = || {
            let recorded = perf(&[&record[..], &[path(&old), "spin"]].concat());
            if !recorded.is_ok_and(|output| output.status.success()) {
                return None;
            }
            let report = ["report", "-q", "--stdio", "-s", "sym", "-i", path(&data)];
            let said = text(&perf(&report).unwrap().stdout);
            said.lines()
                .find(|line| !line.is_empty())
                .map(str::to_owned)
        };
        let Some(before) = busiest() else {
            println!("skipped: no perf on this machine, or it may not measure");
            return;
        };
        assert!(before.trim_end().ends_with("[.] spin"), "{before}");
        fs::rename(&new, &old).unwrap();
        assert!(
            perf(&["buildid-cache", "-u", path(&old)])
                .unwrap()
                .status
                .success()
        );
        let after = busiest().unwrap();
        assert!(
            after.trim_end().ends_with("[.] spin"),
            "{strategy}: {after}"
        );
    }
}

/// The output of readelf without file offsets, which a fix changes.
pub(crate) fn without_places(text: &str) -> String {
    let place = |word: &str| word.starts_with("0x") || word.chars().all(|c| c.is_ascii_hexdigit());
    let mut after_offset = false;
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let hide = after_offset && place(word.trim());
        after_offset = ["offset", "Offset:"].contains(&word.trim()) || after_offset && word == " ";
        if hide { "PLACE\n" } else { word }
    });
    words.collect()
}

#[test]
fn linters_find_nothing_new() {
    let directory = tempfile::tempdir().unwrap();
    for strategy in ["shift", "merge"] {
        let (old, new) = fixed(&directory, strategy);
        let lint = |file: &Path| {
            let output = Command::new("eu-elflint")
                .args(["--gnu-ld", path(file)])
                .output();
            output
                .ok()
                .map(|output| (output.status.success(), output.stdout))
        };
        match (lint(&old), lint(&new)) {
            (Some((true, _)), Some((clean, said))) => {
                assert!(clean, "{}", String::from_utf8_lossy(&said));
            }
            (Some(_), _) => println!("skipped: eu-elflint reports errors in the input too"),
            _ => println!("skipped: no eu-elflint on this machine"),
        }
    }
}

#[test]
fn strip_objcopy_and_patchelf_still_work() {
    let directory = tempfile::tempdir().unwrap();
    for strategy in ["shift", "merge"] {
        let (old, new) = fixed(&directory, strategy);
        let said = run(&old);
        let full = reached(&new);
        assert!(full > 0);
        let tools: [(&str, &[&str]); 5] = [
            ("strip", &[]),
            ("objcopy", &["--strip-debug"]),
            (
                "objcopy",
                &["--add-section", ".note.added=/proc/self/cmdline"],
            ),
            ("llvm-objcopy", &["--strip-all"]),
            (
                "patchelf",
                &["--set-rpath", "/a/rather/long/path/that/needs/room"],
            ),
        ];
        for (name, arguments) in tools {
            let Some(worked) = worked(&directory, &new, name, arguments) else {
                continue;
            };
            assert_eq!(run(&worked), said, "{name} {arguments:?} on {strategy}");
            let left = reached(&worked);
            println!("{strategy}, then {name} {arguments:?}: reach {full} -> {left}");
            if name != "llvm-objcopy" {
                assert!(
                    left > 0,
                    "{name} {arguments:?} on {strategy} undid the layout"
                );
            }
        }
    }
}

/// Distributions keep debug information in separate files, made from the unfixed file.
#[test]
fn debug_information_of_the_old_file_is_joined_with_the_new_one() {
    for linker in [&["-fuse-ld=lld"][..], &[]] {
        let directory = tempfile::tempdir().unwrap();
        let Some(old) = link(&directory, "old", linker) else {
            println!("skipped: no lld on this machine");
            continue;
        };
        let debug = directory.path().join("old.debug");
        tool("objcopy", &["--only-keep-debug", path(&old), path(&debug)]).unwrap();
        tool("objcopy", &["--strip-debug", path(&old)]).unwrap();
        for strategy in ["auto", "merge"] {
            let new = directory.path().join(strategy);
            fix(&old, &new, &["--strategy", strategy]);
            let joined = directory.path().join("joined");
            let arguments = [path(&new), path(&debug), "-o", path(&joined)];
            if tool("eu-unstrip", &arguments).is_none() {
                return;
            }
            let lines = tool("readelf", &["--debug-dump=decodedline", path(&joined)]).unwrap();
            assert!(lines.contains("sample.c"), "{strategy}: {lines}");
        }
    }
}
