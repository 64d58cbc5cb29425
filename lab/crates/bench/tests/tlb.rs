//! `hugetext bench tlb` on programs of this machine.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext-bench"));
    command.arg("tlb").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether this machine has an emulator. Without one, the command says which packages are missing.
/// Any other reason is a defect.
fn emulator() -> bool {
    let output = bench(&["--json", "--core", "zen4", "--", "true"]);
    if !output.status.success() {
        let line = stderr(&output);
        assert!(line.contains("install the package"), "{line}");
        println!("skipped: {line}");
    }
    output.status.success()
}

/// The report without the parts that differ from run to run: the time, the counts of the
/// processor, and the present page cache, which other programs change.
fn stable(output: &Output) -> Value {
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for measured in ["run", "hardware"] {
        report.as_object_mut().unwrap().remove(measured);
    }
    let not_today = |layouts: &mut Value| {
        let layouts = layouts.as_array_mut().unwrap();
        layouts.retain(|figures| figures["layout"] != "today");
    };
    not_today(&mut report["layouts"]);
    for core in report["cores"].as_array_mut().unwrap() {
        not_today(&mut core["layouts"]);
    }
    for benchmark in report["benchmarks"].as_array_mut().unwrap() {
        // The notes contain counts of the processor.
        benchmark.as_object_mut().unwrap().remove("notes");
        let sides = benchmark["sides"].as_array_mut().unwrap();
        let today = sides.iter().position(|side| side["name"] == "today");
        let today = today.unwrap();
        sides.remove(today);
        for measure in benchmark["measures"].as_array_mut().unwrap() {
            measure["values"].as_array_mut().unwrap().remove(today);
        }
    }
    report
}

#[test]
fn counts_are_the_same_every_time_and_huge_pages_miss_less() {
    if !emulator() {
        return;
    }
    let cc1 = Command::new("cc").arg("-print-prog-name=cc1").output();
    let cc1 = cc1.map(|output| String::from_utf8(output.stdout).unwrap());
    let Some(cc1) = cc1.ok().filter(|path| path.starts_with('/')) else {
        println!("skipped: no C compiler");
        return;
    };
    let mut compile = vec!["--json", "--core", "zen4", "--core", "cortex-a53", "--"];
    compile.extend([cc1.trim_end(), "-quiet", "/dev/null", "-o", "/dev/null"]);
    let first = bench(&compile);
    assert!(first.status.success(), "{}", stderr(&first));
    let report = stable(&first);
    assert_eq!(report["schema"], 3);
    assert!(report["instructions"].as_u64().unwrap() > 1_000_000);
    for core in report["cores"].as_array().unwrap() {
        let misses = |layout: &str| {
            let figures = core["layouts"].as_array().unwrap();
            let figures = figures
                .iter()
                .find(|figures| figures["layout"] == layout)
                .unwrap();
            (
                figures["l1_misses"].as_u64().unwrap(),
                figures["l2_misses"].as_u64().unwrap(),
            )
        };
        let (base, fixed) = (misses("4k"), misses("fixed"));
        assert!(fixed.0 < base.0 / 2 && fixed.1 < base.1, "{core}");
        assert!(base.1 <= base.0 && fixed.1 <= fixed.0, "{core}");
    }
    let second = bench(&compile);
    assert_eq!(stable(&second), report);
}

#[test]
fn a_core_named_twice_is_modelled_once() {
    if !emulator() {
        return;
    }
    let names = ["cortex-a53", "zen4", "cortex-a53"];
    let cores = names.iter().flat_map(|name| ["--core", *name]);
    let rest = ["--json", "--", "true"];
    let output = bench(&cores.chain(rest).collect::<Vec<_>>());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cores = report["cores"].as_array().unwrap().iter();
    let modelled: Vec<&str> = cores.map(|core| core["core"].as_str().unwrap()).collect();
    assert_eq!(modelled, names[..2]);
}

#[test]
fn the_output_names_the_emulator() {
    for (name, shown) in [("qemu", "QEMU "), ("valgrind", "Valgrind ")] {
        let output = bench(&["--json", "--emulator", name, "--core", "zen4", "--", "true"]);
        if !output.status.success() {
            println!("skipped: {}", stderr(&output));
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["emulator"].as_str().unwrap().starts_with(shown));
    }
}

#[test]
fn both_runs_read_the_input_from_its_beginning() {
    if !emulator() {
        return;
    }
    let input = tempfile::NamedTempFile::new().unwrap();
    let path = input.path().to_str().unwrap();
    let instructions = || {
        let output = bench(&["--json", "--core", "zen4", "--input", path, "--", "cksum"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["instructions"].as_u64().unwrap()
    };
    let empty = instructions();
    std::fs::write(input.path(), vec![1; 4 << 20]).unwrap();
    assert!(instructions() > empty + (1 << 20));
}

#[test]
fn errors_are_one_line() {
    let failing = |arguments: &[&str], says: &str| {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let line = stderr(&output);
        assert!(line.contains(says) && line.lines().count() == 1, "{line}");
    };
    failing(&["--", "no-such-command"], "no such command");
    if !emulator() {
        return;
    }
    failing(&["--input", "/no/such/file", "--", "true"], "/no/such/file");
    failing(&["--", "false"], "failed");
    failing(&["--timeout", "0", "--", "sleep", "1000"], "--timeout");
}

#[test]
fn a_missing_emulator_is_named_with_its_package() {
    let own = std::env::current_exe().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hugetext-bench"))
        .env("PATH", "/nonexistent")
        .args(["tlb", "--"])
        .arg(own)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line = stderr(&output);
    // A static command has no plugin, so QEMU would not help.
    let qemu = ["package qemu-user", "no QEMU plugin"];
    assert!(qemu.iter().any(|told| line.contains(told)), "{line}");
    assert!(line.contains("packages valgrind and gcc"), "{line}");
}
