//! The daemon of `hugetext auto`, live, on a program that no list names.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bad_files;
mod crowd;
mod flood;
mod fuse;
mod limits;
mod names;
mod place;
mod reasons;
#[path = "../session/mod.rs"]
mod session;
mod slow_filesystem;
#[path = "../small_folios/mod.rs"]
mod small_folios;
mod unmount;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use place::{Place, Working, can_hold, hugetext, turns};
use small_folios::make_small;

#[test]
fn no_thread_keeps_the_power_to_administer() {
    let place = Place::new("observe");
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    let tasks = format!("/proc/{}/task", daemon.child.id());
    for task in fs::read_dir(tasks).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
        let permitted = u64::from_str_radix(permitted.unwrap().trim(), 16).unwrap();
        assert_eq!(permitted >> 21 & 1, 0, "CAP_SYS_ADMIN: {status}");
    }
    daemon.end();
}

#[test]
fn a_hot_program_is_found_held_followed_and_remembered() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let mut daemon = place.daemon(&[]);
    let Some(held) = place.run_until(&daemon, "held") else {
        return;
    };
    assert!(held["bytes"].as_u64().unwrap() >= 2 << 20, "{held}");
    // It may hold files of others, whose names are bytes.
    let smaps = fs::read(format!("/proc/{}/smaps", daemon.child.id())).unwrap();
    let smaps = String::from_utf8_lossy(&smaps);
    let program = place.path("program");
    let mapped = smaps
        .lines()
        .filter(|line| line.ends_with(program.to_str().unwrap()));
    for line in mapped {
        assert!(
            line.contains(" r--s "),
            "held other than by reading: {line}"
        );
    }
    // An upgrade: the old file is released, and the new one held.
    place.install(7);
    for event in ["released", "held"] {
        if place.run_until(&daemon, event).is_none() {
            return;
        }
    }
    // A bad configuration is reported with its line, and the old one stays.
    place.configure("mode = \"act\"\nbugdet = \"1G\"\n");
    daemon.signal(Signal::HUP);
    let said = daemon.complaint();
    assert!(
        said.contains("auto.toml:2: unknown field `bugdet`"),
        "{said}"
    );
    assert!(said.contains("the old configuration stays"), "{said}");
    daemon.end();
    assert!(!place.path("run").exists(), "it has made the directory");
    // What was seen outlives the daemon: it is held again without being run.
    place.configure("mode = \"act\"\nbudget = \"64M\"\nshare = 0.02\n");
    let daemon = place.daemon(&[]);
    // A kernel without huge folios for it is waited for no longer than this.
    let next = || daemon.events.recv_timeout(Duration::from_secs(60)).ok();
    let told = std::iter::from_fn(next).find(|told| told["event"] == "held");
    if told.is_none() {
        println!("skipped: not held again: {:#}", place.status());
    }
    daemon.end();
}

#[test]
fn what_runs_in_small_pages_is_promoted_where_a_rule_allows_it() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let program = place.path("program");
    make_small(&program);
    let working = Working(Command::new(&program).arg("on").spawn().unwrap());
    let pid = working.0.id();
    let rule = |verdict| {
        format!(
            "[[rule]]\npath = \"{}\"\nverdict = \"{verdict}\"\n",
            program.display()
        )
    };
    place.configure(&format!(
        "mode = \"act\"\nbudget = \"64M\"\nshare = 0.02\n{}",
        rule("promote")
    ));
    let daemon = place.daemon(&[]);
    let Some(promoted) = place.run_until(&daemon, "promoted") else {
        return;
    };
    assert!(promoted["bytes"].as_u64().unwrap() >= 2 << 20, "{promoted}");
    let copies = || {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        maps.lines()
            .filter(|line| line.contains("hugetext") && line.contains(" r-xp "))
            .count()
    };
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let huge = maps
        .lines()
        .filter(|line| line.contains("PmdMapped:") && !line.ends_with(" 0 kB"));
    if huge.count() == 0 {
        println!("skipped: the kernel gave no huge folios");
        return;
    }
    // At its end, the daemon leaves nothing behind: the process runs from its file again.
    daemon.end();
    assert_eq!(copies(), 0);
    assert!(
        fs::read_to_string(format!("/proc/{pid}/maps"))
            .unwrap()
            .contains("program")
    );
}

