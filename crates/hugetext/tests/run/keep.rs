//! `hugetext keep`: lists, and text that the daemon of `hugetext auto` holds through an upgrade.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::as_it_was::Group;
use crate::subject::{HUGETEXT, Subject, is_root, on_a_harmless_machine, text};

fn keep(subject: &Subject) -> Command {
    keep_in(subject.directory())
}

/// `keep` with its lists and its store in `directory`.
fn keep_in(directory: &Path) -> Command {
    let mut command = on_a_harmless_machine(directory);
    command
        .arg("keep")
        .arg("--lists")
        .arg(directory.join("keep.d"));
    command.arg("--store").arg(directory.join("store"));
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

/// Whether this machine's temporary directory can hold copies at all.
fn holds_copies(subject: &Subject) -> bool {
    let output = subject
        .run()
        .args(["--backend", "cache", "--strict", "--"])
        .arg(&subject.program)
        .arg("exit")
        .output();
    let output = output.unwrap();
    if output.status.code() != Some(42) {
        println!("skipped: {}", text(&output.stderr));
        return false;
    }
    true
}

#[test]
fn apply_does_nothing_twice_and_says_what_is_not_there() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !holds_copies(&subject) {
        return;
    }
    done(keep(&subject).arg("add").arg(&subject.program));
    done(keep(&subject).arg("add").arg(&subject.program));
    let list = text(&done(keep(&subject).arg("ls")).stdout);
    assert_eq!(list.matches("subject").count(), 1, "{list}");
    let apply = || {
        let output = done(keep(&subject).args(["apply", "--json"]));
        let applied: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        applied["files"].clone()
    };
    let first = apply();
    assert_eq!(first[0]["path"], subject.program.to_str().unwrap());
    assert!(first[0]["huge"].as_u64().unwrap() >= 6 << 20);
    assert_eq!(apply(), first);

    done(
        keep(&subject)
            .arg("add")
            .args(["--package", "no-such-package"]),
    );
    let no = keep(&subject).arg("apply").output().unwrap();
    assert_eq!(no.status.code(), Some(1));
    assert!(text(&no.stderr).contains("no-such-package"), "{no:?}");
    done(
        keep(&subject)
            .arg("rm")
            .args(["--package", "no-such-package"]),
    );
    let twice = keep(&subject)
        .arg("rm")
        .args(["--package", "no-such-package"])
        .status();
    assert_eq!(twice.unwrap().code(), Some(2));
}

#[test]
fn no_entry_of_another_process_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..20).map(|number| format!("/nowhere/{number}")).collect();
    let all = |task: &str| {
        let start = |name: &String| {
            keep_in(directory.path())
                .args([task, name])
                .spawn()
                .unwrap()
        };
        let children: Vec<Child> = names.iter().map(start).collect();
        for mut child in children {
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
        text(&done(keep_in(directory.path()).arg("ls")).stdout)
    };
    let list = all("add");
    for name in &names {
        assert!(list.contains(&format!("\"{name}\"")), "{name} in {list}");
    }
    assert_eq!(all("rm"), "", "nothing is listed, so nothing is printed");
}

#[test]
fn entries_mean_the_same_from_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("[odd] name");
    fs::create_dir(&here).unwrap();
    fs::write(here.join("there"), "").unwrap();
    let entries = ["m*", "not-yet", "there", "./sub/", "sh"];
    let keep = |task: &str| {
        let mut command = keep_in(directory.path());
        command.current_dir(&here).arg(task);
        command
    };
    done(keep("add").args(entries));
    let list = text(&done(keep_in(directory.path()).args(["ls", "--json"])).stdout);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let paths: Vec<&str> = list["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p.as_str().unwrap())
        .collect();
    assert!(paths.iter().all(|path| path.starts_with('/')), "{paths:?}");
    assert!(
        paths[4].ends_with("/sh") && !paths[4].contains("odd"),
        "{paths:?}"
    );
    fs::write(here.join("match"), "").unwrap();
    let found = glob::glob(paths[0]).unwrap().flatten();
    assert_eq!(found.collect::<Vec<_>>(), [here.join("match")]);
    done(keep("rm").args(entries));
    assert_eq!(text(&done(&mut keep("ls")).stdout), "");
}

