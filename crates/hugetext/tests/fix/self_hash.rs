//! Programs that compute a checksum of their own segments find what they found before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::sample::{error_line, fix, hugetext, path, run, start, text, tool};

/// The program by a linker: with the section that holds its checksum, and without. `None` where a tool is missing.
fn programs(directory: &TempDir, linker: &str, apart: &str) -> Option<(PathBuf, PathBuf)> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/self_hash.c");
    let [plain, whole, sum] = ["plain", "whole", "sum"].map(|name| directory.path().join(name));
    let linked = Command::new("cc")
        .args(["-O1", &format!("-fuse-ld={linker}"), apart, "-o"])
        .args([path(&plain), source])
        .output();
    if !linked.is_ok_and(|linked| linked.status.success()) {
        println!("skipped: no {linker} on this machine");
        return None;
    }
    // objcopy changes the ELF header, which text may hold, so the checksum is that of the file with the section.
    const PLACE: [u8; 16] = *b"place of the sum";
    fs::write(&sum, PLACE).unwrap();
    let section = format!(".clickhouse.hash={}", path(&sum));
    tool(
        "objcopy",
        &["--add-section", &section, path(&plain), path(&whole)],
    )?;
    let found = sum_of(&whole);
    let mut bytes = fs::read(&whole).unwrap();
    let at = bytes.windows(PLACE.len()).rposition(|bytes| bytes == PLACE);
    let at = at.unwrap();
    bytes[at..at + PLACE.len()].copy_from_slice(found.as_bytes());
    fs::write(&whole, bytes).unwrap();
    assert_eq!(run(&whole), "as built\n");
    Some((plain, whole))
}

/// What the program finds of its segments.
fn sum_of(program: &Path) -> String {
    // A start() before waits until nothing has the file open for writing.
    start(program).wait_with_output().unwrap();
    let output = Command::new(program).arg("tell").output().unwrap();
    assert!(output.status.success());
    text(&output.stdout)
}

#[test]
fn no_fix_makes_another_program_of_it() {
    let linkers = [
        ("bfd", "-Wl,-z,separate-code"),
        ("bfd", "-Wl,-z,noseparate-code"),
        ("lld", "-Wl,-z,separate-code"),
    ];
    let ways: [&[&str]; 5] = [
        &[],
        &["--strategy", "align"],
        &["--strategy", "shift"],
        &["--strategy", "merge"],
        &["--self-warming"],
    ];
    for (linker, apart) in linkers {
        let directory = tempfile::tempdir().unwrap();
        let Some((_, whole)) = programs(&directory, linker, apart) else {
            continue;
        };
        let new = directory.path().join("new");
        let mut fixed = 0;
        for way in ways {
            let output = hugetext(&[&["fix", path(&whole), "-o", path(&new)], way].concat());
            if output.status.success() {
                assert_eq!(run(&new), "as built\n", "{linker} {apart} {way:?}");
                fixed += 1;
            } else if output.status.code() != Some(1) {
                let line = error_line(&output);
                assert!(line.contains(".clickhouse.hash"), "{line}");
            }
        }
        // Only text that holds the ELF header changes with every fix.
        assert_eq!(fixed > 0, apart != "-Wl,-z,noseparate-code", "{linker}");
    }
}

/// Nothing tells of an unknown program that it does so.
#[test]
fn a_fix_without_options_and_a_run_keep_what_it_finds() {
    let directory = tempfile::tempdir().unwrap();
    for linker in ["bfd", "lld"] {
        let Some((plain, _)) = programs(&directory, linker, "-Wl,-z,separate-code") else {
            continue;
        };
        let new = directory.path().join("new");
        fix(&plain, &new, &[]);
        assert_eq!(sum_of(&plain), sum_of(&new), "{linker}");
        let store = directory.path().join("store");
        let shown = hugetext(&["run", "--store", path(&store), path(&plain), "tell"]);
        assert_eq!(sum_of(&plain), text(&shown.stdout), "{linker}");
    }
}
