//! The command cannot see that hugetext has started it.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use crate::session::{HARMLESS, session};
use crate::subject::{Subject, executable, huge, is_excused, on_a_machine, text, with_input};

/// All windows of the subject but one. Its text is 8 MiB and begins at any address.
const MOST: u64 = 6 << 20;

#[test]
fn nothing_is_different_but_the_leaves() {
    for subject in Subject::both() {
        same_but_for_leaves(&subject);
    }
}

fn same_but_for_leaves(subject: &Subject) {
    let mut plain = Command::new(&subject.program);
    let session = session(HARMLESS, subject.directory());
    let plain = plain.env("XDG_RUNTIME_DIR", session);
    let plain = with_input(plain.arg0("other name").arg("-x").current_dir("/usr"));
    // The call uses a relative path, another name and an option of the program.
    let relative = subject.program.strip_prefix("/").unwrap();
    for mut run in [subject.run(), subject.run_as_nobody()] {
        let output = with_input(run.arg("--").arg(relative).arg("-x").current_dir("/"));
        let expected = text(&plain.stdout)
            .replace("argv0=other name", &format!("argv0={}", relative.display()))
            .replace("cwd=/usr", "cwd=/");
        assert_eq!(text(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(0));
        if !is_excused(&output) {
            assert!(huge(&output) >= MOST, "{}", text(&output.stderr));
        }
    }
    assert!(
        huge(&plain) < MOST,
        "the subject is on huge pages without `run`"
    );
}

/// Its folios are large all the same, and its own memory is what it was.
#[test]
fn where_leaves_do_harm_the_command_gets_none() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !subject.can_be_shown() {
        return;
    }
    let moved = Subject::build_pie();
    for subject in moved.iter().chain([&subject]) {
        denied_leaves(subject);
    }
}

fn denied_leaves(subject: &Subject) {
    let mut run = on_a_machine("harmful", subject.directory());
    let store = subject.directory().join("store");
    run.arg("run").arg("--store").arg(&store).arg("--");
    let output = run.arg(&subject.program).output().unwrap();
    assert_eq!(huge(&output), 0, "{}", text(&output.stderr));
    let by_leaves = subject.run().arg("--").arg(&subject.program).output();
    assert!(huge(&by_leaves.unwrap()) > 0);
    let mut planned = on_a_machine("harmful", subject.directory());
    planned
        .args(["run", "--dry-run", "--store"])
        .arg(&store)
        .arg("--");
    let said = planned.arg(&subject.program).output().unwrap();
    assert!(
        text(&said.stdout).contains("without leaves"),
        "{}",
        text(&said.stdout)
    );
}

/// Who uses a file is read in threads, and a process that enters a user namespace may have one only.
#[test]
fn the_first_start_of_a_program_in_use_is_prepared_for_a_plain_user_too() {
    let Some(subject) = Subject::build_with(&["-Wl,-z,max-page-size=0x200000"]) else {
        return;
    };
    // Small pages of the file, which a process keeps.
    let uncached = ["oflag=nocache", "conv=notrunc,fdatasync", "count=0"];
    let mut forget = Command::new("dd");
    forget.arg(format!("of={}", subject.program.display()));
    assert!(forget.args(uncached).status().unwrap().success());
    let mut user = Command::new(&subject.program)
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 5];
    user.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();
    for backend in ["auto", "store"] {
        let mut run = subject.run_as_nobody();
        let output = with_input(run.args(["--backend", backend, "--"]).arg(&subject.program));
        let said = text(&output.stderr);
        assert!(!said.contains("Invalid argument"), "{said}");
        if !is_excused(&output) {
            assert!(huge(&output) >= MOST, "{said}");
        }
    }
    drop(user.stdin.take());
    assert!(user.wait().unwrap().success());
}

#[test]
fn memory_serves_where_disk_does_not() {
    let Some(subject) = Subject::build() else {
        return;
    };
    for mut run in [subject.run(), subject.run_as_nobody()] {
        let output = with_input(run.args(["--backend", "store", "--"]).arg(&subject.program));
        if !is_excused(&output) {
            assert!(huge(&output) >= MOST, "{}", text(&output.stderr));
        }
    }
}

#[test]
fn exit_status_and_signals_are_the_commands() {
    for subject in Subject::both() {
        let status = |argument| {
            subject
                .run()
                .arg(&subject.program)
                .arg(argument)
                .status()
                .unwrap()
        };
        assert_eq!(status("exit").code(), Some(42));
        assert_eq!(status("die").signal(), Some(10));
    }
}

