//! The packages that scripts/setup.sh names to a user of each distribution who has none of them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// A mapping of a program on a machine with glibc, and on one with musl.
const GLIBC: &str = "7f0000000000-7f0000001000 r-xp 0 08:01 1 /usr/lib64/ld-linux-x86-64.so.2\n";
const MUSL: &str = "7f0000000000-7f0000001000 r-xp 0 08:01 1 /lib/ld-musl-x86_64.so.1\n";

/// Runs setup.sh with `managers` as the only package managers. They report no package as
/// installed.
fn setup(managers: &[&str], tasks: &[&str]) -> Output {
    setup_with_loader(managers, GLIBC, tasks)
}

/// Runs setup.sh with stubs of `stubs`, which fail, beside the tools that it needs. Its own mappings
/// are those of `maps`.
fn setup_with_loader(stubs: &[&str], maps: &str, tasks: &[&str]) -> Output {
    let programs = tempfile::tempdir().unwrap();
    for tool in ["sh", "awk", "sort", "dirname", "id", "uname"] {
        let found = which(tool);
        symlink(found, programs.path().join(tool)).unwrap();
    }
    for name in stubs {
        let stub = programs.path().join(name);
        fs::write(&stub, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&stub, Permissions::from_mode(0o755)).unwrap();
    }
    let mapped = programs.path().join("maps");
    fs::write(&mapped, maps).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
    // A shell executes the stubs. This process does not, because a stub may still be open for
    // writing elsewhere.
    Command::new("/bin/sh")
        .arg(script)
        .args(tasks)
        .env("PATH", programs.path())
        .env("SETUP_MAPS", mapped)
        .output()
        .unwrap()
}

fn which(tool: &str) -> String {
    let found = Command::new("/bin/sh")
        .args(["-c", &format!("command -v {tool}")])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn every_distribution_gets_its_own_command_and_names() {
    for (managers, command, names) in [
        (&["dnf", "rpm"][..], "dnf install", "glibc-devel"),
        (&["pacman"], "pacman -S", "glibc"),
        (&["zypper", "rpm"], "zypper install", "glibc-devel"),
        (&["apk"], "apk add", "musl-dev"),
    ] {
        let output = setup(managers, &["build"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let line = said
            .lines()
            .find(|line| line.starts_with("missing packages; run: "))
            .unwrap();
        assert!(line.ends_with(&format!("{command} gcc {names}")), "{line}");
    }
}

#[test]
fn several_tasks_and_those_that_a_task_includes_are_all_listed() {
    let said = stderr(&setup(&["dnf", "rpm"], &["test", "fresh"]));
    for package in [
        "gcc",
        "qemu-system-x86",
        "valgrind",
        "ShellCheck",
        "mmdebstrap",
    ] {
        assert!(said.contains(package), "{package}: {said}");
    }
}

#[test]
fn a_package_without_a_name_here_is_told_apart() {
    let said = stderr(&setup(&["pacman"], &["kernel"]));
    let by_hand = said.lines().find(|line| line.contains("by hand")).unwrap();
    assert!(by_hand.ends_with(": coccinelle"), "{by_hand}");
    assert!(!said.contains("pacman -S coccinelle"));
}

/// Debian packages of every task of setup.sh, by their names there.
fn debian_packages() -> BTreeSet<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
    let script = fs::read_to_string(script).unwrap();
    let (_, cases) = script.split_once("\npackages_of() {").unwrap();
    let (cases, _) = cases.split_once("\n}\n").unwrap();
    // The labels of tasks stand four columns to the right, and nothing else does.
    let labels = cases
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.strip_suffix(')'));
    let tasks: Vec<&str> = labels
        .filter(|label| !label.starts_with([' ', '*']))
        .flat_map(|label| label.split(" | "))
        .collect();
    assert!(tasks.contains(&"test") && tasks.contains(&"msrv"));
    let said = stderr(&setup(&[], &tasks));
    let (_, listed) = said.split_once("install by hand:").unwrap();
    listed.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_package_has_names_on_other_distributions_or_is_known_to_have_none() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/packages.txt");
    let table = fs::read_to_string(table).unwrap();
    let known: BTreeSet<String> = table
        .lines()
        .filter_map(|row| row.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    let unknown: Vec<String> = debian_packages().difference(&known).cloned().collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn without_a_package_manager_debian_names_are_listed() {
    let output = setup(&[], &["build"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).ends_with("install by hand: gcc libc6-dev\n"));
}

/// Debian, Alpine, Arch, and a machine of no known distribution.
#[test]
fn what_musl_and_other_inits_lack_is_said_on_every_distribution() {
    for managers in [&["dpkg-query", "apt-get"][..], &["apk"], &["pacman"], &[]] {
        for (loader, systemctl) in [(MUSL, true), (GLIBC, true), (MUSL, false), (GLIBC, false)] {
            let stubs = [managers, if systemctl { &["systemctl"] } else { &[] }].concat();
            let said = stderr(&setup_with_loader(&stubs, loader, &["build"]));
            assert_eq!(
                said.contains("on musl"),
                loader == MUSL,
                "{managers:?}: {said}"
            );
            assert_eq!(
                said.contains("without systemd"),
                !systemctl,
                "{managers:?}: {said}"
            );
        }
    }
}

#[test]
fn an_unknown_task_is_an_error() {
    let output = setup(&["pacman"], &["nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no task 'nonsense'"));
}
