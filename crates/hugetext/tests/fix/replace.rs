//! The place of the new file, and the attributes of the old file that stay.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::sample::{error_line, hugetext, json, link, path, run, sample, start, text, tool};

#[test]
fn in_place_keeps_the_program_its_metadata_and_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let (bytes, said) = (fs::read(&program).unwrap(), run(&program));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o741)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::options().append(true).open(&program).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(then))
        .unwrap();
    drop(file);

    let report = json(&["fix", path(&program), "--in-place", "--backup"]);
    assert_eq!(report["schema"], 3);
    assert!(report["plan"]["reached_after"].as_u64() > report["reached_before"].as_u64());
    assert_eq!(run(&program), said);
    let metadata = fs::metadata(&program).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o741);
    assert_eq!(metadata.modified().unwrap(), then);
    let backup = directory.path().join("sample.orig");
    assert_eq!(fs::read(&backup).unwrap(), bytes);
    let same = hugetext(&["check", "--same", path(&backup), path(&program)]);
    assert!(same.status.success(), "{}", text(&same.stdout));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);

    // Nothing is left to do, so an existing backup does not prevent the command.
    let again = json(&["fix", path(&program), "--in-place", "--backup"]);
    assert_eq!(again["plan"]["done_already"], true);
    assert_eq!(fs::metadata(&program).unwrap().ino(), metadata.ino());
}

#[test]
fn a_backup_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let before = fs::read(&program).unwrap();
    fs::write(directory.path().join("sample.old"), "precious").unwrap();
    let line = error_line(&hugetext(&[
        "fix",
        path(&program),
        "--in-place",
        "--backup=.old",
    ]));
    assert!(line.contains("sample.old"), "{line}");
    assert_eq!(fs::read(&program).unwrap(), before);
    assert_eq!(
        fs::read(directory.path().join("sample.old")).unwrap(),
        b"precious"
    );
}

#[test]
fn a_symbolic_link_stays_one_and_hard_links_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let (link, other) = (
        directory.path().join("link"),
        directory.path().join("other"),
    );
    std::os::unix::fs::symlink(&program, &link).unwrap();
    fs::hard_link(&program, &other).unwrap();
    let output = hugetext(&["fix", path(&link), "--in-place"]);
    assert!(
        text(&output.stdout).contains("1 other hard link"),
        "{}",
        text(&output.stdout)
    );
    assert!(link.is_symlink());
    let inode = |path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&link), inode(&program));
    assert_ne!(inode(&other), inode(&program));
}

#[test]
fn a_running_program_is_replaced_and_runs_on() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("cat");
    fs::copy("/bin/cat", &copy).unwrap();
    let mut child = start(&copy);
    // The leaves are 64K, so that a small program has text to fix.
    let output = hugetext(&[
        "fix",
        path(&copy),
        "--in-place",
        "--geometry",
        "arm64-4k",
        "--strategy",
        "merge",
    ]);
    // The `cat` of this machine may have a window or none. In both cases the running process must
    // continue.
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"still here").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"still here");
}

/// Its address does not depend on p_align, so a larger p_align alone justifies no new file.
#[test]
fn a_congruent_program_at_a_fixed_address_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-no-pie", "-fuse-ld=bfd"];
    let Some(program) = link(&directory, "fixed", &options) else {
        println!("skipped: no GNU ld on this machine");
        return;
    };
    let inode = fs::metadata(&program).unwrap().ino();
    let report = json(&["fix", path(&program), "--in-place", "--geometry", "x86-64"]);
    assert_eq!(report["plan"]["done_already"], true, "{report}");
    let reached = report["reached_before"].as_u64().unwrap();
    assert!(reached > 0);
    assert_eq!(report["plan"]["reached_after"], reached);
    assert_eq!(fs::metadata(&program).unwrap().ino(), inode);
}

#[test]
fn a_dry_run_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let before = fs::read(&program).unwrap();
    let report = json(&["fix", path(&program), "--dry-run"]);
    assert!(report["plan"]["plan"]["segments"].is_array(), "{report}");
    assert!(report.get("output").is_none());
    assert_eq!(fs::read(&program).unwrap(), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn privileges_are_kept_and_never_moved_by_accident() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let line = error_line(&hugetext(&["fix", path(&program), "--in-place"]));
    assert!(line.contains("--privileged"), "{line}");
    let output = hugetext(&["fix", path(&program), "--in-place", "--privileged"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn a_copy_gives_no_rights_unless_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let copy = directory.path().join("copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let fix = ["fix", path(&program), "-o", path(&copy)];
    let report = json(&fix);
    assert!(
        report["notes"].to_string().contains("--privileged"),
        "{report}"
    );
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o755);
    let report = json(&[&fix[..], &["--privileged"]].concat());
    assert_eq!(report["notes"], serde_json::json!([]));
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn an_option_that_would_be_ignored_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let copy = directory.path().join("copy");
    for options in [
        &["--backup", "-o", path(&copy)][..],
        &["--backup", "--dry-run"],
        &["--privileged", "--dry-run"],
    ] {
        let output = hugetext(&[&["fix", path(&program)], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
    assert!(!copy.exists());
}

/// What keeps a file from being replaced is known before it is.
#[test]
fn a_dry_run_of_a_replacement_is_refused_as_the_replacement_is() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let in_place = ["fix", path(&program), "--in-place"];
    let before = fs::read(&program).unwrap();
    let refused = error_line(&hugetext(&in_place));
    let dry = hugetext(&[&in_place[..], &["--dry-run"]].concat());
    assert_eq!(error_line(&dry), refused);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("copy");
    for target in [&["--in-place"][..], &["-o", path(&copy)]] {
        let dry = hugetext(&[&["fix", path(&program), "--dry-run"], target].concat());
        let said = text(&dry.stdout);
        assert!(
            dry.status.success() && said.contains("nothing written"),
            "{said}"
        );
    }
    assert!(fs::read(&program).unwrap() == before && !copy.exists());
}

#[test]
fn capabilities_and_extended_attributes_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let set = Command::new("setcap")
        .args(["cap_net_raw+ep", path(&program)])
        .output();
    if !set.is_ok_and(|output| output.status.success()) {
        println!("skipped: cannot set capabilities here");
        return;
    }
    let before = tool("getcap", &[path(&program)]).unwrap();
    let line = error_line(&hugetext(&["fix", path(&program), "--in-place"]));
    assert!(line.contains("--privileged"), "{line}");
    let output = hugetext(&["fix", path(&program), "--in-place", "--privileged"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(tool("getcap", &[path(&program)]).unwrap(), before);
    let copy = directory.path().join("copy");
    crate::sample::fix(&program, &copy, &[]);
    assert_eq!(tool("getcap", &[path(&copy)]).unwrap(), "");
}
