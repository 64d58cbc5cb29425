//! Many runs at once, runs that are killed midway, and files that are no ordinary programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::subject::{
    HUGETEXT, Subject, executable, is_root, on_a_harmless_machine, text, with_input,
};

fn spawn(subject: &Subject) -> Child {
    let mut run = subject.run();
    run.arg("--")
        .arg(&subject.program)
        .arg("exit")
        .stdout(Stdio::null());
    run.spawn().unwrap()
}

#[test]
fn two_hundred_at_once_share_one_entry() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !subject.can_be_shown() {
        return;
    }
    let mut children: Vec<Child> = (0..200).map(|_| spawn(&subject)).collect();
    // Some runs get SIGKILL at an arbitrary moment. They must leave no torn entry and no lock.
    let killed: Vec<usize> = (0..200).step_by(10).collect();
    for index in &killed {
        children[*index].kill().unwrap();
    }
    for (index, mut child) in children.into_iter().enumerate() {
        let status = child.wait().unwrap();
        if !killed.contains(&index) {
            assert_eq!(status.code(), Some(42));
        }
    }
    assert_eq!(spawn(&subject).wait().unwrap().code(), Some(42));
    let store = subject.directory().join("store");
    let entries = fs::read_dir(store.join("entries")).unwrap();
    let named = entries.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        !name.to_str().unwrap().starts_with('.')
    });
    assert_eq!(
        named.count(),
        2,
        "the store does not hold exactly one entry and its record"
    );
}

#[test]
fn what_cannot_run_is_said_as_shells_say_it() {
    let subject = Subject::build();
    let status = |name: &str| {
        Command::new(HUGETEXT)
            .args(["run", "--", name])
            .output()
            .unwrap()
    };
    let missing = status("no-such-command-anywhere");
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-command-anywhere"));
    assert_eq!(status("/no/such/file").status.code(), Some(127));
    assert_eq!(status("/etc/passwd").status.code(), Some(126));
    assert_eq!(status("/etc").status.code(), Some(126));
    let Some(subject) = subject else { return };
    let broken = subject.directory().join("broken");
    executable(&broken, "\x7fELF is all that is right about it");
    let output = subject.run().arg("--").arg(&broken).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn scripts_without_an_interpreter_line_run() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    executable(&script, "echo \"$1 ran\"\n");
    let output = Command::new(HUGETEXT)
        .arg("run")
        .arg(&script)
        .arg("it")
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "it ran\n");
    assert_eq!(text(&output.stderr).lines().count(), 1, "one warning line");
}

#[test]
fn a_program_runs_whatever_goes_wrong() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let full = subject.directory().join("full");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("limit"), "1000\n").unwrap();
    let open = subject.directory().join("open");
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    for store in [&full, &open, Path::new("/proc/nowhere")] {
        let run = |strict: &[&str]| {
            let mut command = on_a_harmless_machine(subject.directory());
            command
                .args(["run", "--backend", "cache", "--store"])
                .arg(store)
                .args(strict);
            command
                .arg("--")
                .arg(&subject.program)
                .arg("exit")
                .output()
                .unwrap()
        };
        let output = run(&[]);
        assert_eq!(output.status.code(), Some(42), "{}", text(&output.stderr));
        assert_eq!(
            text(&output.stderr).lines().count(),
            1,
            "{}",
            text(&output.stderr)
        );
        assert_eq!(run(&["--strict"]).status.code(), Some(2));
    }
}

#[test]
fn without_namespaces_the_program_runs_as_it_is() {
    let Some(subject) = Subject::build() else {
        return;
    };
    // The limits apply only to the new user namespace.
    let forbid = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"";
    let run = subject.run();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
    command
        .arg(run.get_program())
        .args(run.get_args())
        .arg("--");
    let output = with_input(command.arg(&subject.program));
    if !text(&output.stderr).contains("mount namespace") {
        println!(
            "skipped: cannot forbid mount namespaces: {}",
            text(&output.stderr)
        );
        return;
    }
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("stdin=a line"));
}

#[test]
fn set_id_programs_are_left_alone() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !is_root() {
        println!("skipped: only root can make a set-id program of another user");
        return;
    }
    let program = subject.directory().join("set-id");
    let source = subject.directory().join("id.c");
    let main = "#include <unistd.h>\nint main(void){return geteuid()==0&&getuid()==65534?7:1;}";
    fs::write(&source, main).unwrap();
    assert!(
        Command::new("cc")
            .arg("-o")
            .args([&program, &source])
            .status()
            .unwrap()
            .success()
    );
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let status = subject
        .run_as_nobody()
        .arg("--")
        .arg(&program)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7), "the program does not become root");
    for (option, code) in [("--strict", 2), ("-v", 7)] {
        let mut run = subject.run_as_nobody();
        let output = run.arg(option).arg("--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{option}");
        let said = text(&output.stderr);
        assert!(said.contains("it changes user"), "{said}");
    }
    // A script that names it and the subject may not run in a namespace either.
    let script = subject.directory().join("script");
    let [prepared, set_id] = [&subject.program, &program].map(|path| path.display());
    executable(
        &script,
        &format!("#!/bin/sh\n[ $# = 1 ] && exec {prepared}\nexec {set_id}\n"),
    );
    let mut run = subject.run_as_nobody();
    let output = run.arg("-v").arg("--").arg(&script).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("set-id: ") && said.contains("it changes user"),
        "{said}"
    );
}

#[test]
fn strict_means_what_was_left_by_decision_too() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let run = |options: &[&str]| {
        let mut run = subject.run();
        run.args(["--backend", "none"]).args(options);
        let command = run.arg("--").arg(&subject.program).arg("exit");
        command.output().unwrap()
    };
    let quiet = run(&[]);
    assert_eq!(quiet.status.code(), Some(42));
    assert_eq!(text(&quiet.stderr), "");
    for (option, code) in [("--strict", 2), ("-v", 42)] {
        let output = run(&[option]);
        assert_eq!(output.status.code(), Some(code), "{option}");
        let said = text(&output.stderr);
        assert!(said.contains("it needs a copy"), "{said}");
    }
}

#[test]
fn programs_of_another_machine_are_left_with_the_reason() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let foreign = subject.directory().join("foreign");
    let mut program = fs::read(&subject.program).unwrap();
    // e_machine (gABI, ELF header).
    program[18..20].fill(0xff);
    fs::write(&foreign, program).unwrap();
    let also = |path: &Path| {
        let mut run = subject.run();
        run.arg("--also").arg(path).args(["--", "true"]);
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr)
    };
    let said = also(&foreign);
    assert!(said.contains("another instruction set"), "{said}");
    fs::remove_file(&subject.program).unwrap();
    assert_eq!(
        also(subject.directory()),
        "",
        "a foreign program in a directory is reported"
    );
    assert!(!subject.directory().join("store/entries").exists());
    let warm = Command::new(HUGETEXT).arg("warm").arg(&foreign).output();
    assert_eq!(warm.unwrap().status.code(), Some(2));
}
