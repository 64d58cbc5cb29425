//! The files of copies: who finds them, and what becomes of them.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use hugetext_host::Namespace;
use hugetext_promote::{
    Copies, Target, give_back_until_unused, give_back_unused, make_place_of_copies,
};
use nix::mount::{MntFlags, umount2};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};

use super::{Busy, leaf, program, promote_all, revert_all};

/// The paths of the copies that a process maps.
pub(super) fn copies(target: &Target) -> Vec<PathBuf> {
    let mappings = target.mappings().unwrap();
    let paths = mappings
        .copies()
        .map(|(vma, _)| mappings.at(vma.addresses.start).unwrap().1);
    paths.map(|path| path.unwrap().to_owned()).collect()
}

/// The path of the first copy that a process maps. `None`, with the reason printed, where copies have none.
pub(super) fn path_of_copy(target: &Target) -> Option<PathBuf> {
    let path = copies(target).remove(0);
    if path.to_string_lossy().starts_with("/memfd:") {
        eprintln!("skipped: no tmpfs can be mounted here");
        return None;
    }
    Some(path)
}

/// Later promotions find the copy by its path, and so do profilers. Nobody can write to it.
#[test]
fn a_copy_has_a_path_that_later_promotions_share() {
    let Some(leaf) = leaf() else { return };
    let start = || Busy::run(Command::new("setarch").arg("-R").arg(program()).arg("2"));
    let (mut one, mut other) = (start(), start());
    let targets = [&one, &other].map(|busy| busy.target().unwrap());
    let Some(first) = promote_all(&targets[0], leaf, &mut Copies::default()) else {
        return;
    };
    let Some(path) = path_of_copy(&targets[0]) else {
        return;
    };
    let second = promote_all(&targets[1], leaf, &mut Copies::default()).unwrap();
    assert_eq!((second.copied, second.shared), (0, first.copied));
    assert_eq!(copies(&targets[1]), copies(&targets[0]));

    let error = OpenOptions::new().write(true).open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    // It is an ELF file with the symbols of the program.
    let symbols = |path: &Path| {
        let listed = Command::new("nm").arg(path).output();
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    match symbols(&program()) {
        Ok(listed) => {
            assert!(listed.contains("busy_functions"));
            assert_eq!(symbols(&path).unwrap(), listed);
        }
        Err(error) => eprintln!("skipped: nm: {error}"),
    }

    // The text goes with the last process that maps it; the symbols stay for profiles.
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
    let full = blocks();
    give_back_unused();
    assert_eq!(blocks(), full);
    one.assert_well();
    other.assert_well();
    one.finish();
    revert_all(&targets[1]);
    other.finish();
    give_back_unused();
    assert!(full - blocks() >= first.copied / 512, "{full} {}", blocks());
    if let Ok(listed) = symbols(&path) {
        assert!(listed.contains("busy_functions"));
    }

    // A copy that was given up is filled again, under the path by which profiles name it.
    let again = start();
    let target = again.target().unwrap();
    for _ in 0..3 {
        let filled = promote_all(&target, leaf, &mut Copies::default()).unwrap();
        assert_eq!(filled.copied, first.copied);
        assert_eq!(path_of_copy(&target).as_ref(), Some(&path));
        assert_eq!(symbols(&path).ok(), symbols(&program()).ok());
        revert_all(&target);
        give_back_unused();
    }
    again.finish();
}

/// Everybody can open the directories above a copy, and so lock them.
#[test]
fn who_locks_the_place_of_copies_holds_up_nobody() {
    const LONG: Duration = Duration::from_secs(60);
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(2);
    let target = busy.target().unwrap();
    if promote_all(&target, leaf, &mut Copies::default()).is_none() {
        return;
    }
    let Some(path) = path_of_copy(&target) else {
        return;
    };
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
    let full = blocks();
    busy.assert_well();
    busy.finish();
    let locked = path.ancestors().skip(1).map_while(|directory| {
        let directory = fs::File::open(directory).ok()?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(directory)
    });
    let locked: Vec<fs::File> = locked.take(3).collect();
    assert_eq!(locked.len(), 3, "{}", path.display());
    let (send, receive) = channel();
    // In the mount namespace of this thread.
    thread::spawn(move || {
        let done = make_place_of_copies().and_then(|()| give_back_until_unused());
        send.send(done.map_err(|error| error.to_string()))
    });
    let done = receive
        .recv_timeout(LONG)
        .expect("it waits for the lock of others");
    assert_eq!(done, Ok(()));
    assert!(blocks() < full, "{} {full}", blocks());
    // The first one that promotes mounts the place, and waits for others that do.
    umount2(path.ancestors().nth(2).unwrap(), MntFlags::MNT_DETACH).unwrap();
    let (send, receive) = channel();
    thread::spawn(move || send.send(make_place_of_copies().map_err(|error| error.to_string())));
    let done = receive
        .recv_timeout(LONG)
        .expect("it waits for the lock of others");
    assert_eq!(done, Ok(()));
}

/// Another hugetext may give a copy back between the moments at which this one finds it and maps it. The file that was
/// found stays whole then: the process would execute zeroes otherwise. An O_PATH descriptor stands for one that is about
/// to be opened, because no lease knows of it.
#[test]
fn a_copy_that_was_found_stays_whole_when_it_is_given_back() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(2);
    let target = busy.target().unwrap();
    let content = |found: &OwnedFd| fs::read(format!("/proc/self/fd/{}", found.as_raw_fd()));
    let promoted = |busy: &mut Busy| {
        promote_all(&target, leaf, &mut Copies::default())?;
        let path = path_of_copy(&target)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = openat(CWD, &path, flags, Mode::empty()).unwrap();
        busy.assert_well();
        let whole = content(&found).unwrap();
        Some((found, whole))
    };
    // The second time, the copy is one that was given back and is made again.
    for _ in 0..2 {
        let Some((found, whole)) = promoted(&mut busy) else {
            return;
        };
        revert_all(&target);
        give_back_unused();
        assert!(
            content(&found).unwrap() == whole,
            "the copy was changed after it was found"
        );
    }
    busy.finish();
}

