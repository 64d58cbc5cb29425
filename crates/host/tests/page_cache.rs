//! The page cache under the kernel of this machine. The tests print which features the kernel
//! lacks.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use hugetext_host::{FileWindows, Machine, Mounts, WindowState, holders};
use hugetext_leaf::{Ability, Leaf, Span, Topic, ability};

const WINDOWS: u64 = 4;

/// A file of whole windows on the filesystem of the build directory, with its leaf. `None` if the
/// kernel or the filesystem cannot hold folios of that order.
fn file_of_windows(test: &str) -> Option<(File, Leaf)> {
    let machine = Machine::this();
    let directory = env!("CARGO_TARGET_TMPDIR");
    let mut file = tempfile::tempfile_in(directory).unwrap();
    let filesystem = Mounts::read().unwrap().of(&file).unwrap().filesystem;
    let holds = |leaf: &Leaf| {
        let has = |kernel| ability(Topic::LargeFolios, filesystem, kernel, *leaf) == Ability::Has;
        machine.kernel.is_some_and(|version| has(version.into()))
    };
    let Some(leaf) = machine.pmd.filter(holds) else {
        println!(
            "skipped: {test}: {} with {filesystem:?} holds no huge folios",
            machine.release
        );
        return None;
    };
    for _ in 0..WINDOWS {
        file.write_all(&vec![0xc3; leaf.bytes() as usize]).unwrap();
    }
    file.sync_all().unwrap();
    Some((file, leaf))
}

/// The limit of locked memory counts all that a process has locked, and by default it is what one test locks
/// (RLIMIT_MEMLOCK, 8 MiB). So those that lock take turns.
static LOCKED: Mutex<()> = Mutex::new(());

#[test]
fn every_method_is_seen_in_the_state() {
    let _turn = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((file, leaf)) = file_of_windows("every_method_is_seen_in_the_state") else {
        return;
    };
    let range = Span::new(0, WINDOWS * leaf.bytes());
    let windows = FileWindows::new(&file, range, leaf);

    windows.make_small().unwrap();
    // The pages are mapped and locked, since reclaim may take unmapped pages at any moment.
    let held = windows.map().unwrap();
    held.lock().unwrap();
    let small = windows.state().unwrap();
    assert_eq!(
        small.count(WindowState::Small),
        WINDOWS as usize,
        "{small:?}"
    );

    // The mapping of this process pins the pages. The method must fail and report that.
    assert_eq!(windows.reread(&small).unwrap(), WINDOWS as usize);
    assert_eq!(windows.state().unwrap(), small);
    drop(held);

    assert_eq!(windows.reread(&small).unwrap(), 0);
    let held = windows.map().unwrap();
    held.lock().unwrap();
    let warm = windows.state().unwrap();
    assert!(warm.is_warm(), "{warm:?}");
}

#[test]
fn a_window_in_use_does_not_keep_the_next_one_small() {
    let _turn = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((file, leaf)) = file_of_windows("a_window_in_use_does_not_keep_the_next_one_small")
    else {
        return;
    };
    let range = Span::new(0, WINDOWS * leaf.bytes());
    let windows = FileWindows::new(&file, range, leaf);
    windows.make_small().unwrap();
    let user = windows.map().unwrap();
    user.touch(Span::new(0, 1)).unwrap();
    let small = windows.state().unwrap();
    assert_eq!(windows.reread(&small).unwrap(), 1);
    let others = windows.map().unwrap();
    others.lock().unwrap();
    let found = windows.state().unwrap();
    if found.windows[2..].contains(&WindowState::Small) {
        println!("skipped: the kernel gave no huge folios: {found:?}");
        return;
    }
    assert_eq!(found.windows[1], WindowState::Huge, "{found:?}");
    assert_eq!(found.windows[0], WindowState::Small);
}

#[test]
fn names_the_process_that_pins_a_file() {
    // Who asks is not named. Others may run this very program: its other tests.
    let file = File::open("/proc/self/exe").unwrap();
    let own = hugetext_host::Pid::own();
    assert!(holders(&file).unwrap().iter().all(|h| h.pid != own));
    // `cat` waits for the end of its input. The input ends when the pipe is dropped.
    let mut child = Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"x").unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let program = File::open(format!("/proc/{}/exe", child.id())).unwrap();
    let found = holders(&program).unwrap();
    drop(input);
    child.wait().unwrap();
    assert!(
        found
            .iter()
            .any(|h| h.pid == hugetext_host::Pid::of_child(&child) && h.name == "cat"),
        "{found:?}"
    );
}
