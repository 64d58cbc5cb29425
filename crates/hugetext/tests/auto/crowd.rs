//! Sleeping processes of a user with very many mappings each.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use hugetext_host::{ListBudget, Pid};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::place::{Daemon, Place, Working, can_hold, hugetext};
use crate::small_folios::make_small;

/// As many as the kernel permits by default, but for some.
const MAPPINGS: u32 = 64_000;
const PROCESSES: usize = 10;
/// Who owns them.
const NOBODY: u32 = 65534;
/// What else than lists of mappings a command reads from files, in bytes.
const OTHER: u64 = 32 << 20;

/// Processes that sleep until this value is dropped.
struct Crowd(Vec<Child>);

impl Crowd {
    fn gather(place: &Place) -> Crowd {
        // Each mapping shows the same page of the file, so the kernel joins no two of them.
        let source = format!(
            "#include <stdio.h>\n#include <fcntl.h>\n#include <unistd.h>\n#include <sys/mman.h>\n\
             int main(int count, char **words) {{\n\
                 int file = open(words[0], O_RDONLY);\n\
                 for (int at = 0; at < {MAPPINGS}; at++)\n\
                     if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) break;\n\
                 puts(\"ready\"); fflush(stdout);\n\
                 for (;;) pause();\n\
             }}\n"
        );
        fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let (program, text) = (place.path("sleeper"), place.path("sleeper.c"));
        fs::write(&text, source).unwrap();
        let words = [text.as_path(), Path::new("-o"), &program];
        let compiled = Command::new("cc").args(words).status();
        assert!(compiled.unwrap().success());
        let sleep = |_| {
            let mut command = Command::new(&program);
            command.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            child
        };
        Crowd((0..PROCESSES).map(sleep).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a process has done.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// Bytes that it has read.
    read: u64,
    /// Processor time, in milliseconds.
    busy: u64,
}

impl Work {
    fn of(pid: Pid) -> Work {
        let of = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        let read = of("io")
            .lines()
            .find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
        // utime and stime, in ticks of 10 ms.
        let stat = of("stat");
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap());
        Work {
            read: read.unwrap(),
            busy: 10 * ticks.sum::<u64>(),
        }
    }

    /// Of a command from its start to its end.
    fn to_end(mut command: Command) -> Work {
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = Pid::of_child(&child);
        // It is not reaped before it has been asked.
        waitid(
            WaitId::Pid(pid.into()),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        let work = Work::of(pid);
        child.wait().unwrap();
        work
    }

    /// Of the daemon while it fills some new programs.
    fn of_fills(place: &Place, daemon: &Daemon, names: &str) -> Option<(Work, u128)> {
        let (before, begun) = (Work::of(Pid::of_child(&daemon.child)), Instant::now());
        for number in 0..8 {
            let copy = place.copy_program(&format!("{names}{number}"));
            place.run_other_until(daemon, &copy, "held")?;
            fs::remove_file(copy).unwrap();
        }
        let after = Work::of(Pid::of_child(&daemon.child));
        let work = Work {
            read: after.read - before.read,
            busy: after.busy - before.busy,
        };
        Some((work, begun.elapsed().as_millis()))
    }
}

/// A command that asks who uses files, made anew each time.
type Asks<'p> = (&'p str, Box<dyn Fn() -> Command + 'p>);

fn commands(place: &Place) -> Vec<Asks<'_>> {
    let warm = || {
        let mut command = hugetext();
        command.arg("warm").arg(place.path("program"));
        command
    };
    let run = || {
        let _ = fs::remove_dir_all(place.path("store"));
        let mut command = hugetext();
        command.args(["run", "--store"]).arg(place.path("store"));
        command.arg("--").arg(place.path("program"));
        command
    };
    let top = || {
        let mut command = hugetext();
        command
            .args(["auto", "top", "--once", "--run-dir"])
            .arg(place.path("run"));
        command
    };
    vec![
        ("warm", Box::new(warm)),
        ("a first run", Box::new(run)),
        ("auto top --once", Box::new(top)),
    ]
}

#[test]
fn who_sleeps_with_very_many_mappings_costs_others_little() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    // Text that is in use is not dropped, and `warm` says by whom.
    make_small(&place.path("program"));
    let _working = Working(
        Command::new(place.path("program"))
            .arg("on")
            .spawn()
            .unwrap(),
    );
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    let alone: Vec<Work> = commands(&place)
        .iter()
        .map(|(_, make)| Work::to_end(make()))
        .collect();
    // Fills take minutes, and make test-hostile asks for them.
    let is_whole = std::env::var_os("HUGETEXT_HOSTILE").is_some();
    let of_fills = |names| {
        is_whole
            .then(|| Work::of_fills(&place, &daemon, names))
            .flatten()
    };
    let fills_alone = of_fills("alone");
    let _crowd = Crowd::gather(&place);
    let (_, per_user) = ListBudget::MAPS;
    let (_, per_user_smaps) = ListBudget::SMAPS;
    for ((name, make), alone) in commands(&place).iter().zip(alone) {
        let beside = Work::to_end(make());
        println!(
            "hostile: {PROCESSES} processes with {MAPPINGS} mappings each: {name} reads {} MiB and works {} ms; without them {} MiB, \
             {} ms",
            beside.read >> 20,
            beside.busy,
            alone.read >> 20,
            alone.busy
        );
        // Two looks of each kind.
        let most = alone.read + 2 * (per_user + per_user_smaps) + OTHER;
        assert!(beside.read <= most, "{name}: {beside:?}, {alone:?}");
    }
    let (Some((alone, ms_alone)), Some((beside, ms))) = (fills_alone, of_fills("beside")) else {
        return;
    };
    println!(
        "hostile: beside them the daemon reads {} MiB and works {} ms of {ms} while it fills 8 programs; without them {} MiB, {} of \
         {ms_alone} ms",
        beside.read >> 20,
        beside.busy,
        alone.read >> 20,
        alone.busy
    );
    daemon.end();
}
