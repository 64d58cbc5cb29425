//! The effect of `hugetext promote` on the example `busy` of hugetext-promote. In every thread, that
//! program sleeps, polls, forks, takes signals, executes all its text, and checks every answer.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hugetext_host::{Advice, Pid, advise_process};
use hugetext_lab_agent::{Attempt, PROGRAMS, Promoted, ROUNDS};
use hugetext_leaf::Span;
use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::process::{PidfdFlags, pidfd_open, setpriority_process};

const PROGRAM: &str = "busy";
const THREADS: &str = "6";
/// Bytes of text that the program executes in every round.
const TEXT: u64 = 8 << 20;
/// Number of rounds after which every thread is asked for errors: the answer takes seconds on an
/// emulated processor. An error in between is remembered.
const ASKED: u32 = 25;

/// Once by each backend.
pub(super) fn probe(directory: &Path) -> io::Result<Promoted> {
    let program = place(directory)?;
    let mut busy = Busy::start(&program)?;
    let collapse = promote(&busy, &["--backend", "collapse"])?;
    let well = busy.is_well();
    drop(busy);
    // Collapsed pages would stay huge and leave no work, so the program gets another inode.
    std::fs::remove_file(&program)?;
    let found = there_and_back(&place(directory)?, 1)?;
    Ok(Promoted {
        collapse: Some(collapse),
        wrong: well.err().map(|error| error.to_string()).or(found.wrong),
        ..found
    })
}

/// Many times by a copy, then many times in place.
pub(super) fn rounds(directory: &Path) -> io::Result<Promoted> {
    let program = place(directory)?;
    let found = there_and_back(&program, ROUNDS)?;
    std::fs::remove_file(&program)?;
    if found.wrong.is_some() {
        return Ok(found);
    }
    collapse_and_reclaim(&place(directory)?, ROUNDS, found)
}

/// Collapses the text of a program and has the kernel reclaim it, again and again. Its threads read
/// what was reclaimed again at once, in small folios. The kernel does not reclaim what a child of the
/// program maps at that moment; such a round does not count.
fn collapse_and_reclaim(program: &Path, rounds: u32, mut found: Promoted) -> io::Result<Promoted> {
    let mut busy = Busy::start(program)?;
    for tried in 0..2 * rounds {
        let before = huge_text(Pid::of_child(&busy.child))?;
        let collapse = promote(&busy, &["--backend", "collapse"])?;
        let is_done = collapse.exit == Some(0) && collapse.huge > before;
        found.collapse = Some(collapse);
        found.collapse_rounds += u32::from(is_done);
        if tried % ASKED == 0 {
            found.wrong = busy.is_well().err().map(|error| error.to_string());
        }
        if found.collapse_rounds == 0 || found.collapse_rounds == rounds || found.wrong.is_some() {
            break;
        }
        reclaim(Pid::of_child(&busy.child))?;
    }
    let end = busy.finish().err().map(|error| error.to_string());
    found.wrong = found.wrong.or(end);
    Ok(found)
}

/// Has the kernel reclaim the process's text.
fn reclaim(pid: Pid) -> io::Result<()> {
    let maps = Process::new(pid.as_raw()).and_then(|process| process.maps());
    let text: Vec<Span> = maps
        .map_err(io::Error::other)?
        .iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter(|map| matches!(map.pathname, MMapPath::Path(_)))
        .map(|map| Span::new(map.address.0, map.address.1))
        .collect();
    let pidfd = pidfd_open(pid.into(), PidfdFlags::empty())?;
    advise_process(pidfd, &text, Advice::PageOut).map(drop)
}

/// The program, laid out by `hugetext fix` so that its text can be collapsed, and dropped from the
/// page cache, because fix leaves it in huge folios.
fn place(directory: &Path) -> io::Result<PathBuf> {
    let program = directory.join(PROGRAM);
    let mut fix = hugetext("fix");
    fix.arg(Path::new(PROGRAMS).join(PROGRAM))
        .arg("-o")
        .arg(&program);
    let output = fix.output()?;
    if output.status.success() {
        super::files::drop_cache(&program).map(|()| program)
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).trim(),
        ))
    }
}

fn there_and_back(program: &Path, rounds: u32) -> io::Result<Promoted> {
    let mut busy = Busy::start(program)?;
    let mut found = Promoted {
        text: TEXT,
        collapse: None,
        remap: promote(&busy, &["--backend", "remap"])?,
        rounds: 0,
        collapse_rounds: 0,
        wrong: None,
    };
    while found.remap.exit == Some(0) && found.rounds < rounds {
        if found.rounds > 0 {
            found.remap = promote(&busy, &["--backend", "remap"])?;
        }
        let well = match found.rounds % ASKED {
            0 => busy.is_well(),
            _ => Ok(()),
        };
        let back = promote(&busy, &["--revert"])?;
        let wrong = match well {
            Err(error) => Some(error.to_string()),
            Ok(()) if back.exit != Some(0) => Some(back.said),
            Ok(()) if back.huge > 0 => Some(format!("{} bytes were not mapped back", back.huge)),
            Ok(()) => None,
        };
        if wrong.is_some() {
            found.wrong = wrong;
            return Ok(found);
        }
        found.rounds += 1;
    }
    let end = busy.finish().err().map(|error| error.to_string());
    // What worked once must work again.
    let refused = found.rounds > 0 && found.remap.exit != Some(0);
    found.wrong = end.or_else(|| refused.then(|| found.remap.said.clone()));
    Ok(found)
}

fn hugetext(subcommand: &str) -> Command {
    let mut command = Command::new(Path::new(PROGRAMS).join("hugetext"));
    command.arg(subcommand);
    command
}

fn promote(busy: &Busy, arguments: &[&str]) -> io::Result<Attempt> {
    let pid = Pid::of_child(&busy.child);
    let mut command = hugetext("promote");
    command.args(arguments).arg(pid.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn()?;
    // It needs priority over the busy threads: it would get a seventh of one emulated processor.
    setpriority_process(Some(Pid::of_child(&running).into()), -20)?;
    let output = running.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok(Attempt {
        exit: output.status.code(),
        huge: huge_text(pid)?,
        said: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}

/// Bytes of the process's executable mappings that PMD leaves map, of any origin.
fn huge_text(pid: Pid) -> io::Result<u64> {
    let maps = Process::new(pid.as_raw()).and_then(|process| process.smaps());
    let maps = maps.map_err(io::Error::other)?;
    let fields = ["FilePmdMapped", "ShmemPmdMapped", "AnonHugePages"];
    let bytes = maps
        .iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .flat_map(|map| fields.map(|field| map.extension.map.get(field).copied().unwrap_or(0)));
    Ok(bytes.sum())
}

/// The running program, killed when this value is dropped.
struct Busy {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Busy {
    fn start(program: &Path) -> io::Result<Busy> {
        let mut command = Command::new(program);
        command
            .arg(THREADS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or(io::ErrorKind::BrokenPipe)?);
        let mut busy = Busy {
            child,
            input,
            output,
        };
        busy.expect("ready ")?;
        Ok(busy)
    }

    fn expect(&mut self, word: &str) -> io::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.starts_with(word) {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "the program printed '{}'",
                line.trim()
            )))
        }
    }

    /// Checks that every thread has done its rounds since, and found no error.
    fn is_well(&mut self) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            input.write_all(b"\n")?;
        }
        self.expect("ok ")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.input = None;
        self.expect("done ")?;
        if self.child.wait()?.success() {
            Ok(())
        } else {
            Err(io::Error::other("the program ended with an error"))
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
