//! Files that vanish, change, cannot be read, or are none, while the daemon acts on them.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_host::Namespace;
use nix::mount::{MntFlags, umount2};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde_json::json;

use crate::place::{Daemon, Place, can_hold, hugetext, turns};

/// Holds the program, and returns the daemon that does.
fn holding(place: &Place) -> Option<Daemon> {
    if !can_hold(place) {
        return None;
    }
    let daemon = place.daemon(&[]);
    place.run_until(&daemon, "held")?;
    Some(daemon)
}

/// Runs another program, so that the daemon goes on, until it releases the first one. Returns why; `None`, with the
/// reason printed, if memory was short.
fn released(place: &Place, daemon: &Daemon) -> Option<String> {
    let program = place.path("program");
    for () in turns() {
        Command::new("true").status().unwrap();
        let mut told = daemon.events.try_iter();
        if let Some(told) = told
            .find(|told| told["event"] == "released" && told["path"] == program.to_str().unwrap())
        {
            let reason = told["reason"].as_str().unwrap().to_owned();
            if reason == "memory is short" {
                println!("skipped: tasks stalled for memory");
                return None;
            }
            return Some(reason);
        }
    }
    panic!("never released: {:#}", place.status());
}

#[test]
fn a_file_that_vanishes_or_is_truncated_is_released_and_the_next_one_held() {
    let place = Place::new("act");
    let Some(daemon) = holding(&place) else {
        return;
    };
    let program = place.path("program");
    fs::remove_file(&program).unwrap();
    let Some(reason) = released(&place, &daemon) else {
        return;
    };
    assert_eq!(reason, "gone or unreadable");
    place.install(0);
    if place.run_until(&daemon, "held").is_none() {
        return;
    }
    // Nobody runs it, so it may be written to.
    File::options()
        .write(true)
        .open(&program)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let Some(reason) = released(&place, &daemon) else {
        return;
    };
    assert_eq!(reason, "replaced or changed");
    place.install(0);
    if place.run_until(&daemon, "held").is_none() {
        return;
    }
    daemon.end();
}

/// Which of these files, from which nothing ever comes, the daemon has opened. Who opens a FIFO waits for a writer.
fn waits_at(daemon: &Daemon, fifo: &Path, paths: &[&Path]) -> Option<PathBuf> {
    let writes = OFlags::WRONLY | OFlags::NONBLOCK;
    match open(fifo, writes, Mode::empty()) {
        Ok(_) => return Some(fifo.to_owned()),
        Err(error) => assert_eq!(error, Errno::NXIO),
    }
    let opened = fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).unwrap();
    let mut opened = opened.flatten().map(|file| fs::read_link(file.path()));
    opened.find_map(|path| path.ok().filter(|path| paths.contains(&path.as_path())))
}

#[test]
fn a_fifo_or_device_in_the_place_of_a_program_is_never_opened() {
    let place = Place::new("act");
    let Some(daemon) = holding(&place) else {
        return;
    };
    let fifo = place.make_fifo("fifo");
    fs::rename(&fifo, place.path("program")).unwrap();
    let Some(reason) = released(&place, &daemon) else {
        return;
    };
    assert_eq!(reason, "gone or unreadable");
    daemon.end();
    // A state file that names such files: they wait, and what is a program is held.
    place.install(0);
    let fifo = place.make_fifo("fifo");
    let record = |path: &Path| {
        let by = json!([{"user": 0, "cgroup": "/", "starts": 1e6, "seconds": 0.0}]);
        json!({"path": path, "name": path, "by": by}).to_string()
    };
    let paths = [
        &fifo,
        Path::new("/dev/zero"),
        Path::new("/dev/tty"),
        Path::new("/proc/kmsg"),
    ];
    let head = json!({"hugetext-auto": 1, "watched_seconds": 1}).to_string();
    let records = paths
        .into_iter()
        .map(record)
        .chain([record(&place.path("program"))]);
    let lines: Vec<String> = [head].into_iter().chain(records).collect();
    fs::write(place.path("state"), lines.join("\n") + "\n").unwrap();
    let daemon = place.daemon(&[]);
    if place.run_until(&daemon, "held").is_some() {
        assert_eq!(waits_at(&daemon, &fifo, &paths), None);
    }
    daemon.end();
}

#[test]
fn a_file_that_turns_unreadable_waits_and_is_held_again_when_it_is_readable() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    // Root, but bound by permissions.
    let mut command = Command::new("setpriv");
    let powers = "-dac_override,-dac_read_search,-fowner";
    command.args(["--bounding-set", powers, "--inh-caps", powers]);
    command.arg(hugetext().get_program());
    let daemon = place.daemon_by(command, &[]);
    if place.run_until(&daemon, "held").is_none() {
        return;
    }
    // Another user's file, which everybody may execute and nobody else read.
    let program = place.path("program");
    let other = place.path("other");
    fs::copy(&program, &other).unwrap();
    File::open(&other).unwrap().sync_all().unwrap();
    chown(&other, Some(65_534), None).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o711)).unwrap();
    fs::rename(&other, &program).unwrap();
    let Some(reason) = released(&place, &daemon) else {
        return;
    };
    assert_eq!(reason, "gone or unreadable");
    let is_told = || {
        place.status_of(&program).is_some_and(|file| {
            file["state"] == "waiting" && file["reason"].as_str().unwrap().contains("denied")
        })
    };
    let mut turns = turns().map(|()| Command::new("true").status().unwrap());
    assert!(turns.any(|_| is_told()), "{:#}", place.status());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let _ = place.run_until(&daemon, "held");
    daemon.end();
}

/// As a USB stick, or an image: its owner pulls it out when nobody runs anything there.
#[test]
fn a_filesystem_that_no_boot_mounts_can_be_unmounted() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let (image, at) = (place.path("image"), place.path("disk"));
    fs::create_dir(&at).unwrap();
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(&image)
        .status();
    if !made.is_ok_and(|made| made.success()) {
        return println!("skipped: no mkfs.ext4");
    }
    if let Err(error) = Namespace::Mount.enter() {
        return println!("skipped: no mount namespace: {error}");
    }
    let loops = Command::new("mount")
        .args(["-o", "loop"])
        .args([&image, &at])
        .status();
    if !loops.is_ok_and(|loops| loops.success()) {
        return println!("skipped: no loop device can be mounted here");
    }
    let program = place.copy_program("disk/program");
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    let is_told = || {
        let _ = Command::new(&program).status().unwrap();
        let file = place.status_of(&program);
        file.is_some_and(|file| file["cause"] == "unmountable")
    };
    assert!(turns().any(|()| is_told()), "{:#}", place.status());
    // It was held, or would have been, after so many starts. No lazy unmount: that always succeeds.
    umount2(&at, MntFlags::empty()).unwrap();
    // It goes on with others.
    let _ = place.run_until(&daemon, "held");
    daemon.end();
}
