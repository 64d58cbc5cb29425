//! `hugetext learn`: what a command's executions are spent on.

use std::fs;
use std::process::Command;

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
    assert!(warned.contains("hello"), "the command's output is not lost");
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
