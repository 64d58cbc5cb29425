//! A stop that takes longer than the user permits holds nobody until the last thread gets a processor.

use std::fs;
use std::process::{Child, Command, Stdio};

use hugetext_host::{Pid, Tid};
use rustix::process::{Signal, kill_process};

use super::{Busy, example, leaf};

/// A process that works on one processor all the time; it ends with this value.
struct Hog(Child);

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a command that changes how a thread runs has succeeded.
fn done(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A thread that runs where another process works, and only when nobody else wants to. It takes its place again with this value.
struct Starved(String, Option<Hog>);

impl Starved {
    /// `None`, with the reason printed, if that cannot be arranged.
    fn behind_all(thread: Tid) -> Option<Starved> {
        let thread = thread.to_string();
        let last = (std::thread::available_parallelism().ok()?.get() - 1).to_string();
        let mut hog = Command::new("taskset");
        hog.args(["-c", &last, "sh", "-c", "while :; do :; done"]);
        let hog = hog.spawn().ok().map(Hog);
        if hog.is_none()
            || !done(&["taskset", "-p", "-c", &last, &thread])
            || !done(&["chrt", "--idle", "-p", "0", &thread])
        {
            println!("skipped: nobody may say where and when a thread runs");
            return None;
        }
        Some(Starved(thread, hog))
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        self.1 = None;
        done(&["chrt", "--other", "-p", "0", &self.0]);
    }
}

fn is_traced(pid: Pid, thread: Tid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"));
    status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
}

/// A thread that gets no processor keeps a stop from being complete. The others go on before it has stopped, also in a process
/// with a child, in which nobody goes on at once.
#[test]
fn who_waits_for_a_processor_holds_the_others_for_a_moment() {
    const TRIES: usize = 30;
    if leaf().is_none() {
        return;
    }
    for script in [
        "exec \"$0\" 2 abandoned",
        "sleep 1000 > /dev/null & exec \"$0\" 2 abandoned",
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(example("busy"));
        let mut busy = Busy::run(&mut command);
        let pid = Pid::of_child(&busy.child);
        // In the order in which they were created: the first thread, one that computes, and one that sleeps.
        let listed = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let threads: Vec<Tid> = names.map(|name| name.parse().unwrap()).collect();
        let [_, computing, sleeping] = threads[..] else {
            panic!("{threads:?}");
        };
        let Some(starved) = Starved::behind_all(computing) else {
            return busy.kill();
        };
        let (mut said, mut is_done) = (String::new(), false);
        let went_on = (0..TRIES).any(|_| {
            let mut stop = Command::new(example("stop"));
            stop.args(["promote", "--max-pause", "1", &pid.to_string()]);
            stop.args(is_done.then_some("--revert"));
            let stop = stop.stdout(Stdio::null()).stderr(Stdio::piped());
            let mut stop = stop.spawn().unwrap();
            let (mut was_held, mut went_on) = (false, false);
            while matches!(stop.try_wait(), Ok(None)) {
                // In this order: all are let go at once where they are let go together.
                let held = is_traced(pid, sleeping);
                went_on |= was_held && !held && is_traced(pid, computing);
                was_held |= held;
            }
            let ended = stop.wait_with_output().unwrap();
            is_done ^= ended.status.success();
            said = String::from_utf8_lossy(&ended.stderr).into_owned();
            went_on || said.contains("not permitted")
        });
        drop(starved);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        busy.assert_well();
        busy.finish();
        for child in children.unwrap_or_default().split_whitespace() {
            let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
            let _ = kill_process(child, Signal::KILL);
        }
        if said.contains("not permitted") {
            return println!("skipped: {said}");
        }
        assert!(
            went_on,
            "{script}: all were held to the end {TRIES} times: {said}"
        );
    }
}