/// A process in another mount namespace maps the copy by a path that opens there.
#[test]
fn a_copy_has_its_path_in_the_namespace_of_the_process() {
    let Some(leaf) = leaf() else { return };
    if !hugetext_host::is_root() {
        eprintln!("skipped: only root gives a process a mount namespace");
        return;
    }
    let run_apart = || {
        Namespace::Mount.enter().unwrap();
        Busy::start(2)
    };
    let mut busy = thread::spawn(run_apart).join().unwrap();
    let target = busy.target().unwrap();
    let Some(outcome) = promote_all(&target, leaf, &mut Copies::default()) else {
        return;
    };
    assert!(!outcome.done.is_empty());
    let Some(path) = path_of_copy(&target) else {
        return;
    };
    if !path.starts_with("/run") {
        // From a chroot, the kernel names what another namespace mounts as seen from the root of that.
        eprintln!("skipped: this root does not see {}", path.display());
        return;
    }
    let there = PathBuf::from(format!("/proc/{}/root", target.pid()));
    let there = there.join(path.strip_prefix("/").unwrap());
    assert_eq!(
        there.metadata().unwrap().len(),
        path.metadata().unwrap().len()
    );
    busy.assert_well();
    assert!(!revert_all(&target).done.is_empty());
    busy.assert_well();
    busy.finish();
}

/// As in a container, which is not to see the text of others.
#[test]
fn another_namespace_is_shown_its_own_copies_alone() {
    let Some(leaf) = leaf() else { return };
    if !hugetext_host::is_root() {
        eprintln!("skipped: only root gives a process a mount namespace");
        return;
    }
    // A copy of another program of the machine.
    let other = Busy::start(2);
    let others = other.target().unwrap();
    if promote_all(&others, leaf, &mut Copies::default()).is_none() {
        return;
    }
    let Some(path) = path_of_copy(&others) else {
        return;
    };
    let top = path.parent().unwrap().parent().unwrap().to_owned();
    let run_apart = || {
        Namespace::Mount.enter().unwrap();
        rustix::mount::unmount(&top, rustix::mount::UnmountFlags::DETACH).unwrap();
        let mut apart = Command::new("setarch");
        Busy::run(apart.arg("-R").arg(program()).arg("2"))
    };
    let mut busy = thread::scope(|scope| scope.spawn(run_apart).join().unwrap());
    let target = busy.target().unwrap();
    promote_all(&target, leaf, &mut Copies::default()).unwrap();
    busy.assert_well();
    let maps = copies(&target);
    let own: Vec<&Path> = maps.iter().map(|path| path.parent().unwrap()).collect();
    let root = PathBuf::from(format!("/proc/{}/root", target.pid()));
    let listed = fs::read_dir(root.join(top.strip_prefix("/").unwrap())).unwrap();
    let mut seen = 0;
    for entry in listed
        .flatten()
        .filter(|entry| fs::read_dir(entry.path()).unwrap().count() > 0)
    {
        let path = top.join(entry.file_name());
        assert!(
            own.contains(&path.as_path()),
            "{} is another's",
            path.display()
        );
        seen += 1;
    }
    assert!(seen > 0);
    revert_all(&target);
    busy.finish();
    other.finish();
}

/// A mount below it would keep the chroot busy for as long as the machine runs.
#[test]
fn nothing_is_mounted_in_a_chroot() {
    let Some(leaf) = leaf() else { return };
    let root = tempfile::tempdir().unwrap();
    let copied = Command::new("sh")
        .args([
            "-c",
            "cp --parents \"$1\" $(ldd \"$1\" | grep -o '/[^ )]*') \"$2\"",
            "sh",
        ])
        .args([program().as_path(), root.path()])
        .status();
    if !copied.is_ok_and(|status| status.success()) {
        eprintln!("skipped: cannot make a chroot");
        return;
    }
    let mut command = Command::new("chroot");
    command.arg(root.path()).arg(program()).arg("2");
    if !hugetext_host::is_root() {
        eprintln!("skipped: only root can chroot");
        return;
    }
    let mut busy = Busy::run(&mut command);
    let target = busy.target().unwrap();
    let Some(outcome) = promote_all(&target, leaf, &mut Copies::default()) else {
        return;
    };
    assert!(!outcome.done.is_empty());
    busy.assert_well();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.path().to_str().unwrap()), "{mounts}");
    assert!(!root.path().join("run").exists());
    revert_all(&target);
    busy.assert_well();
    busy.finish();
}