#[test]
fn text_without_a_window_is_held_in_the_largest_folios() {
    let place = Place::new("act");
    place.install_with(0, 1 << 20);
    if !can_hold(&place) {
        return;
    }
    let program = place.path("program");
    let is_largest = || {
        let looked = hugetext().args(["warm", "--check"]).arg(&program).output();
        looked.unwrap().status.success()
    };
    make_small(&program);
    assert!(!is_largest());
    let daemon = place.daemon(&[]);
    // Nothing brings text into larger folios while somebody runs it.
    for _ in 0..500 {
        assert!(Command::new(&program).status().unwrap().success());
    }
    let Some(held) = place.run_until_told(&daemon, Path::new("true"), &program, "held") else {
        return;
    };
    assert!(held["bytes"].as_u64().unwrap() >= 1 << 20, "{held}");
    assert!(is_largest());
    daemon.end();
}

#[test]
fn what_only_observes_holds_nothing_and_says_what_it_would() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let program = place.path("program");
    let daemon = place.daemon(&["--observe"]);
    let mut found = None;
    for () in turns() {
        let _ = Command::new(&program).status().unwrap();
        if place.path("run/all.json").exists() {
            found = place
                .status_of(&program)
                .filter(|file| file["state"] == "would-hold");
        }
        if found.is_some() {
            break;
        }
    }
    if found.is_none()
        && let Some(excuse) = place.excuse()
    {
        return println!("skipped: {excuse}: {:#}", place.status());
    }
    assert!(found.is_some(), "{:#}", place.status());
    assert_eq!(place.status()["held"], 0);
    let why = hugetext()
        .args(["auto", "why", "--run-dir"])
        .args([place.path("run"), program.clone()])
        .output()
        .unwrap();
    assert_eq!(why.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&why.stdout).contains("would be held"));
    daemon.end();
}

/// Inodes of libc in the text of `cat`, started `rounds` times under `run --replicas auto`.
fn libc_inodes(place: &Place, rounds: usize) -> Result<BTreeSet<String>, String> {
    let mut inodes = BTreeSet::new();
    for _ in 0..rounds {
        let mut run = hugetext();
        run.env("XDG_RUNTIME_DIR", place.session());
        run.args(["run", "--replicas", "auto", "--run-dir"]);
        run.args([place.path("run"), "--store".into(), place.path("store")]);
        let output = run.args(["--", "cat", "/proc/self/maps"]).output().unwrap();
        if !output.stderr.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let maps = String::from_utf8(output.stdout).unwrap();
        let mut libc = maps
            .lines()
            .filter(|line| line.contains(" r-xp ") && line.contains("/libc.so"));
        let inode = libc.next().and_then(|line| line.split_whitespace().nth(4));
        inodes.extend(inode.map(str::to_owned));
    }
    Ok(inodes)
}

#[test]
fn copies_are_advised_where_many_start_and_run_follows() {
    let place = Place::new("observe");
    if !can_hold(&place) {
        return;
    }
    if thread::available_parallelism().unwrap().get() < 2 {
        println!("skipped: on one processor, no start meets another");
        return;
    }
    let own = match libc_inodes(&place, 1) {
        Ok(own) => own,
        Err(warned) => return println!("skipped: {warned}"),
    };
    assert_eq!(own.len(), 1, "no autopilot, no copies");
    place.configure("[replicas]\nstarts-per-copy = 3\nmost = 2\n");
    let daemon = place.daemon(&[]);
    if place.status_source() != "records" {
        return println!("skipped: starts of libraries are seen by records alone");
    }
    let is_libc = |file: &Value| {
        let name = file["name"].as_str().unwrap_or_default();
        name.contains("/libc.so") && file["decision"]["copies"] == 2
    };
    let advised = |status: Value| status["replicas"].as_array().unwrap().iter().any(is_libc);
    for () in turns() {
        let _ = Command::new(place.path("program")).status().unwrap();
        if advised(place.status()) {
            break;
        }
    }
    assert!(advised(place.status()), "{:#}", place.status());
    // Half of the draws are expected to differ. That 64 are all alike does not happen.
    match libc_inodes(&place, 64) {
        Err(warned) => println!("skipped: {warned}"),
        Ok(copies) => {
            assert_eq!(copies.len(), 2, "{copies:?}");
            assert!(copies.is_disjoint(&own), "{copies:?} {own:?}");
        }
    }
    // Files that everybody may read are in the list of files, and never in that of crowded starts.
    let public = fs::read(place.path("run/public.json")).unwrap();
    let public: Value = serde_json::from_slice(&public).unwrap();
    let crowds = public["replicas"].to_string();
    assert!(!crowds.contains("/libc.so"), "{crowds}");
    daemon.end();
    match libc_inodes(&place, 1) {
        Ok(now) => assert_eq!(now, own, "the advice is gone"),
        Err(warned) => println!("skipped: {warned}"),
    }
}

