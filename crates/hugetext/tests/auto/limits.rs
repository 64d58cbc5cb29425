//! Control groups with a memory limit.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, Working, can_hold};

/// A control group with a memory limit, removed when dropped.
struct Limited(PathBuf);

impl Limited {
    /// `None`, with the reason printed, if this machine lets nobody make one.
    fn new() -> Option<Limited> {
        // Of version 2 and of version 1.
        let places = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        for (root, limit) in places {
            let group = PathBuf::from(root).join(format!("hugetext-{}", std::process::id()));
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Limited(group);
            // The file is the kernel's. A directory of another filesystem lacks it.
            let limit = OpenOptions::new().write(true).open(group.0.join(limit));
            if limit.is_ok_and(|mut limit| limit.write_all(b"256M").is_ok()) {
                return Some(group);
            }
        }
        println!("skipped: no control group with a memory limit can be made");
        None
    }

    /// Starts a program that works in the group.
    fn work(&self, program: PathBuf) -> Working {
        let script = r#"echo 0 > "$0/cgroup.procs" && exec "$1" work"#;
        let shell = Command::new("sh")
            .args(["-c", script])
            .args([&self.0, &program])
            .spawn();
        Working(shell.unwrap())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The kernel would rather kill a process of the group than take locked pages from it.
#[test]
fn what_a_limited_group_may_pay_for_is_not_locked() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let Some(group) = Limited::new() else {
        return;
    };
    // Its text is huge already.
    let working = group.work(place.path("program"));
    let daemon = place.daemon(&[]);
    let begun = Instant::now();
    let file = loop {
        let status = fs::read(place.path("run/all.json")).unwrap_or_default();
        let status = String::from_utf8(status).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(120), "{status}");
        // The document is there, and says so of some file.
        if status.contains("charged_elsewhere") {
            let file = place.status_of(&place.path("program"));
            let is_told = |file: &Value| file["cause"] == "charged_elsewhere";
            if let Some(file) = file.filter(is_told) {
                break file;
            }
        }
        thread::yield_now();
    };
    assert_eq!(file["state"], "waiting", "{file}");
    drop(working);
    drop(group);
    daemon.end();
}
