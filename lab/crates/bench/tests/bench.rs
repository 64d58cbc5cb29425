//! The benchmarks of the laboratory as a user runs them. They are small: the tests check the reports, not the figures.

#![allow(clippy::unwrap_used)]

#[path = "../../../../crates/hugetext/tests/bench/cut_short.rs"]
mod cut_short;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::cut_short::{ends_on_ctrl_c, sees_a_full_disk};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_hugetext-bench");

fn bench(arguments: &[&str]) -> Output {
    Command::new(BENCH).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The benchmarks of a report. `None`, with the reason printed, if this machine cannot run them.
fn benchmarks(arguments: &[&str]) -> Option<Vec<Value>> {
    let output = bench(arguments);
    if output.status.code() == Some(1) {
        println!("skipped: {}", stderr(&output));
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    Some(report["benchmarks"].as_array().unwrap().clone())
}

fn measure<'b>(benchmark: &'b Value, name: &str) -> &'b Vec<Value> {
    let measures = benchmark["measures"].as_array().unwrap();
    let measure = measures.iter().find(|measure| measure["name"] == name);
    measure.unwrap()["values"].as_array().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn ctrl_c_ends_a_benchmark_and_its_files() {
    let many = ["--rounds", "100000"];
    for (benchmark, named, rest) in [
        ("rmap", true, &["--per-round", "1"][..]),
        ("cold", false, &["--size", "8"]),
        ("syscalls", false, &["--passes", "10"]),
        ("mprotect", false, &["--size", "8", "--loops", "1"]),
    ] {
        let place = tempfile::tempdir().unwrap();
        let directory = ["--directory", path(place.path())];
        let mut command = Command::new(BENCH);
        command.args([&[benchmark][..], &many, &directory, rest].concat());
        ends_on_ctrl_c(&mut command, place.path(), named);
    }
}

#[test]
fn a_full_disk_is_seen_before_the_first_byte() {
    let benchmarks = ["cold", "random", "mprotect", "rmap", "syscalls"];
    sees_a_full_disk(&benchmarks.map(|name| format!("'{BENCH}' {name}")));
}

#[test]
fn a_benchmark_does_not_outlast_its_time() {
    for benchmark in [&["cold", "--size", "8"][..], &["mprotect", "--size", "8"]] {
        let output = bench(&[benchmark, &["--timeout", "0"]].concat());
        if output.status.code() == Some(1) {
            println!("skipped: {}", stderr(&output));
            continue;
        }
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(
            text.contains("--timeout") && text.lines().count() == 1,
            "{text}"
        );
    }
}

#[test]
fn calls_are_measured_on_what_each_side_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let place = ["--json", "--rounds", "1", "--size", "8", "--directory"];
    for (kind, name) in [("cold", "first sweep"), ("random", "random calls")] {
        let arguments = [&[kind][..], &place, &[path(directory.path())]].concat();
        let Some(benchmarks) = benchmarks(&arguments) else {
            return;
        };
        let time = measure(&benchmarks[0], name);
        assert!(time.len() >= 3);
        let huge = measure(&benchmarks[0], "mapped by huge leaves");
        let bytes: Vec<f64> = huge
            .iter()
            .map(|side| side["median"].as_f64().unwrap())
            .collect();
        assert_eq!(
            bytes[..3],
            [0.0, f64::from(8 << 20), 0.0],
            "small, warmed, misaligned"
        );
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn passes_are_timed_without_and_with_system_calls() {
    let words = ["syscalls", "--json", "--rounds", "1", "--passes", "10"];
    let Some(benchmarks) = benchmarks(&words) else {
        return;
    };
    for name in ["passes after system calls", "passes alone"] {
        let sides = measure(&benchmarks[0], name);
        assert!(sides[1]["ratio"]["median"].as_f64().unwrap() > 0.0);
    }
    let huge = measure(&benchmarks[0], "mapped by huge leaves");
    let bytes = |side: usize| huge[side]["median"].as_f64().unwrap();
    let expected = [0.0, f64::from(2 << 20), 0.0];
    assert_eq!([bytes(0), bytes(1), bytes(2)], expected);
}

#[test]
fn a_file_that_does_not_fit_is_not_begun() {
    let output = bench(&["cold", "--size", "1000000"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("not enough") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn mprotect_compares_memory_and_files() {
    let arguments = [
        "mprotect", "--json", "--rounds", "1", "--size", "16", "--loops", "1",
    ];
    let Some(benchmarks) = benchmarks(&arguments) else {
        return;
    };
    assert_eq!(benchmarks.len(), 2);
    let files = measure(&benchmarks[1], "all changes");
    assert!(files[1]["ratio"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn merged_files_make_fewer_mappings_and_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let small = [
        "--json",
        "--rounds",
        "1",
        "--per-round",
        "2",
        "--workers",
        "2",
    ];
    let place = ["--directory", path(directory.path())];
    let Some(benchmarks) = benchmarks(&[&["rmap"][..], &small, &place].concat()) else {
        return;
    };
    assert!(measure(&benchmarks[0], "2 workers")[0]["median"].as_f64() > Some(0.0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let mappings = benchmarks[0]["measures"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    if mappings["name"] != "file mappings" {
        println!("skipped: ptrace is not permitted here");
        return;
    }
    let count = |side: usize| mappings["values"][side]["median"].as_f64().unwrap();
    // On arm64, GNU ld puts text and read-only data into one segment, so there is nothing to merge.
    let most = count(0) - f64::from(u8::from(cfg!(target_arch = "x86_64")));
    assert!(count(1) <= most, "merged");
    assert_eq!(count(2), count(0), "replicas");
}

#[test]
fn numbers_of_replicas_are_measured_beside_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let small = [
        "--json",
        "--rounds",
        "1",
        "--per-round",
        "1",
        "--workers",
        "1",
    ];
    let place = ["--directory", path(directory.path()), "--replicas", "1,2"];
    let Some(benchmarks) = benchmarks(&[&["rmap"][..], &small, &place].concat()) else {
        return;
    };
    let sides = benchmarks[0]["sides"].as_array().unwrap().iter();
    let names: Vec<&str> = sides.map(|side| side["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["stock", "merged", "1 replica", "2 replicas"]);
}

/// `hugetext-lab boot --numa 2` is where it measures; see lab/scripts/replicas-guest.sh.
#[test]
fn nodes_are_compared_where_there_are_several() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(BENCH)
        .args(["numa", "--rounds", "1", "--size", "4", "--flush", "1"])
        .arg("--directory")
        .arg(directory.path())
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => assert!(String::from_utf8_lossy(&output.stdout).contains("local")),
        Some(1) => assert!(stderr(&output).contains("node"), "{}", stderr(&output)),
        other => panic!("{other:?}: {}", stderr(&output)),
    }
}

/// The first document is described with those of the command, the second one beside this workspace.
#[test]
fn documents_are_what_their_schemas_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (arguments, schema) in [
        (
            &["mprotect", "--rounds", "1", "--size", "8", "--loops", "1"][..],
            "docs/schema/bench.json",
        ),
        (
            &["tlb", "--core", "zen4", "--", "true"],
            "lab/schema/bench-tlb.json",
        ),
    ] {
        let output = bench(&[&["--json"], arguments].concat());
        if output.stdout.is_empty() {
            println!("skipped: {arguments:?}: {}", stderr(&output));
            continue;
        }
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut schemas = boon::Schemas::new();
        let file = root.join(schema);
        let compiled = boon::Compiler::new().compile(path(&file), &mut schemas);
        let valid = schemas.validate(&document, compiled.unwrap());
        assert!(valid.is_ok(), "{arguments:?}: {}", valid.unwrap_err());
    }
}
