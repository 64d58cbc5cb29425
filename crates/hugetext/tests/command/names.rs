//! Names of commands, of programs and of libraries.

use std::path::Path;
use std::process::Command;

use crate::{hugetext, stderr};

/// `hugetext --help` and `hugetext COMMAND --help` describe a command in the same words.
#[test]
fn every_command_has_one_headline() {
    let said = String::from_utf8(hugetext(&["--help"]).stdout).unwrap();
    let (_, commands) = said.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let mut compared = 0;
    // A long description goes on in further lines, which are indented more.
    for line in commands.lines().filter(|line| !line.starts_with("   ")) {
        let (name, about) = line.trim().split_once("  ").unwrap();
        // Another program answers for two of them, and `help` is clap's own.
        if name == "help" {
            continue;
        }
        let help = String::from_utf8(hugetext(&[name, "--help"]).stdout).unwrap();
        assert!(help.starts_with(about.trim()), "{name}: {help}");
        assert!(!help.contains("--give-back"), "hidden: {help}");
        compared += 1;
    }
    assert!(compared > 10, "{commands}");
}

#[test]
fn what_is_gone_says_what_replaces_it() {
    let cases: &[(&[&str], &str)] = &[
        (&["top", "--once"], "hugetext auto top"),
        (&["schema", "check"], "hugetext generate --schema"),
        (&["keep", "daemon", "--budget", "1G"], "hugetext auto"),
        (&["--format", "csv", "stat", "--all"], "@csv"),
        (&["stat", "--all", "--format=json"], "use --json"),
        (&["check", "--format", "sarif", "/bin/true"], "use --json"),
        (
            &["check", "--format", "text", "/bin/true"],
            "leave it out for text",
        ),
        (&["auto", "top", "--format", "json"], "use --json"),
    ];
    for (words, replacement) in cases {
        let output = hugetext(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(replacement), "{said}");
    }
}

/// As git finds its commands: a program of that name in PATH, or beside the command.
#[test]
fn other_programs_are_commands() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("hugetext-inventory");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"; exit 3\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let run = |words: &[&str], path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        command.args(words).env("PATH", path).output().unwrap()
    };
    let found = run(&["inventory", "-o", "there"], directory.path());
    assert_eq!(found.status.code(), Some(3), "{found:?}");
    assert_eq!(found.stdout, b"-o there\n");
    let nowhere = directory.path().join("nowhere");
    let cases: &[(&[&str], &str)] = &[
        (
            &["inventory"],
            "hugetext-inventory: not installed; install it",
        ),
        (&["chekc"], "'check'"),
    ];
    for (words, told) in cases {
        let output = run(words, &nowhere);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

/// People know the names of commands. A file of that name comes first.
#[test]
fn commands_are_known_by_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let of = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
        let output = command.args(words).current_dir(directory.path()).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.code(),
            text + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (status, said) = of(&["check", "cat"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("/cat"), "{said}");
    let (status, said) = of(&["fix", "--dry-run", "cat"]);
    assert!(
        matches!(status, Some(0 | 1)) && said.contains("/cat"),
        "{said}"
    );
    std::fs::write(directory.path().join("cat"), "no program").unwrap();
    let (status, said) = of(&["check", "cat"]);
    assert_eq!(status, Some(2), "{said}");
    let (status, said) = of(&["warm", "no-such-command-anywhere"]);
    assert_eq!(status, Some(2), "{said}");
    let (status, said) = of(&["check", "no-such-command-anywhere"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("give its path"), "{said}");
}

/// The text of a command often lies in a library.
#[test]
fn libraries_are_known_by_their_names() {
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    if !cache.windows(9).any(|name| name == b"libc.so.6") {
        return println!("skipped: no cache of glibc's loader knows libc.so.6");
    }
    let output = hugetext(&["check", "libc.so.6"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/libc.so.6"), "{said} {}", stderr(&output));
}
