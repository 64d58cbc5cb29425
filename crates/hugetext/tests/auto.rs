//! The daemon of `hugetext auto`, live, on a program that no list names.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use hugetext_host::FileWindows;
use hugetext_leaf::{Leaf, Span};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn hugetext() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
}

/// A directory with a program of four windows, settings, and places for the daemon.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new(mode: &str) -> Place {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Place { directory };
        place.configure(&format!("mode = \"{mode}\"\nbudget = \"64M\"\n"));
        place.install(0);
        for name in ["run", "lists"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        // The kernel names files without links.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn configure(&self, text: &str) {
        fs::write(self.path("auto.toml"), text).unwrap();
    }

    /// Compiles the program that answers `status`, and renames it into place, as packages do. With an
    /// argument, it works until it is killed.
    fn install(&self, status: u8) {
        self.install_with(status, 8 << 20);
    }

    /// The same with this number of bytes of text.
    fn install_with(&self, status: u8, text: u32) {
        let source = format!(
            "int main(int count, char **words) {{ while (count > 1) ; return {status}; }}\n\
             __asm__(\".text\\n.balign 4096\\n.skip {text}, 0xc3\\n\");\n"
        );
        let new = self.path("new");
        fs::write(self.path("program.c"), source).unwrap();
        let compiled = Command::new("cc")
            .args(["-Wl,-z,max-page-size=0x200000", "-o"])
            .args([&new, &self.path("program.c")])
            .status();
        assert!(compiled.unwrap().success());
        // What is not written back cannot be dropped and read again.
        fs::File::open(&new).unwrap().sync_all().unwrap();
        fs::rename(new, self.path("program")).unwrap();
    }

    fn daemon(&self, options: &[&str]) -> Daemon {
        let mut child = hugetext()
            .args(["--json", "auto"])
            .args(options)
            .arg("--config")
            .arg(self.path("auto.toml"))
            .arg("--state")
            .arg(self.path("state"))
            .arg("--run-dir")
            .arg(self.path("run"))
            .arg("--lists")
            .arg(self.path("lists"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let complaints = BufReader::new(child.stderr.take().unwrap());
        Daemon {
            child,
            events: events(lines),
            complaints,
        }
    }

    /// How the daemon sees starts, once it has said so.
    fn status_source(&self) -> String {
        while !self.path("run/all.json").exists() {
            let _ = Command::new(self.path("program")).status().unwrap();
        }
        self.status()["source"].as_str().unwrap().to_owned()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("run/all.json")).unwrap()).unwrap()
    }

    /// Why the daemon could not hold what it should have held, if that was the machine: it gave no huge
    /// folios, because its memory is fragmented, or tasks stalled for memory.
    fn excuse(&self) -> Option<&'static str> {
        let status = self.status();
        if status.to_string().contains("in small folios") {
            return Some("the kernel gave no huge folios");
        }
        let stalls = ["some", "full", "plenty"];
        let stalled = stalls.iter().any(|kind| status["stalls"][kind] != 0);
        stalled.then_some("tasks stalled for memory")
    }

    /// Runs the program until the daemon says `event` about it. `None`, with the reason printed, if
    /// the machine has an excuse.
    fn run_until(&self, daemon: &Daemon, event: &str) -> Option<Value> {
        let program = self.path("program");
        let concerns = |told: &Value| match event {
            "promoted" => told["reason"].as_str().unwrap().starts_with("program ("),
            _ => told["path"] == program.to_str().unwrap(),
        };
        for _ in 0..20_000 {
            let _ = Command::new(&program).status().unwrap();
            for told in daemon.events.try_iter() {
                if told["event"] == event && concerns(&told) {
                    return Some(told);
                }
            }
        }
        let status = format!("{:#}", self.status());
        let excuse = self.excuse();
        assert!(excuse.is_some(), "never {event}: {status}");
        println!("skipped: never {event}, because {}: {status}", excuse?);
        None
    }
}

/// The lines of the daemon, as they come.
fn events(lines: BufReader<ChildStdout>) -> Receiver<Value> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let _ = send.send(serde_json::from_str(&line).unwrap());
        }
    });
    receive
}

struct Daemon {
    child: Child,
    events: Receiver<Value>,
    complaints: BufReader<ChildStderr>,
}

impl Daemon {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line on stderr.
    fn complaint(&mut self) -> String {
        let mut line = String::new();
        self.complaints.read_line(&mut line).unwrap();
        line
    }

    /// Ends it in order.
    fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this machine can hold the program; says why not.
fn can_hold(place: &Place) -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        println!("skipped: only root sees what all processes run");
        return false;
    }
    let warmed = hugetext().arg("warm").arg(place.path("program")).output();
    let warmed = warmed.unwrap();
    if !warmed.status.success() {
        let said = String::from_utf8_lossy(&warmed.stdout).into_owned();
        println!("skipped: no huge folios here: {said}");
        return false;
    }
    true
}

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
    let smaps = fs::read_to_string(format!("/proc/{}/smaps", daemon.child.id())).unwrap();
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
    assert!(!place.path("run/all.json").exists());
    // What was seen outlives the daemon: it is held again without being run.
    place.configure("mode = \"act\"\nbudget = \"64M\"\n");
    let daemon = place.daemon(&[]);
    // A kernel without huge folios for it is waited for no longer than this.
    let next = || daemon.events.recv_timeout(Duration::from_secs(60)).ok();
    let told = std::iter::from_fn(next).find(|told| told["event"] == "held");
    if told.is_none() {
        println!("skipped: not held again: {:#}", place.status());
    }
    daemon.end();
}

/// A process that works until this value is dropped.
struct Working(Child);

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        "mode = \"act\"\nbudget = \"64M\"\n{}",
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

/// Brings a file into the small folios of page faults.
fn make_small(path: &Path) {
    let file = fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let end = len.next_multiple_of(rustix::param::page_size() as u64);
    let whole = FileWindows::readable(&file, Span::new(0, end), Leaf::M2);
    whole.make_small().unwrap();
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
    let Some(held) = place.run_until(&daemon, "held") else {
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
    let of_program = |status: &Value| {
        let files = status["files"].as_array().unwrap().clone();
        let path = program.to_str().unwrap().to_owned();
        files.into_iter().find(|file| file["path"] == path.as_str())
    };
    let mut found = None;
    for _ in 0..20_000 {
        let _ = Command::new(&program).status().unwrap();
        if place.path("run/all.json").exists() {
            found = of_program(&place.status()).filter(|file| file["state"] == "would-hold");
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
    let own = libc_inodes(&place, 1).unwrap();
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
    for _ in 0..20_000 {
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
    assert_eq!(libc_inodes(&place, 1).unwrap(), own, "the advice is gone");
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
    for _ in 0..20_000 {
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
    for _ in 0..20_000 {
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
