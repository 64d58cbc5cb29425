//! A program that waits in a call continues to wait, however often it is stopped.

use std::io::{BufRead, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use hugetext_leaf::Leaf;
use hugetext_promote::{Copies, Target};
use nix::sys::signal::{Signal, kill};

use super::{Busy, example, from_environment, leaf, promote_all, revert_all};

/// The kinds of calls that a program can wait in.
struct Kinds {
    /// Kinds that one program can wait in at once, in as many threads.
    together: Vec<String>,
    /// Kinds that a program waits in without any other.
    alone: Vec<String>,
}

fn kinds() -> Kinds {
    let listed = Command::new(example("held")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for line in listed.lines() {
        match line.strip_prefix("alone: ") {
            Some(kind) => alone.push(kind.to_owned()),
            None => together.push(line.to_owned()),
        }
    }
    Kinds { together, alone }
}

/// Promotes a program and maps it back. Returns whether that is possible here.
fn there_and_back(target: &Target, leaf: Leaf, copies: &mut Copies) -> bool {
    let Some(outcome) = promote_all(target, leaf, copies) else {
        return false;
    };
    assert!(!outcome.done.is_empty());
    assert!(!revert_all(target).done.is_empty());
    true
}

/// Waits until the first thread sleeps in a call. After the thread has printed that it is ready,
/// it sleeps only in that call.
fn wait_for_sleep(target: &Target) {
    let path = format!("/proc/{}/stat", target.pid());
    let begun = Instant::now();
    while !std::fs::read_to_string(&path).unwrap().contains(") S ") {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not sleep"
        );
        std::thread::yield_now();
    }
}

/// What happened to a program whose calls were held.
#[derive(PartialEq, Debug)]
enum HeldEnd {
    Well,
    /// Calls that have a wrong result, in the program's words.
    Wrong(String),
    /// This machine has no such calls, or cannot promote.
    Unable,
}

/// Stops a program that waits in a call of each of these kinds, many times: twice a round.
fn report_after(kinds: &[String], rounds: usize, leaf: Leaf) -> HeldEnd {
    let (mut held, said) = Busy::spawn(Command::new(example("held")).args(kinds));
    if said != "ready\n" {
        eprintln!("{}: {said}", kinds.join(", "));
        assert!(said.starts_with("skipped: "), "{kinds:?}: {said}");
        return HeldEnd::Unable;
    }
    let target = held.target().unwrap();
    wait_for_sleep(&target);
    let mut copies = Copies::default();
    for _ in 0..rounds {
        if !there_and_back(&target, leaf, &mut copies) {
            return HeldEnd::Unable;
        }
    }
    // A program whose call was ended has exited and does not read its input.
    let _ = writeln!(held.input.as_ref().unwrap());
    match held.line().trim() {
        "ok" => HeldEnd::Well,
        said => HeldEnd::Wrong(said.to_owned()),
    }
}

/// Each kind by itself first, a few times: then it is the only call of the program, and the kinds that this
/// kernel has are known. After that all of them in one program, because a stop is a stop of each.
#[test]
fn calls_that_wait_are_not_ended_by_a_stop() {
    let Some(leaf) = leaf() else { return };
    let rounds = from_environment("HUGETEXT_ROUNDS", 20);
    let kinds = kinds();
    let listed = kinds.together.len() + kinds.alone.len();
    let report = |kinds: &[String], rounds| (kinds.join(", "), report_after(kinds, rounds, leaf));
    let by_itself = kinds.together.chunks(1).map(|kind| report(kind, 5));
    let mut reports: Vec<_> = by_itself.collect();
    let able = reports
        .iter()
        .filter(|(_, report)| *report != HeldEnd::Unable);
    let able: Vec<String> = able.map(|(kind, _)| kind.clone()).collect();
    if able.is_empty() {
        return;
    }
    reports.push(report(&able, rounds));
    let alone = kinds.alone.chunks(1).map(|kind| report(kind, rounds));
    let alone: Vec<_> = alone
        .filter(|(_, report)| *report != HeldEnd::Unable)
        .collect();
    let held = able.len() + alone.len();
    // lab/scripts/promote-held.sh reads this line.
    println!("held {held} of {listed} kinds of calls in {rounds} rounds of two stops");
    reports.extend(alone);
    reports.retain(|(_, report)| !matches!(report, HeldEnd::Well | HeldEnd::Unable));
    assert_eq!(reports, []);
}

/// Not one thread may be released while the parent of a child is still traced. The child must end at
/// that moment, so this takes more rounds; before a release, 500.
#[test]
fn a_child_that_ends_in_a_stop_ends_no_call() {
    let Some(leaf) = leaf() else { return };
    let rounds = from_environment("HUGETEXT_ROUNDS", 100);
    let report = report_after(&["epoll_wait beside children".to_owned()], rounds, leaf);
    assert!(
        matches!(report, HeldEnd::Well | HeldEnd::Unable),
        "{report:?}"
    );
}

/// A signal that arrives while epoll_pwait(2) permits it must end the wait. Otherwise the program
/// continues to sleep with a signal to handle.
#[test]
fn no_signal_is_slept_through() {
    let Some(leaf) = leaf() else { return };
    let rounds = from_environment("HUGETEXT_ROUNDS", 100);
    let (mut held, said) = Busy::spawn(Command::new(example("held")).arg("mask"));
    assert_eq!(said, "ready\n");
    let target = held.target().unwrap();
    let pid = target.pid().into();
    let mut copies = Copies::default();
    let mut expected = 0;
    for round in 0..rounds {
        wait_for_sleep(&target);
        let able = std::thread::scope(|scope| {
            let signals = scope.spawn(|| {
                // Each round uses another moment of the stop.
                for spin in 0..round * 997 % 20_000 {
                    std::hint::black_box(spin);
                }
                kill(pid, Signal::SIGUSR1).unwrap();
            });
            let able = there_and_back(&target, leaf, &mut copies);
            signals.join().unwrap();
            able
        });
        if !able {
            return;
        }
        expected += 1;
        assert!(
            heard(&mut held, expected),
            "round {round}: signal {expected} was slept through"
        );
    }
}

/// Whether the program reports, within some seconds, that it has handled this many signals.
fn heard(held: &mut Busy, expected: u64) -> bool {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (output, child) = (&mut held.output, &held.child);
        scope.spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).unwrap_or(0) > 0 {
                if line.trim().parse() == Ok(expected) {
                    return sender.send(()).unwrap();
                }
                line.clear();
            }
        });
        let heard = receiver.recv_timeout(Duration::from_secs(10)).is_ok();
        if !heard {
            // When the program ends, the reader ends too.
            kill(Pid::of_child(child).into(), Signal::SIGKILL).unwrap();
        }
        heard
    })
}
