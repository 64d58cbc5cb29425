//! `hugetext learn`: the programs that a command's executions run.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::subject::{HUGETEXT, Subject, text};

#[test]
fn ranks_what_is_executed_most() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let list = subject.directory().join("list.toml");
    let program = subject.program.display();
    let script = format!("for i in 1 2 3 4 5; do {program} exit; done; echo hello; exit 3");
    let output = Command::new(HUGETEXT)
        .args(["learn", "--json", "--keep"])
        .arg(&list)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    let warned = text(&output.stderr);
    if warned.contains("ptrace") {
        println!("skipped: {warned}");
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{warned}");
    assert!(warned.contains("hello"), "the command's output is lost");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["files"][0]["path"], program.to_string());
    assert_eq!(report["files"][0]["executions"], 5);
    assert!(report["executions"].as_u64().unwrap() >= 6);
    assert!(
        fs::read_to_string(&list)
            .unwrap()
            .contains(&program.to_string())
    );
    let missing = Command::new(HUGETEXT)
        .args(["learn", "no-such-command-anywhere"])
        .status();
    assert_eq!(missing.unwrap().code(), Some(127));
}

#[test]
fn a_name_that_no_list_can_hold_is_said() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let odd = subject.directory().join(OsStr::from_bytes(b"odd\xff"));
    fs::copy(&subject.program, &odd).unwrap();
    let list = subject.directory().join("list.toml");
    let mut learn = Command::new(HUGETEXT);
    learn
        .args(["learn", "--keep"])
        .arg(&list)
        .args(["--", "sh"]);
    let script = ["-c", "\"$1\" exit; \"$2\" exit", "sh"];
    let output = learn.args(script).args([&odd, &subject.program]).output();
    let warned = text(&output.unwrap().stderr);
    if warned.contains("ptrace") {
        return println!("skipped: {warned}");
    }
    assert!(warned.contains("left out of the list"), "{warned}");
    let listed = fs::read_to_string(&list).unwrap();
    assert!(
        listed.contains(subject.program.to_str().unwrap()),
        "{listed}"
    );
    assert!(!listed.contains("odd"), "{listed}");
}

#[test]
fn a_list_that_cannot_be_written_costs_no_run_and_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    let learn = |script: &str| {
        let mut command = Command::new(HUGETEXT);
        command.args(["learn", "--keep"]).arg(gone.join("list"));
        command.args(["--", "sh", "-c", script]).arg(&gone);
        command.output().unwrap()
    };
    let before = learn("echo ran");
    assert_eq!(before.status.code(), Some(2));
    assert_eq!(text(&before.stdout), "", "the command was run");
    fs::create_dir(&gone).unwrap();
    for (script, status) in [("rmdir \"$0\"", 2), ("rmdir \"$0\"; exit 3", 3)] {
        fs::create_dir_all(&gone).unwrap();
        let after = learn(script);
        let said = text(&after.stderr);
        if said.contains("ptrace") {
            println!("skipped: {said}");
            return;
        }
        assert_eq!(after.status.code(), Some(status), "{said}");
        assert!(said.contains(gone.to_str().unwrap()), "{said}");
        assert!(text(&after.stdout).contains("executions"));
    }
}

#[test]
fn a_request_to_end_goes_to_the_command_and_the_report_is_kept() {
    let mut learn = Command::new(HUGETEXT)
        .args(["learn", "--json", "--", "sh", "-c"])
        .arg("trap 'kill $!; exit 9' TERM; sleep 1000 & echo ready; wait")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(learn.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if line.contains("ptrace") {
        println!("skipped: {line}");
        learn.wait().unwrap();
        return;
    }
    let pid = rustix::process::Pid::from_child(&learn);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut document = String::new();
    let mut stdout = learn.stdout.take().unwrap();
    stdout.read_to_string(&mut document).unwrap();
    assert_eq!(learn.wait().unwrap().code(), Some(9));
    let report: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert!(report["executions"].as_u64().unwrap() >= 1);
}

/// Runs `learn` on a shell command in one way. `None`, with the reason printed, if this machine
/// does not permit it.
fn learn_by(way: &str, script: &str) -> Option<(std::process::Output, serde_json::Value)> {
    let output = Command::new(HUGETEXT)
        .args(["learn", "--json", "--by", way, "--", "sh", "-c", script])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if said.contains("ptrace must be permitted") || said.contains("reports need root") {
        println!("skipped: {said}");
        return None;
    }
    let report = serde_json::from_slice(&output.stdout).unwrap();
    Some((output, report))
}

/// The leak checker stops its own process by ptrace. No other process may trace it at that time.
#[test]
fn leaks_are_found_as_without() {
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (directory.path().join("a.c"), directory.path().join("a"));
    let leak =
        "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(7); p = 0; return 0; }";
    fs::write(&source, leak).unwrap();
    let compile = format!(
        "gcc -fsanitize=address {} -o {}",
        source.display(),
        out.display()
    );
    let compiled = Command::new("sh").args(["-c", &compile]).output().unwrap();
    if !compiled.status.success() {
        println!("skipped: no gcc with AddressSanitizer here");
        return;
    }
    for way in ["auto", "reports", "ptrace"] {
        let script = format!("{compile} && {}; true", out.display());
        let Some((output, report)) = learn_by(way, &script) else {
            continue;
        };
        let said = text(&output.stderr);
        assert!(said.contains("detected memory leaks"), "{way}: {said}");
        assert!(said.contains("7 byte(s) leaked"), "{way}: {said}");
        assert!(
            report["executions"].as_u64().unwrap() >= 3,
            "{way}: {report}"
        );
    }
}

#[test]
fn tracers_and_debuggers_work_as_without() {
    let commands = [
        ("strace -f true", "exited with 0"),
        ("gdb -batch -nx -ex run true", "exited normally"),
    ];
    for (command, says) in commands {
        let alone = Command::new("sh").args(["-c", command]).output().unwrap();
        if !(text(&alone.stdout) + &text(&alone.stderr)).contains(says) {
            println!("skipped: `{command}` does not work here");
            continue;
        }
        for way in ["auto", "reports", "ptrace"] {
            let Some((output, report)) = learn_by(way, &format!("{command}; exit 5")) else {
                continue;
            };
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(5), "{way}: {said}");
            assert!(said.contains(says), "{command}, {way}: {said}");
            assert_eq!(report["tracers"], 1, "{command}, {way}: {report}");
        }
    }
}

/// Every way of watching finds the same programs.
#[test]
fn both_ways_count_the_same() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let program = subject.program.display();
    let script = format!("for i in 1 2 3 4 5; do {program} exit; done; env env true");
    let reports: Vec<serde_json::Value> = ["reports", "ptrace"]
        .into_iter()
        .filter_map(|way| Some(learn_by(way, &script)?.1))
        .collect();
    for report in &reports {
        assert_eq!(report["files"][0]["path"], program.to_string(), "{report}");
        assert_eq!(report["files"][0]["executions"], 5, "{report}");
        assert_eq!(report["executions"], 9, "{report}");
        assert_eq!(report["lost"], 0, "{report}");
    }
}