#[test]
fn ignored_and_blocked_signals_stay_so() {
    let Some(subject) = Subject::build() else {
        return;
    };
    // `env` sets signal states that a shell cannot set. Without these options (coreutils 8.32),
    // the test is skipped.
    let options = ["--ignore-signal=PIPE", "--block-signal=USR2"];
    let mut plain = Command::new("env");
    let plain = with_input(plain.args(options).arg(&subject.program));
    if !plain.status.success() {
        println!("skipped: env does not know {options:?}");
        return;
    }
    assert!(text(&plain.stdout).contains("sigpipe=1 blocked=1"));
    for subject in Subject::both() {
        let mut plain = Command::new("env");
        let plain = with_input(plain.args(options).arg(&subject.program));
        let run = subject.run();
        let mut through = Command::new("env");
        through
            .args(options)
            .arg(run.get_program())
            .args(run.get_args());
        let through = with_input(through.arg(&subject.program));
        assert_eq!(text(&through.stdout), text(&plain.stdout));
    }
}

#[test]
fn no_signal_of_the_preparation_is_left_for_the_command() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let block = ["env", "--block-signal=CHLD"];
    let pending = ["grep", "ShdPnd", "/proc/self/status"];
    let run = subject.run();
    let mut through = vec![run.get_program()];
    through.extend(run.get_args());
    let [plain, through] = [&[][..], &through[..]].map(|run| {
        let mut command = Command::new(block[0]);
        command.arg(block[1]).args(run).args(pending);
        command.output().unwrap()
    });
    if !plain.status.success() {
        println!("skipped: env does not know {}", block[1]);
        return;
    }
    assert_eq!(text(&through.stdout), text(&plain.stdout));
}

#[test]
fn what_is_no_program_is_refused_as_ever() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let pipe = subject.directory().join("pipe");
    let mut made = Command::new("mkfifo");
    let made = made.args(["-m", "755"]).arg(&pipe).status();
    assert!(made.unwrap().success());
    let script = subject.directory().join("to-pipe");
    executable(&script, &format!("#!/bin/sh\nexec {}\n", pipe.display()));
    for command in [&pipe, &script] {
        // A process that opens a pipe waits for the other end.
        let mut limited = Command::new("timeout");
        let run = subject.run();
        limited
            .arg("60")
            .arg(run.get_program())
            .args(run.get_args());
        let output = limited.arg("--also").arg(&pipe).arg("--").arg(command);
        assert_eq!(output.output().unwrap().status.code(), Some(126));
    }
}

#[test]
fn children_gain_too_and_programs_find_their_neighbours() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let script = subject.directory().join("script");
    let content = format!("#!/bin/sh\n{} </dev/null\n", subject.program.display());
    executable(&script, &content);
    let mut run = subject.run();
    let output = with_input(
        run.arg("--also")
            .arg(&subject.program)
            .arg("--")
            .arg(&script),
    );
    let exe = format!("exe={}\n", subject.program.display());
    assert!(text(&output.stdout).contains(&exe));
    assert!(
        is_excused(&output) || huge(&output) >= MOST,
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_a_script_executes_gains_without_being_named() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let script = subject.directory().join("launcher");
    let content = "#!/bin/sh\nHERE=$(dirname \"$0\")\nexec $DEBUGGER \"$HERE/subject\" \"$@\"\n";
    executable(&script, content);
    let output = with_input(subject.run().arg("--").arg(&script));
    let said = text(&output.stderr);
    assert!(is_excused(&output) || huge(&output) >= MOST, "{said}");
    assert!(!said.contains("--also"), "{said}");

    let silent = subject.directory().join("silent");
    executable(&silent, "#!/bin/sh\ntrue\n");
    let output = subject.run().args(["--strict", "--"]).arg(&silent).output();
    let output = output.unwrap();
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.contains("silent: a script") && said.contains("--also"),
        "{said}"
    );
}

#[test]
fn the_store_cannot_be_written_through_the_program() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !subject.can_be_shown() {
        return;
    }
    let mut run = subject.run();
    let append = format!("echo x >> {}", subject.program.display());
    let output = run
        .arg("--also")
        .arg(&subject.program)
        .args(["--", "sh", "-c", &append])
        .output();
    assert!(!output.unwrap().status.success());
    let verify = Command::new(&subject.program).arg("exit").status().unwrap();
    assert_eq!(verify.code(), Some(42));
}

/// In FIPS mode, a library computes a checksum of its own file and ends the program if the
/// checksum differs.
#[test]
fn what_something_has_a_checksum_of_is_shown_byte_by_byte() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let sum = |mut command: Command| {
        let output = command.arg("sha256sum").arg(&subject.program).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let with_copies = || {
        let mut command = subject.run();
        command.arg("--also").arg(&subject.program).arg("--");
        command
    };
    let plain = sum(Command::new("env"));
    if sum(with_copies()) == plain {
        println!("skipped: no fixed copy is shown here");
        return;
    }
    fs::write(subject.directory().join(".subject.hmac"), "00").unwrap();
    assert_eq!(sum(with_copies()), plain);
}
