//! Processes that are named by their control group or unit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{Sleeper, promote, stderr};

/// A control group of this test's own, removed at the end. Its members are given back to the group above.
struct Group(PathBuf);

impl Group {
    /// `None`, with the reason printed, where none can be made.
    fn new(name: &str) -> Option<Group> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let mount = mounts
            .into_iter()
            .find(|mount| mount.join("cgroup.procs").exists());
        let group = Group(mount?.join(format!("hugetext-{name}-{}.service", std::process::id())));
        match std::fs::create_dir(&group.0) {
            Ok(()) => Some(group),
            Err(error) => {
                println!("skipped: {}: {error}", group.0.display());
                None
            }
        }
    }

    fn add(&self, process: &Sleeper) {
        std::fs::write(self.0.join("cgroup.procs"), process.pid()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let members = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            let above = self.0.parent().unwrap().join("cgroup.procs");
            let _ = std::fs::write(above, member);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn pids_of(output: &Output) -> Vec<String> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let processes = report["processes"].as_array().unwrap().iter();
    processes
        .map(|process| process["pid"].to_string())
        .collect()
}

#[test]
fn a_control_group_and_a_unit_name_their_processes() {
    let Some(group) = Group::new("names") else {
        return;
    };
    let (one, other, outside) = (Sleeper::start(), Sleeper::start(), Sleeper::start());
    group.add(&one);
    group.add(&other);
    let path = group.0.to_str().unwrap();
    let unit = group.0.file_stem().unwrap().to_str().unwrap();
    for which in [["--cgroup", path], ["--unit", unit]] {
        let output = promote(&[&["--json", "--dry-run"], &which[..]].concat());
        if stderr(&output).contains("transparent huge pages") {
            println!("skipped: {}", stderr(&output));
            return;
        }
        let found = pids_of(&output);
        assert!(
            found.contains(&one.pid()) && found.contains(&other.pid()),
            "{found:?}"
        );
        assert!(!found.contains(&outside.pid()), "{found:?}");
    }
    let output = promote(&["--unit", "hugetext-no-such-unit"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no such unit is running"));
}

#[test]
fn who_comes_while_promote_waits_is_promoted_too() {
    let Some(group) = Group::new("waits") else {
        return;
    };
    let first = Sleeper::start();
    group.add(&first);
    let waiting = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(["promote", "--json", "--wait", "4", "--cgroup"])
        .arg(&group.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let late = Sleeper::start();
    group.add(&late);
    let output = waiting.wait_with_output().unwrap();
    if stderr(&output).contains("transparent huge pages") {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let mut found = pids_of(&output);
    found.sort();
    let mut wanted = [first.pid(), late.pid()];
    wanted.sort();
    assert_eq!(found, wanted, "each once: {}", stderr(&output));
}
