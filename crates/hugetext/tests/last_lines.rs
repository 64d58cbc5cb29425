//! The last line of every command is a sentence, and the command that it names next is one that there is.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Child, Command, Output};

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

/// The words of a command, and whether it must say what comes next.
fn commands(directory: &Path, pid: &str) -> Vec<Vec<String>> {
    let path = |name: &str| directory.join(name).display().to_string();
    let copy = path("a program");
    std::fs::copy(HUGETEXT, &copy).unwrap();
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
        &["bench", "syscalls", "--rounds", "2", "--passes", "10"],
    ];
    let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    list.iter().map(words).collect()
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
    let mut seen = 0;
    for words in commands(directory.path(), &pid) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = hugetext(&words);
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(last) = text.lines().last() else {
            // This machine lacks what the command needs, such as ptrace or a mount namespace.
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
    assert!(seen > 15, "{seen}");
}
