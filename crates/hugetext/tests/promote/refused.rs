//! What is not promoted, and the line that says why.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Sleeper, promote, stderr};

#[test]
fn an_empty_name_names_nothing() {
    let output = promote(&["--dry-run", "--name", ""]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--name"), "{}", stderr(&output));
}

#[test]
fn what_is_not_there_is_one_line_and_two() {
    for arguments in [&["4194304"][..], &["--name", "no such program runs"]] {
        let output = promote(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(
            stderr(&output).contains("no such process"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_translated_program_is_a_no_with_the_reason() {
    let valgrind = Command::new("valgrind")
        .args(["-q", "sleep", "1000"])
        .spawn();
    let Ok(valgrind) = valgrind else {
        println!("skipped: no valgrind");
        return;
    };
    let valgrind = Sleeper::of(valgrind);
    // valgrind executes its tool for that architecture in place of itself.
    let exe = format!("/proc/{}/exe", valgrind.pid());
    let is_tool = || std::fs::read_link(&exe).is_ok_and(|exe| exe.starts_with("/usr/libexec"));
    if !(0..100_000).any(|_| is_tool()) {
        println!("skipped: the tools of valgrind are in another directory");
        return;
    }
    let output = promote(&[&valgrind.pid()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("run by valgrind"), "{text}");
}

#[test]
fn a_traced_process_is_a_no_with_the_reason() {
    let gdb = Command::new("gdb")
        .args([
            "-q",
            "-batch",
            "-ex",
            "starti",
            "-ex",
            "shell sleep 1000",
            "/bin/true",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut gdb) = gdb else {
        println!("skipped: no gdb");
        return;
    };
    // When the shell sleeps, the program is stopped under gdb.
    let children = || {
        let pid = gdb.id();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let traced = (0..10_000).find_map(|_| {
        std::thread::yield_now();
        let traced = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status.contains("t (tracing stop)").then(|| pid.clone())
        };
        let children = children();
        (children.len() > 1)
            .then(|| children.iter().find_map(traced))
            .flatten()
    });
    let output = traced.as_ref().map(|pid| promote(&[pid]));
    for child in children() {
        let child = child.parse().ok().and_then(Pid::from_raw);
        let _ = child.map(|child| kill_process(child, Signal::KILL));
    }
    let _ = gdb.kill();
    let _ = gdb.wait();
    let Some(output) = output else {
        println!("skipped: gdb cannot trace a process here");
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unchanged: traced by process"), "{text}");
}
