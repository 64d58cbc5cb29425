//! Whatever happens between the preparation of a program and its first instruction, it runs as without hugetext.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hugetext_host::Pid;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::process::{Resource, Rlimit, Signal, kill_process, prlimit};

use crate::as_it_was::system_call;
use crate::subject::{HUGETEXT, Subject, is_root, text};

/// Its text comes from a copy, because it is not congruent with its place in the file.
const SHIFTED: [&str; 3] = ["-pie", "-fPIE", "-Wl,--section-start=.text=0x112000"];

/// A process that has been prepared, and has not executed the program yet. It is stopped.
struct Caught(Child);

impl Caught {
    /// `None`, with the reason printed, if no tracer waits for programs on this machine.
    fn before_execution(run: impl Fn() -> Command) -> Option<Caught> {
        const TRIES: usize = 200;
        for _ in 0..TRIES {
            let mut child = run().stdin(Stdio::piped()).spawn().unwrap();
            let pid = Pid::of_child(&child);
            while status_of(pid, "TracerPid").as_deref() == Some("0")
                && matches!(child.try_wait(), Ok(None))
            {}
            let _ = kill_process(pid.into(), Signal::STOP);
            while !is_stopped(pid) && matches!(child.try_wait(), Ok(None)) {}
            let caught = Caught(child);
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            if exe.is_ok_and(|exe| exe == Path::new(HUGETEXT)) {
                return Some(caught);
            }
            caught.go_on();
        }
        println!("skipped: no tracer waits here, or it never did long enough");
        None
    }

    fn pid(&self) -> Pid {
        Pid::of_child(&self.0)
    }

    /// Its output after it went on, and what it prints.
    fn go_on(self) -> Output {
        let _ = kill_process(self.pid().into(), Signal::CONT);
        self.0.wait_with_output().unwrap()
    }
}

fn status_of(pid: Pid, field: &str) -> Option<String> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// A traced process that is stopped by a signal shows as traced.
fn is_stopped(pid: Pid) -> bool {
    status_of(pid, "State").is_none_or(|state| state.starts_with(['T', 't', 'Z']))
}

fn run(subject: &Subject, options: &[&str], words: &[&str]) -> Command {
    let mut run = subject.run();
    run.args(options)
        .arg("--")
        .arg(&subject.program)
        .args(words);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

/// The copy with the text of the subject.
fn copy_of(subject: &Subject) -> PathBuf {
    let store = subject.directory().join("store");
    let mut asked = Command::new(HUGETEXT);
    asked.args(["store", "path", "--store"]).arg(&store);
    let said = asked.arg(&subject.program).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    PathBuf::from(text(&said.stdout).trim())
}

#[test]
fn a_program_that_is_written_meanwhile_runs_as_it_was_written() {
    let other = [&SHIFTED[..], &["-DSTATUS=43"]].concat();
    let [subject, other] = [&SHIFTED[..], &other].map(Subject::build_with);
    let (Some(subject), Some(other)) = (subject, other) else {
        return;
    };
    let Some(caught) = Caught::before_execution(|| run(&subject, &["-v"], &["exit"])) else {
        return;
    };
    // The same inode, the same headers, other instructions.
    let mut written = Command::new("dd");
    written.args(["conv=notrunc", "status=none"]);
    written.arg(format!("if={}", other.program.display()));
    written.arg(format!("of={}", subject.program.display()));
    assert!(written.status().unwrap().success());
    let output = caught.go_on();
    assert_eq!(output.status.code(), Some(43), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("the file has changed meanwhile"), "{said}");
}

#[test]
fn a_program_that_cannot_be_moved_runs_and_says_so_or_ends_if_that_was_wanted() {
    let Some(subject) = Subject::build_with(&SHIFTED) else {
        return;
    };
    for (options, status, says) in [
        (&["-v"][..], 42, true),
        (&[][..], 42, false),
        (&["--strict"][..], 2, true),
    ] {
        let caught = Caught::before_execution(|| run(&subject, options, &["exit"]));
        let Some(caught) = caught else { return };
        fs::remove_file(copy_of(&subject)).unwrap();
        let output = caught.go_on();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{options:?}: {output:?}"
        );
        let said = text(&output.stderr);
        let expected = "the file with its text cannot be opened: No such file";
        assert_eq!(said.contains(expected), says, "{options:?}: {said}");
        assert_eq!(said.contains("without --strict"), status == 2, "{said}");
    }
}

