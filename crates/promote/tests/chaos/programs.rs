//! The programs that are promoted: the examples of this crate, and those that this machine has.

use std::path::Path;
use std::process::Command;

use crate::place::example;

/// What an audit may expect of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Every thread waits in one call until it is asked; nothing changes.
    Waits,
    /// Its first thread waits in one call until it is asked. The others create children, which end.
    WaitsBesideChildren,
    /// Threads work, but neither threads nor files nor mappings come and go.
    Fixed,
    /// Threads, files and memory come and go.
    Changes,
    /// It is in a state in which nothing can be promoted, and answers nothing.
    Refuses,
}

impl Conduct {
    /// Whether a thread waits in one call until the program is asked.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Conduct::Waits | Conduct::WaitsBesideChildren)
    }
}

/// A program and how one speaks with it.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    /// The line that it prints when it is ready, if it does.
    pub(crate) ready: Option<&'static str>,
    pub(crate) question: &'static str,
    /// The beginning of the right answer.
    pub(crate) answer: &'static str,
    pub(crate) conduct: Conduct,
}

impl Program {
    /// Whether it waits in one call, and ends when it is asked.
    pub(crate) fn ends_when_asked(&self) -> bool {
        self.conduct.waits() && self.ready.is_some()
    }

    /// Whether it waits for a question after each answer.
    pub(crate) fn serves(&self) -> bool {
        self.conduct == Conduct::Waits && self.ready.is_none()
    }

    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words);
        command
    }
}

/// The programs in families, from which one is drawn first.
pub(crate) fn families(work: &Path) -> Vec<Vec<Program>> {
    let found = [
        busy(),
        registers(),
        held(),
        odd(),
        scripts(),
        java(work),
        servants(),
    ];
    found
        .into_iter()
        .filter(|family| !family.is_empty())
        .collect()
}

fn program(name: &str, words: &[&str], conduct: Conduct) -> Program {
    Program {
        name: name.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        ready: Some("ready"),
        question: "",
        answer: "ok",
        conduct,
    }
}

fn of_example(name: &str, arguments: &[&str], conduct: Conduct) -> Program {
    let path = example(name).to_string_lossy().into_owned();
    let words: Vec<&str> = std::iter::once(path.as_str())
        .chain(arguments.iter().copied())
        .collect();
    let shown: Vec<&str> = std::iter::once(name)
        .chain(arguments.iter().copied())
        .collect();
    program(&shown.join(" "), &words, conduct)
}

/// `abandoned`: SIGSTOP, or a killed tracer, ends epoll_wait with EINTR (signal(7)).
fn busy() -> Vec<Program> {
    let of = |threads| of_example("busy", &[threads, "abandoned"], Conduct::Changes);
    vec![of("1"), of("12")]
}

fn registers() -> Vec<Program> {
    let of = |threads| of_example("registers", &[threads], Conduct::Fixed);
    vec![of("1"), of("4"), of("8")]
}

fn held() -> Vec<Program> {
    let listed = Command::new(example("held")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    // Each waits by itself here, also those that could wait together.
    let kinds = listed
        .lines()
        .map(|kind| kind.strip_prefix("alone: ").unwrap_or(kind));
    kinds
        .map(|kind| {
            let conduct = match kind.ends_with("beside children") {
                true => Conduct::WaitsBesideChildren,
                false => Conduct::Waits,
            };
            of_example("held", &[kind], conduct)
        })
        .collect()
}

fn odd() -> Vec<Program> {
    let of = |kind| of_example("odd", &[kind], Conduct::Refuses);
    vec![of("headless"), of("vfork"), of("execs")]
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn load(name: &str) -> String {
    format!("{}/tests/chaos/loads/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn scripts() -> Vec<Program> {
    let known = [
        ("python3", "load.py"),
        ("node", "load.js"),
        ("perl", "load.pl"),
        ("bash", "load.sh"),
    ];
    let known = known
        .iter()
        .filter(|(interpreter, _)| is_installed(interpreter));
    known
        .map(|(interpreter, script)| {
            program(interpreter, &[interpreter, &load(script)], Conduct::Changes)
        })
        .collect()
}

/// A JVM with each of three collectors, if the class can be compiled here.
fn java(work: &Path) -> Vec<Program> {
    let classes = work.to_string_lossy().into_owned();
    let compiled = Command::new("javac")
        .args(["-d", &classes, &load("Load.java")])
        .output();
    if !compiled.is_ok_and(|compiled| compiled.status.success()) {
        return Vec::new();
    }
    let of = |collector: &str| {
        let option = format!("-XX:+Use{collector}GC");
        let words = ["java", &option, "-Xmx64m", "-cp", &classes, "Load"];
        program(&format!("java {collector}"), &words, Conduct::Changes)
    };
    vec![of("Serial"), of("G1"), of("Z")]
}

/// Programs that wait for questions in a read.
fn servants() -> Vec<Program> {
    let git = Program {
        question: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        // The tree without entries.
        answer: "4b825dc642cb6eb9a060e54bf8d69288fbee4904 tree 0",
        ready: None,
        ..program("git", &["git", "cat-file", "--batch-check"], Conduct::Waits)
    };
    let sqlite = Program {
        question: "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9999) \
                   select 'ok', sum(i) from n;",
        answer: "ok|49995000",
        ready: None,
        ..program(
            "sqlite3",
            &["sqlite3", "-batch", ":memory:"],
            Conduct::Waits,
        )
    };
    let all = [git, sqlite];
    all.into_iter()
        .filter(|program| is_installed(&program.words[0]))
        .collect()
}
