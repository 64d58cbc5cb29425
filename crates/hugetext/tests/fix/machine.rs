//! Every program and shared object of the machine, fixed into a scratch directory.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sample::{hugetext, path, text};
use crate::tools::without_places;
use crate::versions;

const ROOTS: [&str; 4] = ["/usr", "/opt", "/home", "/root"];

/// The ELF64 little-endian executables and shared objects, in the order of paths. Each inode is
/// listed once.
pub(crate) fn programs() -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let walk = |root| {
        ignore::WalkBuilder::new(root)
            .standard_filters(false)
            // Others write and remove what they keep there while this runs.
            .filter_entry(|entry| entry.file_name() != ".cache")
            .build()
    };
    for entry in ROOTS.iter().flat_map(walk).flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if !metadata.is_file() || !seen.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        let mut header = [0; 18];
        let read = fs::File::open(entry.path()).and_then(|mut file| file.read_exact(&mut header));
        let program = header.starts_with(b"\x7fELF\x02\x01") && matches!(header[16], 2 | 3);
        if read.is_ok() && program {
            found.push(entry.into_path());
        }
    }
    found.sort();
    found
}

/// The numbers of files by result.
#[derive(Debug, Default)]
struct Tally {
    fixed: usize,
    refused: usize,
    unreadable: usize,
    compared: usize,
    linted: usize,
    run: usize,
}

/// Fixes one file by one strategy, which verifies the result. If asked, compares the output of
/// tools for both files.
fn round_trip(old: &Path, strategy: &str, compare: bool, directory: &Path, tally: &mut Tally) {
    // Text smaller than 2 MiB is laid out for leaves of 64 KiB.
    let new = directory.join("new");
    let strategy_option = format!("--strategy={strategy}");
    let geometry = "--geometry=arm64-4k";
    let output = hugetext(&[
        "fix",
        path(old),
        // A file of NSS is laid out too, although its checksum forbids the use of the result.
        "--vouched",
        &strategy_option,
        geometry,
        "-o",
        path(&new),
    ]);
    match output.status.code() {
        Some(0) => tally.fixed += 1,
        Some(1) => {
            tally.refused += 1;
            return;
        }
        Some(2) if says_any(&output.stderr, &["malformed", "truncated", "not supported"]) => {
            tally.unreadable += 1;
            return;
        }
        Some(2)
            if says_any(
                &output.stderr,
                &["text relocations", "follow the ELF image"],
            ) =>
        {
            tally.refused += 1;
            return;
        }
        _ => panic!("{}: {}", old.display(), text(&output.stderr)),
    }
    if compare {
        same_to_tools(old, &new, tally);
    }
    fs::remove_file(&new).unwrap();
}

fn says_any(output: &[u8], words: &[&str]) -> bool {
    let said = text(output);
    words.iter().any(|word| said.contains(word))
}

/// `fix` has verified the result. `check --same` verifies it once more from the files.
fn same_to_tools(old: &Path, new: &Path, tally: &mut Tally) {
    let same = hugetext(&["check", "--same", path(old), path(new)]);
    assert!(same.status.success(), "{}", text(&same.stdout));
    for options in [["-sW", "-nW"], ["-dW", "-rW"]] {
        let read = |file: &Path| {
            let output = Command::new("readelf")
                .args(options)
                .arg(file)
                .output()
                .unwrap();
            without_places(&text(&output.stdout)).replace(path(file), "FILE")
        };
        assert!(
            read(old) == read(new),
            "readelf {options:?} {}",
            old.display()
        );
    }
    tally.compared += 1;
    if lints(old) {
        tally.linted += 1;
        assert!(lints(new), "eu-elflint {}", old.display());
    }
    if is_kind(old)
        && let Some(same) = versions::is_same(old, new)
    {
        tally.run += 1;
        assert!(same, "{} --version", old.display());
    }
}

fn lints(file: &Path) -> bool {
    let output = Command::new("eu-elflint")
        .args(["-q", "--gnu-ld"])
        .arg(file)
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// Whether the program is known to answer --version without side effects.
fn is_kind(program: &Path) -> bool {
    const KIND: [&str; 12] = [
        "gcc", "ld", "as", "ls", "bash", "git", "perl", "gdb", "make", "tar", "sed", "node",
    ];
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| KIND.iter().any(|kind| name.starts_with(kind)))
}

/// Fixes every `step`th file, and compares every `compare`th of these.
fn round_trips(step: usize, compare: usize) {
    let directory = tempfile::tempdir().unwrap();
    let programs = programs();
    let mut tally = Tally::default();
    for (index, program) in programs.iter().step_by(step).enumerate() {
        for strategy in ["shift", "merge"] {
            let compare = index % compare == 0;
            round_trip(program, strategy, compare, directory.path(), &mut tally);
        }
    }
    println!("{} files, every {step}th: {tally:?}", programs.len());
    assert!(tally.fixed > 0);
}

#[test]
fn some_files_of_the_machine() {
    round_trips(400, 1);
}

/// `make test-all`.
#[test]
#[ignore = "takes a long time; make test-all runs it"]
fn every_file_of_the_machine() {
    round_trips(1, 20);
}
