//! `hugetext host` as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A user who owns no files and has a session of its own.
fn host(session: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
    command.arg("host").args(words);
    command.env("XDG_RUNTIME_DIR", session);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        std::os::unix::fs::chown(session, Some(65_534), Some(65_534)).unwrap();
        command.uid(65_534).gid(65_534);
    }
    command.output().unwrap()
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn it_ends_in_a_sentence_and_the_next_command() {
    let session = tempfile::tempdir().unwrap();
    let output = host(session.path(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("tarts gain")
            || text.contains("start faster")
            || text.contains("not possible"),
        "{text}"
    );
    if !text.contains("not possible") {
        assert!(
            text.trim_end().ends_with("Next: hugetext check PROGRAM"),
            "{text}"
        );
    }
}

/// The same verdict, the times of the first trial.
#[test]
fn it_is_remembered_and_damage_is_not_believed() {
    let session = tempfile::tempdir().unwrap();
    let first = document(&host(session.path(), &["--json"]));
    assert_eq!(first["remembered"], false);
    let again = document(&host(session.path(), &["--json", "--remembered"]));
    assert_eq!(again["remembered"], true);
    assert_eq!(
        (&again["verdict"], &again["missed"]),
        (&first["verdict"], &first["missed"])
    );
    let file = session.path().join("hugetext/host.json");
    let kept = fs::read_to_string(&file).unwrap();
    fs::write(&file, &kept[..kept.len() / 2]).unwrap();
    let third = document(&host(session.path(), &["--json", "--remembered"]));
    // Root may have found the same machine out before.
    let is_of_root = Path::new("/run/hugetext/host.json").exists();
    assert!(third["remembered"] == false || is_of_root, "{third:#}");
}

/// A command line that ends with `hugetext host --json`, run by `sh`. `None`, with the reason printed, if the machine cannot.
fn told_by(script: &str, what: &str) -> Option<Value> {
    let session = tempfile::tempdir().unwrap();
    // What root finds out, all users believe: it must not be found out of a test.
    let aside = "[ $(id -u) != 0 ] || mount -t tmpfs none /run || exit 1";
    let script = format!("{aside}\n{script}");
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = Command::new(if is_root { "unshare" } else { "sh" });
    command.args(is_root.then_some(["-m", "sh"]).into_iter().flatten());
    command.args(["-c", &script, env!("CARGO_BIN_EXE_hugetext")]);
    command.env("XDG_RUNTIME_DIR", session.path());
    let output = command.output().unwrap();
    match serde_json::from_slice(&output.stdout) {
        Ok(told) => {
            assert!(output.status.success(), "{output:?}");
            Some(told)
        }
        Err(_) => {
            println!(
                "skipped: {what}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            None
        }
    }
}

/// What a machine under other conditions says is either the same or nothing.
fn is_no_guess(told: &Value) {
    let session = tempfile::tempdir().unwrap();
    let usual = document(&host(session.path(), &["--json"]));
    let unknown = Value::from("cannot-tell");
    let verdicts = (&told["verdict"], &usual["verdict"]);
    let is_same = verdicts.0 == verdicts.1 || [verdicts.0, verdicts.1].contains(&&unknown);
    assert!(is_same, "{verdicts:?}: {told:#}");
    assert_eq!(
        told["verdict"] == unknown,
        !told["doubt"].is_null(),
        "{told:#}"
    );
}

#[test]
fn one_processor_is_enough() {
    let script =
        "exec taskset -c \"$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')\" \"$0\" host --json";
    let Some(told) = told_by(script, "taskset") else {
        return;
    };
    assert_eq!(told["machine"]["cpus"], 1);
    is_no_guess(&told);
}

/// A container may have no /sys, which tells the size of a huge page. That is no reason to say that there is none.
#[test]
fn a_container_without_sys_is_told_from_a_kernel_without_huge_pages() {
    let script = "mount -t tmpfs none /sys && exec \"$0\" host --json";
    let Some(told) = told_by(script, "no mount namespace") else {
        return;
    };
    assert_eq!(
        (told["verdict"].as_str(), told["doubt"].as_str()),
        (Some("cannot-tell"), Some("no-sys"))
    );
}

#[test]
fn an_emulated_processor_tells_nothing() {
    // What runs beside the emulator sees the machine itself, so nothing is remembered for it.
    let script = "qemu-$(uname -m) \"$0\" host --json && \
                  [ ! -e /run/hugetext/host.json ] && [ ! -e \"$XDG_RUNTIME_DIR/hugetext/host.json\" ]";
    let Some(told) = told_by(script, "no emulator") else {
        return;
    };
    assert_eq!(told["verdict"], "cannot-tell", "{told:#}");
}

#[test]
fn a_quota_is_told_and_no_guess_comes_of_it() {
    // A group of version 2 or 1 that this user may make, with a controller for processors.
    let script = "group=/sys/fs/cgroup; [ ! -d $group/cpu ] || group=$group/cpu; group=$group/hugetext-quota-$$; \
                  mkdir $group && trap 'rmdir $group' EXIT && \
                  { echo '20000 100000' > $group/cpu.max || echo 20000 > $group/cpu.cfs_quota_us; } 2> /dev/null && \
                  sh -c 'echo $$ > $1/cgroup.procs && exec \"$0\" host --json' \"$0\" $group";
    let Some(told) = told_by(script, "no group with cpu.max") else {
        return;
    };
    assert_eq!(told["confinement"]["quota"], 0.2, "{told:#}");
    is_no_guess(&told);
}

/// Other work, on every processor while it is asked.
#[test]
fn other_work_makes_no_guess() {
    struct Busy(std::process::Child);
    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let processors = std::thread::available_parallelism().unwrap().get();
    let busy = (0..2 * processors).map(|_| {
        let mut command = Command::new("sh");
        Busy(command.args(["-c", "while :; do :; done"]).spawn().unwrap())
    });
    let busy: Vec<Busy> = busy.collect();
    let session = tempfile::tempdir().unwrap();
    let told = document(&host(session.path(), &["--json"]));
    drop(busy);
    is_no_guess(&told);
    let sure = &told["agreement"];
    if !sure.is_null() {
        assert!(sure["agree"].as_u64() <= sure["trials"].as_u64(), "{sure}");
    }
}
