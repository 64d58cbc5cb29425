//! The lab's answer when something is missing, broken, full or hangs: one line, exit status 2, and
//! no guest left behind. Tests that need a fetched kernel print that and pass if none is there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use rustix::process::{Signal, kill_process};

const LAB: &str = env!("CARGO_BIN_EXE_hugetext-lab");

/// The cache of this checkout.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.cache/lab")
}

/// A cached kernel for x86-64. A copy of the cache in `directory` gets links to everything except
/// the directories in `own`.
fn copy_of_cache(directory: &Path, own: &[&str]) -> Option<String> {
    let kernels = fs::read_dir(cache().join("kernels"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = kernels
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.retain(|name| name.ends_with("-amd64"));
    names.sort();
    let name = names.pop();
    if name.is_none() {
        println!("skipped: no kernel in the cache; 'make -C lab fetch' fetches them");
    }
    for part in ["kernels", "programs", "archive"] {
        if !own.contains(&part) {
            let target = fs::canonicalize(cache().join(part)).ok()?;
            symlink(target, directory.join(part)).unwrap();
        }
    }
    name
}

fn lab(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command
        .arg("--cache")
        .arg(cache)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Asserts exit status 2 and one line of error that contains every word; returns the line.
fn refused(output: &Output, words: &[&str]) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("hugetext-lab: "), "{said}");
    for word in words {
        assert!(last.contains(word), "no '{word}' in: {last}");
    }
    last
}

/// Processes other than `not` whose command line names `directory`.
fn processes_of(directory: &Path, not: Option<Pid>) -> Vec<Pid> {
    let name = directory.to_string_lossy().into_owned();
    let all = hugetext_host::pids().unwrap().into_iter();
    all.filter(|pid| Some(*pid) != not && *pid != Pid::own())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&name)
        })
        .collect()
}

/// Waits until `condition` holds, for at most two minutes.
fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "waited too long until {what}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_kernel_that_was_not_fetched_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = lab(directory.path(), &["boot", "6.18-amd64"])
        .output()
        .unwrap();
    refused(&output, &["fetch"]);
}

#[test]
fn no_qemu() {
    let directory = tempfile::tempdir().unwrap();
    let Some(kernel) = copy_of_cache(directory.path(), &[]) else {
        return;
    };
    let empty = tempfile::tempdir().unwrap();
    let output = lab(directory.path(), &["boot", &kernel])
        .env("PATH", empty.path())
        .output();
    refused(
        &output.unwrap(),
        &["qemu-system-x86_64", "scripts/setup.sh lab"],
    );
}

#[test]
fn no_network_at_the_first_fetch() {
    let directory = tempfile::tempdir().unwrap();
    let output = lab(directory.path(), &["fetch", "6.18-amd64"])
        .env("http_proxy", "http://127.0.0.1:1")
        .env("https_proxy", "http://127.0.0.1:1")
        .output()
        .unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("apt") {
        println!("skipped: no Debian archive is configured here");
        return;
    }
    refused(&output, &["first fetch needs the network"]);
}

#[test]
fn a_corrupted_cache() {
    let directory = tempfile::tempdir().unwrap();
    let Some(kernel) = copy_of_cache(directory.path(), &["kernels"]) else {
        return;
    };
    let (from, to) = (cache().join("kernels"), directory.path().join("kernels"));
    let (from, to) = (from.join(&kernel), to.join(&kernel));
    fs::create_dir_all(&to).unwrap();
    fs::copy(from.join("manifest.json"), to.join("manifest.json")).unwrap();
    fs::write(to.join("vmlinuz"), "not a kernel").unwrap();
    let output = lab(directory.path(), &["boot", &kernel]).output().unwrap();
    refused(
        &output,
        &["vmlinuz", "differs from the fetched file", "fetch --again"],
    );
}

#[test]
fn a_guest_that_hangs_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let Some(kernel) = copy_of_cache(directory.path(), &[]) else {
        return;
    };
    // No guest says anything in no time.
    let output = lab(directory.path(), &["boot", &kernel, "--timeout", "0"])
        .output()
        .unwrap();
    refused(&output, &[&kernel, "printed nothing", "console"]);
    assert!(processes_of(directory.path(), None).is_empty());
}

#[test]
fn a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let Some(kernel) = copy_of_cache(directory.path(), &[]) else {
        return;
    };
    let runs = directory.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1M tmpfs {} && exec {LAB} --cache {} boot {kernel}",
        runs.display(),
        directory.path().display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let output = unshare.output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("unshare") {
        println!("skipped: no user namespaces here");
        return;
    }
    refused(&output, &["No space left on device"]);
}

#[test]
fn a_killed_lab_leaves_no_guest() {
    for signal in [Signal::INT, Signal::KILL] {
        let directory = tempfile::tempdir().unwrap();
        let Some(kernel) = copy_of_cache(directory.path(), &[]) else {
            return;
        };
        let mut lab = lab(directory.path(), &["boot", &kernel]);
        let mut lab: Child = lab
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let runs = directory.path().join("runs");
        let guests = || processes_of(&runs, Some(Pid::of_child(&lab)));
        until("a guest runs", || !guests().is_empty());
        kill_process(rustix::process::Pid::from_child(&lab), signal).unwrap();
        until("the guest is gone", || guests().is_empty());
        lab.wait().unwrap();
    }
}
