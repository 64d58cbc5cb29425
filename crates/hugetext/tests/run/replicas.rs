//! `hugetext run --replicas` and `--numa`: copies that divide locks, or that are near.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::subject::{HUGETEXT, Subject, is_excused, on_a_harmless_machine, text};

/// A small dynamic program of every machine that prints the files that it maps.
const PROGRAM: &str = "/bin/cat";
const MAPS: &str = "/proc/self/maps";

fn run(store: &Path, options: &[&str]) -> Output {
    let mut run = on_a_harmless_machine(store.parent().unwrap());
    run.args(["run", "--store"]).arg(store).args(options);
    run.args(["--", PROGRAM, MAPS]).output().unwrap()
}

/// Inode and path of the executable mappings whose path contains `name`.
fn mapped(output: &Output, name: &str) -> BTreeSet<(String, String)> {
    let maps = text(&output.stdout);
    let lines = maps.lines().filter(|line| line.contains(" r-xp "));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.last().is_some_and(|path| path.contains(name)))
        .map(|words| (words[4].to_owned(), words[5].to_owned()))
        .collect()
}

/// Reason for which no copy could be shown, if there was one.
fn no_copies(output: &Output) -> bool {
    let warned = text(&output.stderr);
    let excuse = ["no mount namespace", "cannot be executed", "unshare"];
    let excused = excuse.iter().any(|excuse| warned.contains(excuse));
    if excused {
        println!("skipped: {warned}");
    }
    excused || is_excused(output)
}

#[test]
fn a_loop_is_spread_over_replicas_under_the_same_paths() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = directory.path().join("store");
    let plain = Command::new(PROGRAM).arg(MAPS).output().unwrap();
    let paths = |output: &Output| -> BTreeSet<String> {
        let found = mapped(output, "/").into_iter();
        found.map(|(_, path)| path).collect()
    };
    let originals = mapped(&plain, "libc.so");
    let mut inodes = BTreeSet::new();
    // Half of the draws are expected to differ. That 64 are all alike does not happen.
    for _ in 0..64 {
        let output = run(&store, &["--replicas", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        if no_copies(&output) {
            return;
        }
        assert_eq!(
            paths(&output),
            paths(&plain),
            "a process sees its own paths"
        );
        let libc = mapped(&output, "libc.so");
        if !libc.is_disjoint(&originals) {
            // A machine that is too busy for a copy is told of, and the command runs all the same.
            let told = text(&output.stderr);
            assert_ne!(told, "", "the file itself is used");
            return println!("skipped: {told}");
        }
        inodes.extend(libc);
        if inodes.len() == 2 {
            break;
        }
    }
    assert_eq!(inodes.len(), 2, "{inodes:?}");
    let ls = Command::new(HUGETEXT)
        .args(["store", "--json", "--store"])
        .arg(&store)
        .arg("ls")
        .output();
    let listed = text(&ls.unwrap().stdout);
    for name in ["replica0", "replica1"] {
        assert!(listed.contains(name), "{listed}");
    }
}

#[test]
fn an_upgraded_program_gets_new_replicas() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let run = || {
        let mut run = subject.run();
        run.args(["--replicas", "1", "--"])
            .arg(&subject.program)
            .arg("exit");
        run.output().unwrap()
    };
    let first = run();
    assert_eq!(first.status.code(), Some(42), "{}", text(&first.stderr));
    if no_copies(&first) {
        return;
    }
    let entries = || {
        let ls = Command::new(HUGETEXT)
            .args(["store", "--json", "--store"])
            .arg(subject.directory().join("store"))
            .arg("ls")
            .output()
            .unwrap();
        let listing: serde_json::Value = serde_json::from_slice(&ls.stdout).unwrap();
        let entries = listing["entries"].as_array().unwrap().iter();
        let own = entries.filter(|entry| entry["path"] == subject.program.to_str().unwrap());
        own.count()
    };
    let before = entries();
    assert_eq!(run().status.code(), Some(42));
    assert_eq!(entries(), before, "the same file has the same replica");
    // As a package manager does it: another file is renamed over the path.
    let new = subject.directory().join("new");
    std::fs::copy(&subject.program, &new).unwrap();
    let file = std::fs::File::options().append(true).open(&new).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"x", 0).unwrap();
    drop(file);
    std::fs::rename(&new, &subject.program).unwrap();
    assert_eq!(run().status.code(), Some(42));
    assert_eq!(entries(), before + 1);
}

#[test]
fn the_cost_is_told_before() {
    let directory = tempfile::tempdir().unwrap();
    let plan = |options: &[&str]| -> serde_json::Value {
        let mut run = on_a_harmless_machine(directory.path());
        run.args(["run", "--dry-run", "--json", "--store"])
            .arg(directory.path());
        let output = run.args(options).args(["--", PROGRAM]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert!(plan(&[])["replicas"].is_null());
    let three = plan(&["--replicas", "3"]);
    let cost = &three["replicas"];
    let memory = cost["memory"].as_u64().unwrap();
    let files = three["files"].as_array().unwrap().iter();
    let copied = files.filter(|file| file["action"] == "copy" || file["action"] == "fix");
    assert!(copied.count() > 0 && memory > 0, "{three}");
    assert_eq!(cost["copies"], 3);
    assert_eq!(cost["all_memory"].as_u64(), Some(3 * memory));
    assert!(cost["disk"].as_u64().unwrap() <= memory);
    // A tmpfs of huge pages takes a whole one for each file.
    let in_memory = plan(&["--replicas", "3", "--backend", "store"]);
    assert!(in_memory["replicas"]["memory"].as_u64().unwrap() > memory);
}

/// A copy and the record of its entry take a huge page each there, however small they are.
#[test]
fn a_store_on_huge_pages_takes_exactly_what_was_told() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o huge=always none \"$1\" || exit 99
        \"$0\" run --dry-run --json --replicas 1 --store \"$1/store\" -- /bin/cat || exit 98
        \"$0\" run --replicas 1 --store \"$1/store\" -- /bin/cat /dev/null || exit 98
        df --block-size=1 --output=used \"$1\" | tail -n 1";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, HUGETEXT])
        .arg(directory.path())
        .output()
        .unwrap();
    if no_copies(&output) || !output.status.success() && output.status.code() != Some(98) {
        return println!("skipped: {}", text(&output.stderr));
    }
    let said = text(&output.stdout);
    let (plan, used) = said.trim_end().rsplit_once('\n').unwrap();
    let plan: serde_json::Value = serde_json::from_str(plan).unwrap();
    let used: u64 = used.trim().parse().unwrap();
    if used == 0 {
        return println!("skipped: nothing was copied: {}", text(&output.stderr));
    }
    assert_eq!(plan["replicas"]["memory"], used, "{plan}");
}

#[test]
fn numa_tells_what_the_command_gets() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = run(directory.path(), &["--numa"]);
    assert!(output.status.success());
    let told = text(&output.stderr);
    let nodes = std::fs::read_dir("/sys/devices/system/node");
    let nodes = nodes.into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_prefix("node")
            .is_some_and(|number| number.parse::<u32>().is_ok())
    });
    if nodes.count() < 2 {
        assert!(told.contains("one node with memory"), "{told}");
    }
}