#[test]
fn what_cannot_be_kept_is_not_done() {
    let directory = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| {
        let output = keep_in(directory.path()).args(arguments).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (status, said) = code(&["apply"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("keep.d") && said.contains("keep add"),
        "{said}"
    );
    assert_eq!(code(&["rm", "/nowhere"]).0, Some(2));
    assert!(!directory.path().join("keep.d").exists());

    fs::create_dir(directory.path().join("keep.d")).unwrap();
    assert_eq!(code(&["apply"]).0, Some(0), "nothing is listed");
    for entry in [&["--unit", "no-such.service"][..], &["/nowhere/program"]] {
        assert_eq!(code(&[&["add"], entry].concat()).0, Some(0));
        let (status, said) = code(&["apply"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(entry[entry.len() - 1]), "{said}");
        assert_eq!(code(&[&["rm"], entry].concat()).0, Some(0));
    }
    fs::write(directory.path().join("keep.d/broken.toml"), "paths = [").unwrap();
    assert_eq!(code(&["apply"]).0, Some(2));
    assert_eq!(code(&["ls"]).0, Some(2));
    for task in [&["add", "/nowhere"][..], &["apply"]] {
        let (status, said) = code(&[task, &["--lists", "/etc/passwd"]].concat());
        assert_eq!(status, Some(2), "{said}");
        assert!(
            said.contains("/etc/passwd") && said.contains("name the directory"),
            "{said}"
        );
    }
}

struct Daemon {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Daemon {
    fn start(subject: &Subject) -> Daemon {
        Daemon::of(on_a_harmless_machine(subject.directory()), subject)
    }

    /// The daemon by a command that ends in the path of hugetext. It holds the lists and nothing else.
    fn of(mut command: Command, subject: &Subject) -> Daemon {
        let place = subject.directory();
        let config = place.join("auto.toml");
        fs::write(&config, "mode = \"observe\"\nbudget = \"1G\"\n").unwrap();
        command.args(["--json", "auto", "--by", "scan"]);
        let files = [
            ("--config", config),
            ("--state", place.join("state")),
            ("--run-dir", place.join("told")),
            ("--lists", place.join("keep.d")),
            ("--store", place.join("store")),
        ];
        for (option, path) in files {
            command.arg(option).arg(path);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Daemon { child, lines }
    }

    /// What it says of the lists when it has held them again.
    fn round(&mut self) -> serde_json::Value {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            let told: serde_json::Value = serde_json::from_str(&line).unwrap();
            if told["event"] == "listed" {
                return told;
            }
        }
    }

    /// Waits for a round, from now on, that holds this number of files.
    fn round_with_files(&mut self, files: u64) {
        self.round_until(|_, line| files_of(line) == files);
    }

    /// Waits for a round, from now on, after which something holds. One may have begun before a change, and end after it.
    fn round_until(&mut self, holds: impl Fn(&Daemon, &serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let line = self.round();
            if holds(self, &line) {
                return;
            }
            // The daemon checks again each minute, so after this time it has missed the change for
            // good.
            assert!(begun.elapsed() < Duration::from_secs(200), "{line}");
        }
    }

    /// VmLck, in bytes.
    fn locked(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmLck:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The files it maps.
    fn maps(&self) -> String {
        fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number of files in what the daemon says of the lists.
fn files_of(told: &serde_json::Value) -> u64 {
    let reason = told["reason"].as_str().unwrap();
    reason.split(' ').next().unwrap().parse().unwrap()
}

/// Whether a daemon may lock more than one copy, so that it can exchange one for another.
fn may_lock() -> bool {
    /// The memory of several copies of the subject, in KiB.
    const ENOUGH: u64 = 32 << 10;
    let asked = Command::new("sh")
        .args(["-c", "ulimit -l"])
        .output()
        .unwrap();
    let limit = text(&asked.stdout);
    let limited = limit.trim().parse().is_ok_and(|limit: u64| limit < ENOUGH);
    if limited && !is_root() {
        println!(
            "skipped: only {} KiB may be locked here (ulimit -l)",
            limit.trim()
        );
    }
    !limited || is_root()
}

/// Starts the daemon for the `entries` below the subject's directory, which need not exist, and
/// calls `then` with it. If memory may not be locked, the test is skipped with a message.
fn daemon_over(subject: &Subject, entries: &[&str], then: impl FnOnce(&mut Daemon)) {
    let place = subject.directory().join("place");
    fs::create_dir(&place).unwrap();
    let program = place.join("program");
    fs::copy(&subject.program, &program).unwrap();
    for entry in entries {
        done(
            keep(subject)
                .arg("add")
                .arg(subject.directory().join(entry)),
        );
    }
    done(keep(subject).arg("add").arg(&program));
    let mut daemon = Daemon::start(subject);
    let line = daemon.round();
    match daemon.locked() {
        0 => println!("skipped: memory may not be locked here: {line}"),
        _ => then(&mut daemon),
    }
}

/// Installs the subject as packages do: a new file is made beside the path and renamed over it.
/// `version` makes it another program with its own copy in the store.
fn install(subject: &Subject, path: &Path, version: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut bytes = fs::read(&subject.program).unwrap();
    let mut windows = bytes.windows(6);
    let at = windows.position(|window| window == b"stdin=").unwrap();
    bytes[at] = version;
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    let rights = fs::metadata(&subject.program).unwrap().permissions();
    fs::set_permissions(&new, rights).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn what_comes_later_or_again_is_held() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !holds_copies(&subject) || !may_lock() {
        return;
    }
    let there = |path: &str| subject.directory().join(path);
    let entries = [
        "later/app/bin/program",
        "globbed-*/bin/pro*",
        "current/program",
    ];
    fs::create_dir(there("releases")).unwrap();
    daemon_over(&subject, &entries, |daemon| {
        // A listed file whose directories did not exist.
        install(&subject, &there("later/app/bin/program"), b'a');
        daemon.round_with_files(2);
        // A new match of a glob.
        install(&subject, &there("globbed-1/bin/program"), b'b');
        daemon.round_with_files(3);
        // A file is removed with its directories and appears again.
        fs::remove_dir_all(there("later")).unwrap();
        daemon.round_with_files(2);
        install(&subject, &there("later/app/bin/program"), b'c');
        daemon.round_with_files(3);
        // A link is created, and then it changes its target.
        install(&subject, &there("releases/1/program"), b'd');
        install(&subject, &there("releases/2/program"), b'e');
        std::os::unix::fs::symlink("releases/1", there("current")).unwrap();
        daemon.round_with_files(4);
        let before = daemon.maps();
        std::os::unix::fs::symlink("releases/2", there("next")).unwrap();
        fs::rename(there("next"), there("current")).unwrap();
        daemon.round_until(|daemon, _| daemon.maps() != before);
    });
}

/// Constant writes in the same directory do not delay the daemon.
#[test]
fn a_busy_directory_does_not_keep_the_daemon_waiting() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !holds_copies(&subject) || !may_lock() {
        return;
    }
    let directory = subject.directory().to_owned();
    daemon_over(&subject, &["place"], |daemon| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let log = directory.join("place/log");
        let busy = std::thread::spawn(move || {
            let pause = std::time::Duration::from_millis(200);
            while stopped.recv_timeout(pause).is_err() {
                fs::write(&log, "a line").unwrap();
            }
        });
        install(&subject, &directory.join("place/another"), b'a');
        daemon.round_with_files(2);
        stop.send(()).unwrap();
        busy.join().unwrap();
    });
}

#[test]
fn in_a_small_control_group_the_daemon_locks_no_more_than_a_third() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !holds_copies(&subject) {
        return;
    }
    const LIMIT: u64 = 120 << 20;
    let Some(group) = Group::with_memory(LIMIT) else {
        return;
    };
    for version in b'0'..=b'9' {
        let program = subject.directory().join(format!("copy-{version}"));
        install(&subject, &program, version);
        done(keep(&subject).arg("add").arg(&program));
    }
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]);
    command.arg(format!("{}/cgroup.procs", group.0));
    command.arg(HUGETEXT);
    let mut daemon = Daemon::of(command, &subject);
    let line = daemon.round();
    assert!(line["bytes"].as_u64().unwrap() <= LIMIT / 3, "{line}");
    let is_over = !line["reason"].as_str().unwrap().contains(", 0 ");
    assert!(daemon.locked() <= LIMIT / 3 && is_over, "{line}");
}

#[test]
fn the_daemon_holds_text_through_an_upgrade() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !holds_copies(&subject) || !may_lock() {
        return;
    }
    done(keep(&subject).arg("add").arg(&subject.program));
    let mut daemon = Daemon::start(&subject);
    let line = daemon.round();
    if daemon.locked() == 0 {
        println!("skipped: memory may not be locked here: {line}");
        return;
    }
    assert!(daemon.locked() >= 6 << 20, "{line}");
    assert_eq!(line["bytes"], daemon.locked());
    assert_eq!(files_of(&line), 1);
    let entry = || -> PathBuf {
        let maps = daemon.maps();
        let line = maps
            .lines()
            .find(|line| line.contains("/entries/"))
            .unwrap();
        PathBuf::from(line.split_whitespace().last().unwrap())
    };
    let before = entry();

    install(&subject, &subject.program, b'S');

    daemon.round_until(|daemon, _| {
        let maps = daemon.maps();
        let is_new = maps.contains("/entries/") && !maps.contains(before.to_str().unwrap());
        is_new && daemon.locked() >= 6 << 20
    });
}
