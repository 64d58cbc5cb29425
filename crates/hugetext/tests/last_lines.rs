//! The last line of every command is a sentence, and the command that it names next is one that there is.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");

fn hugetext(words: &[&str]) -> Output {
    Command::new(HUGETEXT).args(words).output().unwrap()
}

/// The sentence, and the command if there is one. What is wrong with the line otherwise.
fn read(line: &str) -> Result<(&str, Option<&str>), String> {
    let (says, next) = match line.split_once(" Next: ") {
        Some((says, next)) => (says, Some(next)),
        None => (line, None),
    };
    if !says.ends_with('.') || !says.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()) {
        return Err(format!("no sentence: {line}"));
    }
    match next {
        Some(next) if !next.starts_with("hugetext ") => Err(format!("no command: {line}")),
        _ => Ok((says, next)),
    }
}

fn parses(next: &str) -> bool {
    let words = shlex::split(next).unwrap();
    let mut command = Command::new(HUGETEXT);
    command.args(["generate", "--parses"]).args(words);
    command.output().unwrap().status.success()
}

#[test]
fn a_command_that_nobody_has_is_seen() {
    assert!(parses("hugetext bench exec -- cc1 --version"));
    assert!(parses("hugetext check PROGRAM"));
    assert!(
        !parses("hugetext bench exec /bin/true"),
        "its command follows --"
    );
    assert!(!parses("hugetext bench no-such"));
    assert!(!parses("hugetext no-such /bin/true"));
    assert!(!parses("hugetext promote"));
    assert!(read("It is. Next: make").is_err() && read("huge: 4").is_err());
    assert_eq!(
        read("It is. Next: hugetext host"),
        Ok(("It is.", Some("hugetext host")))
    );
}

/// The words of each command. Left out are those whose output is for other programs: `keep ls`, `store path` and `generate`.
fn commands(directory: &Path, pid: &str, service: Option<&Service>) -> Vec<Vec<String>> {
    let path = |name: &str| directory.join(name).display().to_string();
    let copy = path("a program");
    std::fs::copy(HUGETEXT, &copy).unwrap();
    let [lists, store, run] = ["lists", "store", "run"].map(path);
    let (serving, log) = match service {
        Some(service) => (service.pid.clone(), service.log.display().to_string()),
        None => ("0".to_owned(), "no log".to_owned()),
    };
    let list: &[&[&str]] = &[
        &["host"],
        &["host", "--remembered"],
        &["check", &copy],
        &["check", "/bin/true"],
        &["check", "sh"],
        &["check", "-r", "/usr/lib/locale", "/bin"],
        &["check", "--pid", pid],
        &["fix", "--dry-run", &copy],
        &["fix", "-o", &path("fixed"), &copy],
        &["fix", "--in-place", &path("fixed")],
        &["warm", &copy],
        &["warm", "--check", &copy],
        &["warm", "/bin/true"],
        &["stat", pid],
        &["stat", "--all"],
        &["learn", "true"],
        &["learn", &copy, "--version"],
        &["promote", "--dry-run", pid],
        &["report", "-o", &path("page.html"), &copy, pid],
        &["report", "-o", &path("drawing.svg"), pid],
        &["report", "-o", &path("record.json"), pid],
        &["auto", "top", "--once"],
        &[
            "bench",
            "exec",
            "--rounds",
            "2",
            "--per-round",
            "1",
            "--",
            &copy,
            "--version",
        ],
        &[
            "bench",
            "exec",
            "--rounds",
            "6",
            "--per-round",
            "1",
            "--",
            &copy,
            "--version",
        ],
        &[
            "bench", "live", &serving, "--log", &log, "--pairs", "1", "--period", "250",
        ],
        &["bench", "work", "--rounds", "1", "git"],
        &["keep", "--lists", &lists, "add", &copy],
        &["keep", "--lists", &lists, "--store", &store, "apply"],
        &["store", "--store", &store, "ls"],
        &["store", "--store", &store, "verify"],
        &["store", "--store", &store, "gc"],
        &["store", "--store", &store, "rm", "--all"],
        &["auto", "status", "--run-dir", &run],
    ];
    let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    list.iter().map(words).collect()
}

/// A service that writes a log, if there is a compiler for it.
struct Service {
    pid: String,
    log: PathBuf,
    _process: Sleeper,
}

impl Service {
    fn start(directory: &Path) -> Option<Service> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/service.c");
        let program = directory.join("service");
        let mut compile = Command::new("cc");
        let compiled = compile.args(["-O1", "-o"]).arg(&program).arg(source);
        compiled.status().ok().filter(|status| status.success())?;
        let log = directory.join("log");
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped());
        let process = command.stdout(File::create(&log).unwrap()).spawn().unwrap();
        Some(Service {
            pid: process.id().to_string(),
            log,
            _process: Sleeper(process),
        })
    }
}

/// A daemon of auto that only observes, until its document is there.
fn observer(directory: &Path) -> Sleeper {
    let path = |name: &str| directory.join(name);
    std::fs::write(path("auto.toml"), "mode = \"observe\"\n").unwrap();
    let mut command = Command::new(HUGETEXT);
    command.args(["auto", "--observe", "--by", "scan", "--config"]);
    command
        .arg(path("auto.toml"))
        .arg("--state")
        .arg(path("state"));
    command
        .arg("--lists")
        .arg(directory)
        .arg("--run-dir")
        .arg(path("run"));
    let mut daemon = Sleeper(
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    while !path("run/public.json").exists() && daemon.0.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    daemon
}

/// Ends with its test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_ends_with_a_sentence_and_a_command_that_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    let service = Service::start(directory.path());
    let _daemon = observer(directory.path());
    let mut seen = 0;
    for words in commands(directory.path(), &pid, service.as_ref()) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = hugetext(&words);
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(last) = text.lines().last() else {
            // Nothing was asked, as in `keep add`, or this machine lacks what the command needs, such as ptrace.
            println!(
                "skipped: {words:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            continue;
        };
        let (says, next) = read(last)
            .map_err(|why| format!("{words:?}: {why}"))
            .unwrap();
        println!("{}: {says} -> {next:?}", words.join(" "));
        if let Some(next) = next {
            assert!(parses(next), "{words:?}: {next}");
        }
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
