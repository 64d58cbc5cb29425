//! Compares the sources of starts: `sources RATE SECONDS` starts a short program RATE times a second,
//! once for each source, and prints a row of a table for each: how many of the starts it saw, what was
//! lost, and what seeing them cost. `sources start RATE SECONDS PROGRAM…` starts these programs in turn, and prints
//! how often it did.

use std::env;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hugetext_auto::sight::{Sight, SourceName};
use hugetext_host::Sideband;

/// The program. It ends at once, so a later look finds nothing.
const PROGRAM: &str = "/bin/true";
/// Processes that start it, each a share of the rate.
const STARTERS: u32 = 8;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == "start" {
        let rate = number(arguments.next())?;
        let seconds = number(arguments.next())?;
        let programs: Vec<String> = arguments.collect();
        return start(rate, seconds, &programs);
    }
    let rate: u32 = number(Some(first))?;
    let seconds: u32 = number(arguments.next())?;
    for name in [SourceName::Records, SourceName::Reports, SourceName::Scan] {
        match compare(name, rate, seconds) {
            Ok(row) => println!("{row}"),
            Err(error) => println!("| {name:?} | skipped: {error} | | | |"),
        }
    }
    Ok(())
}

fn number(argument: Option<String>) -> io::Result<u32> {
    let number = argument.and_then(|argument| argument.parse().ok());
    number.ok_or_else(|| io::Error::other("usage: sources RATE SECONDS"))
}

/// Starts the programs in turn, or else the one program, `rate` times a second, and prints how often it did.
fn start(rate: u32, seconds: u32, programs: &[String]) -> io::Result<()> {
    let begun = Instant::now();
    let mut started = 0;
    let mut programs = programs.iter().map(String::as_str).cycle();
    while begun.elapsed() < Duration::from_secs(seconds.into()) {
        let due = begun.elapsed().as_secs_f64() * f64::from(rate);
        if f64::from(started) >= due {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        let program = programs.next().unwrap_or(PROGRAM);
        // Shells end at once.
        Command::new(program).stdin(Stdio::null()).status()?;
        started += 1;
    }
    println!("{started}");
    Ok(())
}

fn compare(name: SourceName, rate: u32, seconds: u32) -> io::Result<String> {
    let own = fs::metadata(PROGRAM)?;
    let program = hugetext_leaf::FileId::of(&own);
    // Nothing comes from the other end, so the wait ends when a source has something to tell.
    let (never, _open) = UnixStream::pair()?;
    let mut sight = Sight::of(name)?;
    let mut starters: Vec<Child> = Vec::new();
    for _ in 0..STARTERS {
        let share = (rate / STARTERS).to_string();
        let mut command = Command::new(env::current_exe()?);
        command.args(["start", &share, &seconds.to_string()]);
        starters.push(command.stdout(Stdio::piped()).spawn()?);
    }
    // What starting the starters takes is not counted.
    let (before, begun) = (processor_time(), Instant::now());
    let (mut seen, mut lost) = (0u64, 0u64);
    let mut pause = Duration::ZERO;
    loop {
        let over = starters
            .iter_mut()
            .all(|starter| matches!(starter.try_wait(), Ok(Some(_))));
        sight.wait(pause, &never, |told| match told {
            Sideband::Text { file, .. } if file.id == program => seen += 1,
            Sideband::Lost(records) => lost += records,
            _ => {}
        })?;
        if over {
            break;
        }
        pause = Duration::from_millis(250);
    }
    let cost = (processor_time() - before) / begun.elapsed().as_secs_f64();
    let mut started = 0u64;
    for starter in starters {
        let output = starter.wait_with_output()?;
        let number = String::from_utf8_lossy(&output.stdout);
        started += number.trim().parse::<u64>().unwrap_or(0);
    }
    let share = 100.0 * seen as f64 / started.max(1) as f64;
    let actual = started / u64::from(seconds.max(1));
    Ok(format!(
        "| {name:?} | {actual} | {share:.1} % | {lost} | {:.2} % |",
        100.0 * cost
    ))
}

/// Processor time of this process in seconds, without that of its children.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
