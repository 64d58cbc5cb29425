//! A filesystem that no boot mounts stays its owner's: it can be unmounted and checked.

use std::fs::{self, File};
use std::process::{Command, Output};
use std::time::Instant;

use hugetext_host::Namespace;

use crate::place::{Place, can_hold, turns};

fn run(program: &str, words: &[&str]) -> Option<Output> {
    Command::new(program).args(words).output().ok()
}

/// A loop device, until this value is dropped.
struct Loop(String);

impl Loop {
    fn of(image: &str) -> Option<Loop> {
        let made = run("losetup", &["--find", "--show", image])?;
        let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        made.status.success().then_some(Loop(device))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.0]);
    }
}

#[test]
fn a_loop_image_is_free_when_its_last_user_has_ended() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let (image, mount) = (place.path("image"), place.path("mount"));
    let [image, mount] = [image, mount].map(|path| path.to_str().unwrap().to_owned());
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(&mount).unwrap();
    if !run("mkfs.ext4", &["-q", &image]).is_some_and(|made| made.status.success()) {
        return println!("skipped: no mkfs.ext4");
    }
    // The daemon sees what this thread mounts.
    Namespace::Mount.enter().unwrap();
    let Some(device) = Loop::of(&image) else {
        return println!("skipped: no loop device");
    };
    let mounted = run("mount", &[&device.0, &mount]).unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    let program = place.copy_program("mount/program");
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    let is_seen = || {
        let status = place.status_of(&program);
        status.is_some_and(|file| file.to_string().contains("unmounted"))
    };
    let mut starts = 0;
    let seen = turns().any(|()| {
        starts += 1;
        let _ = Command::new(&program).status().unwrap();
        is_seen()
    });
    assert!(seen, "{:#}", place.status());
    // The daemon may look at the file at this very moment.
    let (mut attempts, begun) = (0, Instant::now());
    let free = turns().any(|()| {
        attempts += 1;
        run("umount", &[&mount]).unwrap().status.success()
    });
    let took = begun.elapsed().as_millis();
    assert!(free, "{mount} stays busy");
    let checked = run("e2fsck", &["-f", "-n", &device.0]).unwrap();
    assert!(checked.status.success(), "{checked:?}");
    println!(
        "after {starts} starts, a loop image was unmounted in {took} ms, at attempt {attempts}, and e2fsck had it for itself"
    );
    daemon.end();
}
