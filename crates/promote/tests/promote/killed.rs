//! Nothing that ends a tracer ends the process that it changes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use rustix::process::{Signal, kill_process};

use super::{Busy, example, from_environment, leaf};

/// A program that finds out whether anything of it was changed, and how it was stopped.
struct Victim {
    busy: Busy,
    program: &'static str,
    /// Stops in which its tracer was killed.
    disturbed: usize,
}

impl Victim {
    fn start(number: usize) -> Victim {
        // The first knows each of its registers, the other each result of its calls and its text.
        let (program, words): (_, &[&str]) = match number % 2 {
            0 => ("registers", &["4"]),
            _ => ("busy", &["4", "abandoned"]),
        };
        let (busy, said) = Busy::spawn(Command::new(example(program)).args(words));
        assert!(said.starts_with("ready"), "{said}");
        Victim {
            busy,
            program,
            disturbed: 0,
        }
    }

    fn pid(&self) -> Pid {
        Pid::of_child(&self.busy.child)
    }

    fn is_traced(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()));
        status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
    }

    /// How many bytes of its vDSO are not zero: those of code that a tracer could not take away too.
    fn code(&self) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (start, rest) = line.split_once('-').unwrap();
        let (end, _) = rest.split_once(' ').unwrap();
        let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut there = vec![0; (end - start) as usize];
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        memory.read_exact_at(&mut there, start).unwrap();
        there.iter().filter(|byte| **byte != 0).count()
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// A tracer that changes it, after it has begun to trace it or has ended.
    fn traced_by(&self, words: &[&str]) -> Child {
        let mut tracer = Command::new(example("stop"))
            .arg("promote")
            .args(words)
            .arg(self.pid().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !self.is_traced() && matches!(tracer.try_wait(), Ok(None)) {
            std::hint::spin_loop();
        }
        tracer
    }

    /// What it says when it is asked; `None` if all is well.
    fn complaint(&mut self) -> Option<String> {
        let asked = writeln!(self.busy.input.as_ref().unwrap());
        let said = self.busy.line();
        if asked.is_ok() && said.starts_with("ok ") {
            return None;
        }
        Some(format!(
            "{}: {said:?}, {:?}",
            self.program,
            self.busy.child.wait()
        ))
    }
}

/// Kills a tracer at moments of its stops, and in between.
#[test]
fn who_kills_a_tracer_harms_no_process() {
    if leaf().is_none() {
        return;
    }
    let kills = from_environment("HUGETEXT_KILLS", 40);
    let mut random = fastrand::Rng::with_seed(7);
    let mut victim = Victim::start(0);
    let (mut in_stop, mut in_call, mut targets, mut left_open) = (0, 0, 1, 0);
    let mut harmed = Vec::new();
    for _ in 0..kills {
        let (code, files) = (victim.code(), victim.open_files());
        let what: &[&str] = match random.u32(..4) {
            0 => &["--merge"],
            1 | 2 => &[],
            _ => &["--revert"],
        };
        let mut tracer = victim.traced_by(what);
        let (begun, wait) = (Instant::now(), Duration::from_micros(random.u64(..1_500)));
        while begun.elapsed() < wait {
            std::hint::spin_loop();
        }
        let was_traced = victim.is_traced();
        tracer.kill().unwrap();
        let ended = tracer.wait_with_output().unwrap();
        let was_killed = ended.status.signal() == Some(libc::SIGKILL);
        if !was_killed {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            if said.contains("not permitted") {
                return println!("skipped: {said}");
            }
        }
        in_stop += usize::from(was_killed && was_traced);
        let complaint = victim.complaint();
        let is_arm = !cfg!(target_arch = "x86_64");
        if complaint.is_none() {
            let is_in_call = victim.code() > code;
            in_call += usize::from(is_in_call);
            // The other program opens files of its own.
            if victim.program == "registers" {
                left_open += victim.open_files().saturating_sub(files);
            }
            victim.disturbed += usize::from(is_in_call);
        } else if !is_arm {
            harmed.extend(complaint.clone());
        }
        // Each tracer that is killed in the middle of a call takes some of the room behind the vDSO.
        if complaint.is_some() || victim.disturbed == 4 {
            targets += 1;
            victim = Victim::start(targets);
        }
    }
    println!(
        "hostile: {kills} kills of a tracer, {in_stop} in a stop, {in_call} in the middle of a call; {} of {targets} processes \
         ended by it, {left_open} files left open",
        harmed.len()
    );
    assert_eq!(harmed, [] as [String; 0]);
}

/// Stops a tracer in its stops, as a shell's user or `kill -STOP` does, and lets nobody continue it.
#[test]
fn who_stops_a_tracer_stops_no_process_for_long() {
    if leaf().is_none() {
        return;
    }
    let stops = from_environment("HUGETEXT_STOPS", 2);
    let mut victim = Victim::start(0);
    let mut in_stop = 0;
    for number in 0..10 * stops {
        let what: &[&str] = match number % 2 {
            0 => &[],
            _ => &["--revert"],
        };
        let mut tracer = victim.traced_by(what);
        let process = rustix::process::Pid::from_child(&tracer);
        let was_stopped = kill_process(process, Signal::STOP).is_ok() && victim.is_traced();
        let begun = Instant::now();
        while victim.is_traced() {
            if begun.elapsed() > Duration::from_secs(300) {
                let _ = tracer.kill();
                panic!("it stays stopped, and the process with it");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Outside of a stop it may stay stopped for as long as its user likes.
        let _ = kill_process(process, Signal::CONT);
        let said = tracer.wait_with_output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said);
        if said.contains("not permitted") {
            return println!("skipped: {said}");
        }
        assert_eq!(victim.complaint(), None, "{said}");
        in_stop += usize::from(was_stopped);
        if in_stop == stops {
            break;
        }
    }
    println!("hostile: {in_stop} tracers were stopped in a stop");
    assert!(in_stop > 0, "none was in a stop");
}
