//! The packages that scripts/setup.sh names to a user who has none of them.

#![allow(clippy::unwrap_used)]

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
fn several_tasks_and_those_that_a_task_includes_are_all_listed() {
    let said = stderr(&setup(&[], &["test", "fresh"]));
    for package in [
        "gcc",
        "qemu-system-x86",
        "valgrind",
        "shellcheck",
        "mmdebstrap",
    ] {
        assert!(said.contains(package), "{package}: {said}");
    }
}

#[test]
fn without_apt_a_container_is_named_and_what_is_missing() {
    let output = setup(&[], &["build"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("scripts/Containerfile"), "{said}");
    assert!(
        said.ends_with("installed by hand: gcc libc6-dev\n"),
        "{said}"
    );
}

/// Debian, and another distribution.
#[test]
fn what_musl_and_other_inits_lack_is_said() {
    for managers in [&["dpkg-query", "apt-get"][..], &[]] {
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
    let output = setup(&[], &["nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no task 'nonsense'"));
}
