//! Processes in a peculiar state: each is refused, or left as it was, with the reason that is true.

use std::fs;
use std::process::Command;

use hugetext_host::Pid;
use hugetext_leaf::Completion;
use hugetext_promote::{Copies, Refusal, SwapError, SwapOutcome, Target, promote};

use crate::{Busy, example, layout, leaf, plan_with, program, wait_for_state};

fn odd(arguments: &[&str]) -> Busy {
    let (odd, said) = Busy::spawn(Command::new(example("odd")).args(arguments));
    assert_eq!(said, "ready\n");
    odd
}

/// One attempt, with any outcome.
fn attempt(pid: Pid, leaf: hugetext_leaf::Leaf) -> Result<SwapOutcome, SwapError> {
    let target = Target::open(pid)?;
    let mappings = target.mappings().map_err(Refusal::from)?;
    let plan = plan_with(&mappings, leaf, Completion::Unused);
    promote(&target, &mappings, &plan.runs, leaf, &mut Copies::default())
}

/// Whether this machine lets the test promote at all.
fn permitted(attempt: &Result<SwapOutcome, SwapError>) -> bool {
    match attempt {
        Err(SwapError::Refusal(Refusal::Forbidden { remedy })) => {
            eprintln!("skipped: {remedy}");
            false
        }
        _ => true,
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_not_called_ended() {
    let odd = odd(&["headless"]);
    assert!(matches!(
        Target::open(Pid::of_child(&odd.child)),
        Err(Refusal::Headless)
    ));
    odd.kill();
}

#[test]
fn a_parent_in_vfork_is_named_asleep() {
    let Some(leaf) = leaf() else { return };
    let odd = odd(&["vfork"]);
    let pid = Pid::of_child(&odd.child);
    wait_for_state(&Target::open(pid).unwrap(), "D (disk sleep)");
    let outcome = attempt(pid, leaf);
    if permitted(&outcome) {
        assert!(matches!(outcome, Err(SwapError::Asleep)), "{outcome:?}");
    }
    odd.kill();
}

/// Whatever is read of a process that executes meanwhile, the error says so.
#[test]
fn a_process_that_executes_in_a_loop_is_told_so() {
    let Some(leaf) = leaf() else { return };
    let odd = odd(&["execs"]);
    let pid = Pid::of_child(&odd.child);
    for round in 0..100 {
        let outcome = attempt(pid, leaf);
        if !permitted(&outcome) {
            break;
        }
        if let Err(error) = outcome {
            let said = error.to_string();
            assert!(
                !said.contains("buffer") && !said.contains("os error"),
                "{round}: {said}"
            );
        }
    }
    odd.kill();
}

/// Near the limit of mappings a change is refused before its first step, since the kernel could refuse to
/// undo it.
#[test]
fn a_process_with_all_its_mappings_is_left_as_it_was() {
    let Some(leaf) = leaf() else { return };
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    if most.trim().parse::<u32>().unwrap() > 100_000 {
        // Reading smaps of a million mappings takes minutes.
        eprintln!("skipped: vm.max_map_count is {}", most.trim());
        return;
    }
    for spare in ["0", "1", "5", "50"] {
        let mut odd = odd(&["crowded", spare]);
        let pid = Pid::of_child(&odd.child);
        let target = Target::open(pid).unwrap();
        let before = layout(&target);
        let outcome = attempt(pid, leaf);
        if !permitted(&outcome) {
            return;
        }
        assert!(
            matches!(outcome, Err(SwapError::TooManyMappings { .. })),
            "spare {spare}: {outcome:?}"
        );
        assert_eq!(layout(&target), before, "spare {spare}");
        assert!(
            odd.child.try_wait().unwrap().is_none(),
            "spare {spare}: it lives"
        );
        odd.kill();
    }
}

/// A frozen control group, thawed and removed at the end.
struct FrozenGroup(String);

impl FrozenGroup {
    /// Freezes a process. `None`, with the reason printed, where that is not possible.
    fn with(pid: Pid) -> Option<FrozenGroup> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let mount = mounts
            .iter()
            .find(|mount| fs::exists(format!("{mount}/cgroup.procs")).unwrap_or(false));
        let Some(mount) = mount else {
            eprintln!("skipped: no control groups of version 2 here");
            return None;
        };
        let group = FrozenGroup(format!("{mount}/hugetext-test-{pid}"));
        let made = fs::create_dir(&group.0)
            .and_then(|()| fs::write(format!("{}/cgroup.procs", group.0), pid.to_string()))
            .and_then(|()| fs::write(format!("{}/cgroup.freeze", group.0), "1"));
        if let Err(error) = made {
            eprintln!("skipped: cannot freeze a control group: {error}");
            return None;
        }
        while !fs::read_to_string(format!("{}/cgroup.events", group.0))
            .unwrap()
            .contains("frozen 1")
        {
            std::thread::yield_now();
        }
        Some(group)
    }
}

impl Drop for FrozenGroup {
    fn drop(&mut self) {
        let _ = fs::write(format!("{}/cgroup.freeze", self.0), "0");
        let parent = self.0.rsplit_once('/').map_or("", |(parent, _)| parent);
        let members = fs::read_to_string(format!("{}/cgroup.procs", self.0)).unwrap_or_default();
        for member in members.lines() {
            let _ = fs::write(format!("{parent}/cgroup.procs"), member);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_frozen_process_is_to_be_thawed() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::run(Command::new(program()).arg("2"));
    let pid = Pid::of_child(&busy.child);
    if let Some(group) = FrozenGroup::with(pid) {
        let outcome = attempt(pid, leaf);
        if permitted(&outcome) {
            assert!(matches!(outcome, Err(SwapError::Frozen)), "{outcome:?}");
        }
        drop(group);
        busy.assert_well();
    }
    busy.finish();
}
