//! Benchmarks that are cut short, by a signal or by a full disk. Those of the laboratory end in the same way.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use hugetext_host::Pid;

/// Whether the process has a handler for SIGINT, according to its mask of caught signals
/// (proc(5)).
fn catches_interrupts(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << 1 != 0)
}

/// Interrupts `benchmark`, which runs long and makes its files in `place`; `named` if they have names.
pub(crate) fn ends_on_ctrl_c(benchmark: &mut Command, place: &Path, named: bool) {
    let mut child = benchmark.stderr(Stdio::piped()).spawn().unwrap();
    // The loop waits until the benchmark catches the signal and its files exist, or until the
    // benchmark has ended because this machine cannot run it. The process that runs the tests
    // may have left the signal ignored.
    while (!catches_interrupts(Pid::of_child(&child))
        || named && fs::read_dir(place).unwrap().count() == 0)
        && child.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    let kill = format!("kill -INT {}", child.id());
    let killed = Command::new("sh").args(["-c", &kill]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    if killed.success() && output.status.code().is_some() {
        assert!(text.lines().count() == 1, "{benchmark:?}: {text}");
        assert!(text.contains("interrupted"), "{benchmark:?}: {text}");
        assert_eq!(output.status.code(), Some(128 + 2), "{benchmark:?}");
    }
    let left = fs::read_dir(place).unwrap().count();
    assert_eq!(left, 0, "{benchmark:?}");
}

/// Runs each of `benchmarks`, the words of shell commands, in a tmpfs of 1 MiB. Skips, with the reason printed, where no
/// namespace can be had.
pub(crate) fn sees_a_full_disk(benchmarks: &[String]) {
    let each: Vec<String> = benchmarks
        .iter()
        .map(|words| format!("{words} --directory \"$0\" && exit 1; [ $? -eq 2 ] || exit 1"))
        .collect();
    let script = format!(
        "mount -t tmpfs -o size=1m none \"$0\" || exit 77
        {}
        [ -z \"$(ls -A \"$0\")\" ]",
        each.join("\n")
    );
    let place = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(place.path())
        .output();
    let Ok(output) = output else {
        println!("skipped: no unshare");
        return;
    };
    let text = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(77) || text.starts_with("unshare: ") {
        println!("skipped: no tmpfs in a namespace: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    assert_eq!(text.lines().count(), benchmarks.len(), "{text}");
    assert!(
        text.lines().all(|line| line.contains("not enough")),
        "{text}"
    );
}