#[test]
fn what_was_moved_is_brought_back_if_the_rest_cannot_follow() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    let Some(caught) = Caught::before_execution(|| run(&subject, &["-v"], &["exit"])) else {
        return;
    };
    // Its 8 MiB of text fit once.
    let little = Some(14 << 20);
    let limit = Rlimit {
        current: little,
        maximum: little,
    };
    prlimit(Some(caught.pid().into()), Resource::As, limit).unwrap();
    let output = caught.go_on();
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    let said = text(&output.stderr);
    let expected = "its text cannot be mapped there: Cannot allocate memory";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn the_tracer_is_no_more_expendable_than_the_program() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    let Some(caught) = Caught::before_execution(|| run(&subject, &[], &["exit"])) else {
        return;
    };
    let tracer = status_of(caught.pid(), "TracerPid").unwrap();
    let [own, its] = [caught.pid().to_string(), tracer]
        .map(|pid| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap());
    let output = caught.go_on();
    assert_eq!(own, its);
    assert_eq!(output.status.code(), Some(42), "{output:?}");
}

/// SIGSTOP is sent as soon as the program is there, which is before its first instruction.
#[test]
fn a_stop_before_the_first_instruction_holds() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    let mut caught = 0;
    for _ in 0..40 {
        let mut child = run(&subject, &[], &["hold"]);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::of_child(&child);
        let is_there = || {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == subject.program)
        };
        while !is_there() && matches!(child.try_wait(), Ok(None)) {}
        caught += usize::from(status_of(pid, "TracerPid").as_deref() != Some("0"));
        kill_process(pid.into(), Signal::STOP).unwrap();
        loop {
            let state = status_of(pid, "State").unwrap();
            if state.starts_with('T') && status_of(pid, "TracerPid").as_deref() == Some("0") {
                break;
            }
            // It waits for its input.
            assert!(!state.starts_with(['S', 'Z']), "the stop was lost: {state}");
        }
        kill_process(pid.into(), Signal::CONT).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    println!("{caught} of 40 were traced when they were stopped");
}

/// A filter that kills whoever makes one of the calls that move an image.
#[test]
fn a_filter_of_system_calls_does_not_kill_a_program_that_is_moved() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    let refuse = subject.refuse();
    for how in ["kill", "errno"] {
        for name in ["ptrace", "mremap", "prctl"] {
            let number = system_call(name).unwrap();
            let filtered = |words: &[&OsStr]| {
                let mut command = Command::new(&refuse);
                command.args([how, &number, "--"]).args(words);
                command.output().unwrap()
            };
            let plain = filtered(&[subject.program.as_os_str(), OsStr::new("exit")]);
            assert_eq!(plain.status.code(), Some(42), "{how} {name}: {plain:?}");
            let run = run(&subject, &[], &["exit"]);
            let words: Vec<&OsStr> = [run.get_program()]
                .into_iter()
                .chain(run.get_args())
                .collect();
            let output = filtered(&words);
            assert_eq!(output.status.code(), Some(42), "{how} {name}: {output:?}");
        }
    }
}

/// A shell in a PID namespace of its own, whose first process runs `first`. `None`, with the reason printed, if there can be
/// none.
fn in_pid_namespace(options: &[&str], script: &str, subject: &Subject) -> Option<Output> {
    if !is_root() {
        println!("skipped: only root can make a PID namespace");
        return None;
    }
    let mut apart = Command::new("unshare");
    apart.args(["--pid", "--fork", "--mount"]).args(options);
    apart.args(["timeout", "60", "sh", "-c", script, "sh", HUGETEXT]);
    apart.arg(&subject.program).arg(subject.directory());
    let output = apart.output().unwrap();
    if text(&output.stderr).contains("unshare") {
        println!("skipped: {}", text(&output.stderr));
        return None;
    }
    Some(output)
}