#[test]
fn metrics_are_served_and_written_if_the_settings_say_so() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let (socket, file) = (place.path("metrics.sock"), place.path("hugetext.prom"));
    let daemon = place.daemon(&["--observe"]);
    let begun = daemon.events.recv_timeout(Duration::from_secs(60));
    assert_eq!(begun.unwrap()["event"], "begun");
    assert!(!socket.exists() && !file.exists());
    place.configure(&format!(
        "mode = \"act\"\n[metrics]\nlisten = \"unix:{}\"\ntextfile = \"{}\"\n",
        socket.display(),
        file.display()
    ));
    daemon.signal(Signal::HUP);
    let scraped = scraped(&place, &socket, "hugetext_text_bytes{leaf=");
    for line in [
        "# TYPE hugetext_starts counter",
        "hugetext_acts 0.0",
        "hugetext_held_bytes 0.0",
        "hugetext_errors_total{error=\"bad_settings\"} 0.0",
        "# EOF",
    ] {
        assert!(
            scraped.lines().any(|found| found == line),
            "{line}: {scraped}"
        );
    }
    assert!(scraped.contains("hugetext_files{state="), "{scraped}");
    let written = written(&place, &file);
    assert!(
        written.contains("# TYPE hugetext_starts_total counter"),
        "{written}"
    );
    daemon.end();
    assert!(!socket.exists() && !file.exists());
}

/// What the daemon serves, once it has `wanted`, while programs run.
fn scraped(place: &Place, socket: &Path, wanted: &str) -> String {
    let mut text = String::new();
    for () in turns() {
        let _ = Command::new(place.path("program")).status().unwrap();
        let Ok(mut stream) = UnixStream::connect(socket) else {
            continue;
        };
        let accept = "Accept: application/openmetrics-text; version=1.0.0";
        write!(stream, "GET /metrics HTTP/1.1\r\n{accept}\r\n\r\n").unwrap();
        text.clear();
        stream.read_to_string(&mut text).unwrap();
        if text.contains(wanted) {
            return text;
        }
    }
    panic!("never {wanted}: {text}");
}

/// The textfile, once it is there. It is written in turns of its own, and starts of programs make turns.
fn written(place: &Place, file: &Path) -> String {
    for () in turns() {
        if let Ok(text) = fs::read_to_string(file) {
            return text;
        }
        let _ = Command::new(place.path("program")).status().unwrap();
    }
    panic!("never {}", file.display());
}

#[test]
fn a_bad_configuration_is_an_error_with_its_line() {
    let place = Place::new("act");
    place.configure("\nbudget = \"much\"\n");
    let mut daemon = place.daemon(&[]);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(2));
    let said = daemon.complaint();
    assert!(said.contains("auto.toml:2: \"much\" is no size"), "{said}");
}

#[test]
fn without_a_daemon_there_is_a_remedy() {
    let nowhere = Path::new("/no/such/directory");
    for task in [&["status"][..], &["why", "/bin/sh"]] {
        let output = hugetext()
            .arg("auto")
            .args(task)
            .arg("--run-dir")
            .arg(nowhere)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no daemon runs here"), "{said}");
    }
}
