//! Processes and text that are left as they are, and the reasons that are given.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use hugetext_host::Pid;
use hugetext_leaf::{Obstacle, Reason};
use hugetext_promote::{Refusal, Target};

use crate::{Busy, leaf, plan, program};

#[test]
fn refusals_name_their_reason() {
    let busy = Busy::start(1);
    let pid = Pid::of_child(&busy.child);
    let tracer = std::thread::spawn(move || {
        // The thread is the tracer, so the tracing ends when it ends.
        nix::sys::ptrace::seize(pid.into(), nix::sys::ptrace::Options::empty()).unwrap();
        Target::open(pid)
    });
    let refused = tracer.join().unwrap();
    assert!(
        matches!(refused, Err(Refusal::Traced { .. })),
        "{refused:?}"
    );
    busy.finish();

    assert!(matches!(Target::open(Pid::own()), Err(Refusal::Own)));
    // The limit itself is never given.
    let none = Pid::from_raw(1 << 22).unwrap();
    assert!(matches!(Target::open(none), Err(Refusal::Gone)));

    let filtered = Busy::run(Command::new(program()).args(["1", "seccomp"]));
    assert!(matches!(filtered.target(), Err(Refusal::Seccomp)));
    filtered.finish();
}

#[test]
fn sealed_text_is_left() {
    let Some(leaf) = leaf() else { return };
    let (busy, line) = Busy::spawn(Command::new(program()).args(["2", "sealed"]));
    if line.starts_with("unsealed") {
        eprintln!("skipped: no mseal in this kernel");
        return;
    }
    let plan = plan(&busy.target().unwrap().mappings().unwrap(), leaf);
    let sealed = Reason::Mapping(Obstacle::Sealed);
    assert!(plan.left.iter().any(|left| left.reason == sealed));
    assert!(plan.runs.is_empty(), "{:?}", plan.runs);
    busy.finish();
}

/// A 32-bit x86 program that waits for a signal, as a minimal ELF file.
#[cfg(target_arch = "x86_64")]
fn foreign_program() -> tempfile::NamedTempFile {
    const BASE: u32 = 0x0001_0000;
    const HEADERS: u32 = 52 + 32;
    // pause(): mov eax, 29; int 0x80; jmp back.
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let halves = |values: &[u16]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let words = |values: &[u32]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let len = HEADERS + code.len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(halves(&[2, 3])); // ET_EXEC, EM_386
    file.extend(words(&[1, BASE + HEADERS, 52, 0, 0]));
    file.extend(halves(&[52, 32, 1, 40, 0, 0]));
    file.extend(words(&[1, 0, BASE, BASE, len, len, 5, 4096]));
    file.extend(code);
    let mut program = tempfile::NamedTempFile::new().unwrap();
    program.write_all(&file).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    program.as_file().set_permissions(executable).unwrap();
    program
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program_is_refused() {
    let program = foreign_program().into_temp_path();
    // A child that another test forks keeps the new file open until the child executes a program.
    let started = loop {
        match Command::new(&program).spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            started => break started,
        }
    };
    let Ok(mut child) = started else {
        eprintln!("skipped: no 32-bit programs here");
        return;
    };
    let refused = Target::open(Pid::of_child(&child));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(refused, Err(Refusal::Foreign)), "{refused:?}");
}

/// Needs root: only root can become a user without the right to trace root's processes.
#[test]
fn what_to_grant_is_said_to_who_may_not_trace() {
    if !hugetext_host::is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let busy = Busy::start(1);
    let pid = Pid::of_child(&busy.child);
    let refused = std::thread::spawn(move || {
        // The raw system call changes only this thread.
        nix::sys::prctl::set_no_new_privs().unwrap();
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
        Target::open(pid)
    });
    let refused = refused.join().unwrap();
    assert!(
        matches!(&refused, Err(Refusal::Forbidden { remedy }) if remedy.contains("CAP_SYS_PTRACE")),
        "{refused:?}"
    );
    busy.finish();
}

#[test]
fn another_user_namespace_is_refused() {
    let unshare = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(program);
        command
    };
    if !unshare(Path::new("true"))
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("skipped: no user namespaces here");
        return;
    }
    let contained = Busy::run(unshare(&program()).arg("1"));
    assert!(matches!(contained.target(), Err(Refusal::UserNamespace)));
    contained.finish();
}