/// In a container, the first process may be a program that never waits for children of others. Whatever each start left
/// behind would stay.
#[test]
fn starts_leave_few_zombies_where_nobody_waits_for_them() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    // timeout(1), the first process, waits for its own child alone.
    let script = "for try in $(seq 100); do \"$1\" run --store \"$3/store\" -- \"$2\" exit; [ $? = 42 ] || exit 9; done
        cat /proc/[0-9]*/stat | grep -c ' Z ' > \"$3/zombies\"; true";
    let Some(output) = in_pid_namespace(&["--mount-proc"], script, &subject) else {
        return;
    };
    let zombies = fs::read_to_string(subject.directory().join("zombies"));
    let zombies: usize = zombies.unwrap_or_default().trim().parse().unwrap_or(999);
    assert!(
        zombies <= 70,
        "{zombies} zombies after 100 starts: {output:?}"
    );
}

/// A process of the same number in another namespace runs the same program, and /proc tells of that one.
#[test]
fn a_proc_of_another_namespace_misleads_nobody() {
    let Some(subject) = Subject::build_pie() else {
        return;
    };
    let mut other = Command::new(&subject.program)
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let script = format!(
        "echo {} > /proc/sys/kernel/ns_last_pid && \"$1\" run --store \"$3/store\" -- \"$2\" exit; exit $?",
        other.id() - 1
    );
    let output = in_pid_namespace(&[], &script, &subject);
    let promoted = in_pid_namespace(&[], "\"$1\" promote $$", &subject);
    drop(other.stdin.take());
    other.wait().unwrap();
    if let (Some(output), Some(promoted)) = (output, promoted) {
        assert_eq!(output.status.code(), Some(42), "{output:?}");
        let said = text(&promoted.stdout);
        assert!(
            said.contains("/proc is that of another PID namespace"),
            "{said}"
        );
    }
}

/// A library with text for a leaf, which is mapped where leaves map it. `None`, with the reason printed, without a compiler.
fn large_library(directory: &Path) -> Option<PathBuf> {
    let library = directory.join("liblarge.so");
    let source = directory.join("large.s");
    let text = ".text\n.globl large\nlarge:\n.skip 8 << 20, 0xc3\n.section .note.GNU-stack,\"\",@progbits\n";
    fs::write(&source, text).unwrap();
    let mut compiled = Command::new("cc");
    compiled.args(["-shared", "-Wl,-z,max-page-size=0x200000", "-o"]);
    let compiled = compiled.args([&library, &source]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(library)
}

/// How often a file was opened since the last question. What is opened twice before it is closed counts as one.
struct Opened(OwnedFd);

impl Opened {
    fn of(file: &Path) -> Opened {
        let opened = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
        inotify::add_watch(&opened, file, flags).unwrap();
        Opened(opened)
    }

    fn count(&self) -> usize {
        let mut buffer = [const { MaybeUninit::uninit() }; 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut opened = 0;
        while let Ok(event) = events.next() {
            opened += usize::from(event.events().contains(ReadFlags::OPEN));
        }
        opened
    }
}

/// Where the program lies that is executed, and what the start said. It has ended again.
fn place_of_start(subject: &Subject, options: &[&str]) -> (u64, String) {
    let mut child = run(subject, options, &["hold"]);
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "held\n");
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let first = maps.lines().next().unwrap();
    assert!(first.ends_with(subject.program.to_str().unwrap()), "{maps}");
    let begins = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    let output = child.wait_with_output().unwrap();
    (begins, text(&output.stderr))
}

/// A start within a second after another one looks at the program that it moves, and at nothing else: the loader alone opens its
/// libraries.
#[test]
fn what_is_moved_again_at_once_has_its_libraries_left_alone() {
    const TRIES: usize = 60;
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = large_library(directory.path()) else {
        return;
    };
    let library = library.to_str().unwrap();
    let linked = ["-Wl,--no-as-needed", library];
    for options in [&["-pie", "-fPIE"][..], &SHIFTED] {
        let Some(subject) = Subject::build_with(&[options, &linked].concat()) else {
            return;
        };
        let (begins, said) = place_of_start(&subject, &["-v"]);
        if !said.is_empty() || begins % (2 << 20) != 0 {
            return println!("skipped: not all of it is moved and warm here: {said}");
        }
        let opened = Opened::of(Path::new(library));
        // A start that comes later than a second looks at all.
        let spared = (0..TRIES).any(|_| {
            opened.count();
            let (begins, _) = place_of_start(&subject, &[]);
            assert_eq!(begins % (2 << 20), 0, "{options:?}");
            opened.count() == 1
        });
        assert!(spared, "{options:?}: each start opened the library");
    }
}
