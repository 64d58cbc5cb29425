//! `hugetext bench live` on a running program.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A program with windows of text that writes its log as long as it works.
struct Service {
    process: Child,
    log: PathBuf,
    program: PathBuf,
    _directory: tempfile::TempDir,
}

impl Service {
    /// `None`, with the reason printed, if this machine has no compiler.
    fn start() -> Option<Service> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/service.c");
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("service");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-o"]).arg(&program).arg(source);
        match compile.status() {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("skipped: cc: {error}");
                return None;
            }
        }
        let log = directory.path().join("log");
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped());
        command.stdout(File::create(&log).unwrap());
        Some(Service {
            process: command.spawn().unwrap(),
            log,
            program,
            _directory: directory,
        })
    }

    /// Makes it rest.
    fn rest(&mut self) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(b"x").unwrap();
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args(["bench", "live", &self.pid(), "--json", "--log"]);
        command.arg(&self.log);
        command.args(["--period", "250", "--settle", "10"]);
        command.args(arguments);
        command
    }

    /// A measurement by a command that counts.
    fn count(&self, count: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args(["bench", "live", &self.pid(), "--count", count]);
        command.args(["--period", "100", "--settle", "10"]);
        command
    }

    /// The number of mappings that are promoted.
    fn promoted(&self) -> usize {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args(["promote", "--revert", "--dry-run", "--json", &self.pid()]);
        let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        report["processes"][0]["remapped"].as_array().unwrap().len()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether the machine cannot promote; the reason is printed.
fn is_impossible(output: &Output) -> bool {
    let said = stderr(output);
    let reasons = [
        "transparent huge pages",
        "not permitted",
        "no text to move",
        "instruction set",
    ];
    let impossible = output.status.code() != Some(0) && reasons.iter().any(|r| said.contains(r));
    if impossible {
        println!("skipped: {said}");
    }
    impossible
}

#[test]
fn periods_of_both_sides_are_compared_and_the_process_is_left_as_found() {
    let Some(service) = Service::start() else {
        return;
    };
    let output = service.bench(&["--pairs", "4"]).output().unwrap();
    if is_impossible(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("a difference of"),
        "{}",
        stderr(&output)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let live = &report["benchmarks"][0];
    assert_eq!(
        live["sides"][0]["state"],
        "at most 0 B of text on huge pages in each period"
    );
    assert!(
        !live["sides"][1]["state"].as_str().unwrap().contains(" 0 B"),
        "{live}"
    );
    let time = &live["measures"][0];
    assert_eq!(time["name"], "processor time per unit");
    assert_eq!(time["values"][1]["rounds"].as_array().unwrap().len(), 4);
    assert_eq!(
        live["notes"][0],
        "undecided: 4 pairs are too few; raise --pairs"
    );
    let next = report["meaning"]["next"].as_str().unwrap();
    assert!(
        next.contains(" --pairs ") && next.contains(&service.pid()),
        "{next}"
    );
    assert_eq!(service.promoted(), 0);

    let arguments = ["--pairs", "1", "--leave", "promoted"];
    let output = service.bench(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(service.promoted() > 0);
    // What was promoted before stays promoted.
    let output = service.bench(&["--pairs", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(service.promoted() > 0);
}

/// Nobody knows the processes of a service by their numbers.
#[test]
fn a_service_is_named_by_its_program_or_its_cgroup() {
    let Some(service) = Service::start() else {
        return;
    };
    let bench = |which: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args([
            "bench", "live", "--json", "--pairs", "1", "--period", "250", "--log",
        ]);
        command.arg(&service.log).args(which).output().unwrap()
    };
    let program = service.program.to_str().unwrap();
    let output = bench(&["--name", program]);
    if is_impossible(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = &report["benchmarks"][0]["measured"]["processes"]["words"];
    assert_eq!(*words, serde_json::json!(["--name", program]));
    for (which, said) in [
        (
            &["--name", "no-such-program"][..],
            "no such process is running",
        ),
        (&["--unit", "no-such-unit"], "no such unit is running"),
        (&["--cgroup", "no/such/group"], "no/such/group"),
        (&["--unit", "a", "--name", "b"], "cannot be used with"),
    ] {
        let output = bench(which);
        assert_eq!(output.status.code(), Some(2), "{which:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

/// A control group for one service, with the name of a unit. It ends with its test, after the service.
struct Group(PathBuf);

impl Group {
    /// Below the group of this process. `None`, with the reason printed, if it may make none.
    fn of(service: &Service) -> Option<Group> {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let mount = Path::new("/sys/fs/cgroup");
        // Of version 2, or of version 1 with a controller that anybody may use.
        let of = |(prefix, below): (&str, &str)| {
            let own = own.lines().find_map(|line| line.split_once(prefix))?.1;
            let place = mount.join(below).join(own);
            place.join("cgroup.procs").exists().then_some(place)
        };
        let place = [("0::/", ""), (":pids:/", "pids")]
            .into_iter()
            .find_map(of)?;
        let path = place.join(format!("hugetext-live-{}.service", service.pid()));
        let made = std::fs::create_dir(&path);
        let moved = made.and_then(|()| std::fs::write(path.join("cgroup.procs"), service.pid()));
        match moved {
            Ok(()) => Some(Group(path)),
            Err(error) => {
                let _ = std::fs::remove_dir(&path);
                println!("skipped: no control group: {error}");
                None
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was killed leaves its group a moment later.
        while std::fs::remove_dir(&self.0).is_err() && self.0.exists() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_service_is_named_by_its_unit_or_its_group() {
    let Some(mut service) = Service::start() else {
        return;
    };
    let Some(group) = Group::of(&service) else {
        return;
    };
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let unit = name.strip_suffix(".service").unwrap();
    let path = group.0.to_str().unwrap();
    for which in [["--unit", unit], ["--unit", name], ["--cgroup", path]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args([
            "bench", "live", "--json", "--pairs", "1", "--period", "250", "--log",
        ]);
        let output = command.arg(&service.log).args(which).output().unwrap();
        if is_impossible(&output) {
            break;
        }
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let words = &report["benchmarks"][0]["measured"]["processes"]["words"];
        assert_eq!(*words, serde_json::json!(which));
    }
    service.process.kill().unwrap();
    service.process.wait().unwrap();
}

/// Starts a measurement of very many pairs. Returns it after the first line of its errors, when it
/// measures; `None`, with the reason printed, if this machine cannot.
fn measuring(command: Command) -> Option<(Child, impl Iterator<Item = String>)> {
    // These tests may run under nohup, whose children ignore SIGHUP.
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP").arg(command.get_program());
    env.args(command.get_args()).args(["--pairs", "100000"]);
    let pipes = env.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bench = pipes.spawn().unwrap();
    let lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let first = lines.next().unwrap();
    if !first.contains("a difference of") {
        println!("skipped: {first}");
        bench.wait().unwrap();
        return None;
    }
    Some((bench, lines))
}

#[test]
fn a_signal_to_end_leaves_the_process_as_it_is_wanted() {
    let Some(service) = Service::start() else {
        return;
    };
    // The last finds it promoted.
    for (signal, status, leave, promoted) in [
        (Signal::INT, 130, "as-found", false),
        (Signal::TERM, 143, "reverted", false),
        (Signal::HUP, 129, "promoted", true),
        (Signal::TERM, 143, "as-found", true),
    ] {
        let Some((mut bench, _)) = measuring(service.bench(&["--leave", leave])) else {
            return;
        };
        kill_process(Pid::from_child(&bench), signal).unwrap();
        assert_eq!(bench.wait().unwrap().code(), Some(status));
        assert_eq!(service.promoted() > 0, promoted, "{leave}");
    }
}

#[test]
fn a_count_that_does_not_come_ends_with_a_signal_too() {
    let Some(service) = Service::start() else {
        return;
    };
    let hangs = service.log.with_file_name("hangs");
    let count = format!(
        "[ -e {} ] && exec sleep 1000 || date +%s%N",
        hangs.display()
    );
    let mut command = service.count(&count);
    command.args(["--leave", "reverted"]);
    let Some((mut bench, _)) = measuring(command) else {
        return;
    };
    File::create(hangs).unwrap();
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(143));
    assert_eq!(service.promoted(), 0);
}

#[test]
fn a_process_that_ends_ends_the_measurement() {
    let Some(mut service) = Service::start() else {
        return;
    };
    let Some((mut bench, mut said)) = measuring(service.bench(&[])) else {
        return;
    };
    service.process.kill().unwrap();
    // Until it is waited for, it is a process that has ended.
    let said = said.by_ref().collect::<Vec<_>>().join("\n");
    assert_eq!(bench.wait().unwrap().code(), Some(2), "{said}");
    assert!(
        said.contains(&service.pid()) && said.contains("ended"),
        "{said}"
    );
}

#[test]
fn one_of_two_processes_that_starts_anew_ends_the_measurement_and_the_other_is_left_as_found() {
    let (Some(mut first), Some(other)) = (Service::start(), Service::start()) else {
        return;
    };
    let mut command = other.bench(&[]);
    command.arg(first.pid());
    let Some((mut bench, mut said)) = measuring(command) else {
        return;
    };
    let old = first.pid();
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    let said = said.by_ref().collect::<Vec<_>>().join("\n");
    assert_eq!(bench.wait().unwrap().code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("process {old}: ended while it was measured")),
        "{said}"
    );
    assert_eq!(other.promoted(), 0);
}

#[test]
fn a_count_that_goes_back_ends_the_measurement_and_the_process_is_left_as_found() {
    let Some(service) = Service::start() else {
        return;
    };
    // The count of a service that starts again: it grows, until the file is there.
    let restarted = service.log.with_file_name("restarted");
    let count = format!("[ -e {} ] && echo 1 || date +%s%N", restarted.display());
    let Some((mut bench, mut said)) = measuring(service.count(&count)) else {
        return;
    };
    File::create(restarted).unwrap();
    let said = said.by_ref().collect::<Vec<_>>().join("\n");
    assert_eq!(bench.wait().unwrap().code(), Some(2), "{said}");
    assert!(said.contains("did the service restart?"), "{said}");
    assert_eq!(service.promoted(), 0);
}

#[test]
fn a_service_without_work_is_said_and_left_as_found() {
    let Some(mut service) = Service::start() else {
        return;
    };
    service.rest();
    let output = service.bench(&[]).output().unwrap();
    if is_impossible(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("is the service under load?"),
        "{}",
        stderr(&output)
    );
    assert_eq!(service.promoted(), 0);
    let gone = Path::new("/nonexistent/log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command.args(["bench", "live", &service.pid(), "--log"]);
    let output = command.arg(gone).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("/nonexistent/log: No such file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_clear_answer_ends_the_measurement_early_and_the_report_draws_it() {
    let Some(service) = Service::start() else {
        return;
    };
    // No difference is as large as this.
    let arguments = ["--pairs", "100000", "--matters", "100"];
    let output = service.bench(&arguments).output().unwrap();
    if is_impossible(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let live = &report["benchmarks"][0];
    let rounds = &live["measures"][0]["values"][1]["rounds"];
    assert_eq!(rounds.as_array().unwrap().len(), 16);
    let answer = live["notes"][0].as_str().unwrap();
    assert!(answer.ends_with("confidence, after 16 pairs"), "{answer}");

    let results = service.log.with_file_name("live.json");
    std::fs::write(&results, &output.stdout).unwrap();
    let page = results.with_extension("html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command.arg("report").arg("-o").arg(&page);
    let drawn = command.arg("--bench").arg(&results).output().unwrap();
    assert_eq!(drawn.status.code(), Some(0), "{}", stderr(&drawn));
    let text = std::fs::read_to_string(page).unwrap();
    let plot = text.split("processor time per unit").nth(1).unwrap();
    let plot = plot.split("</svg>").next().unwrap();
    assert!(plot.contains("<svg"), "{plot}");
    // One stroke for each period of the first side.
    assert_eq!(plot.matches("class=\"round\"").count(), 16, "{plot}");
    for shown in ["reverted: at most", "promoted: at least", answer] {
        assert!(text.contains(shown), "{shown}");
    }
}

#[test]
fn instructions_are_work_where_the_processor_counts_them() {
    let Some(service) = Service::start() else {
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command.args(["bench", "live", &service.pid(), "--instructions", "--json"]);
    command.args(["--pairs", "1", "--period", "100"]);
    let output = command.output().unwrap();
    if is_impossible(&output) {
        return;
    }
    let said = stderr(&output);
    if output.status.code() == Some(0) {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = report["benchmarks"][0]["notes"].to_string();
        assert!(notes.contains("a unit of work is a million"), "{notes}");
    } else {
        // One line names the problem, the reason and a way out.
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains("no instructions are counted: perf_event_open: "),
            "{said}"
        );
        assert!(said.contains("--count, --log or --metrics"), "{said}");
    }
    assert_eq!(service.promoted(), 0);
}
