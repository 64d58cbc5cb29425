//! The processor time of what runs, sampled so rarely that looking costs nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use hugetext_host::{
    ListBudget, MappedText, Pid, ProcessError, listing_time, mapped_text_within, pids,
};

/// Looking may take this share of one processor.
const SHARE: f64 = 0.000_3;
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(5);
/// The longest.
const LONGEST: Duration = Duration::from_secs(120);
/// A process that took less since the last look is left alone.
const LEAST: Duration = Duration::from_millis(100);
/// The mappings of a process are read again after this long: it may have opened more libraries.
const STALE: Duration = Duration::from_secs(300);
/// The most processes that are looked at.
const MOST: usize = 65_536;

/// Processor time that a process spent since the last look, by the text that it maps.
#[derive(Debug)]
pub struct Spent {
    /// The process.
    pub pid: Pid,
    /// Its text, each with its share of the time in seconds: time is divided by bytes of text, since
    /// where in its text a process is, is not known.
    pub text: Vec<(MappedText, f64)>,
}

#[derive(Debug)]
struct SampledProcess {
    ticks: ProcessTicks,
    text: Option<(Instant, Vec<MappedText>)>,
}

/// Samples all processes.
#[derive(Debug)]
pub struct Sampler {
    processes: HashMap<Pid, SampledProcess>,
    next: Instant,
    ticks_per_second: f64,
    given_up: u64,
}

impl Sampler {
    /// A sampler that has looked at nothing yet.
    pub fn new() -> Sampler {
        Sampler {
            processes: HashMap::new(),
            next: Instant::now(),
            ticks_per_second: ticks_per_second(),
            given_up: 0,
        }
    }

    /// Processes whose mappings could not be listed in time since the last call of this function.
    pub fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    /// Who spent time since the last look; nothing before the next one is due.
    pub fn look(&mut self) -> io::Result<Vec<Spent>> {
        let start = Instant::now();
        if start < self.next {
            return Ok(Vec::new());
        }
        let before_looking = own_time();
        let mut budget = ListBudget::new(ListBudget::MAPS);
        let mut before = std::mem::take(&mut self.processes);
        let mut all = Vec::new();
        for pid in pids().map_err(io::Error::other)?.into_iter().take(MOST) {
            let Some(ticks) = ProcessTicks::of(pid) else {
                continue;
            };
            let known = before.remove(&pid);
            let known = known.filter(|process| process.ticks.started == ticks.started);
            let spent = known.as_ref().map_or(0, |known| ticks.since(known.ticks));
            let text = known.and_then(|known| known.text);
            let mut process = SampledProcess { ticks, text };
            let seconds = spent as f64 / self.ticks_per_second;
            if seconds >= LEAST.as_secs_f64() {
                if process.refresh(pid, start, &mut budget).is_err() {
                    self.given_up = self.given_up.saturating_add(1);
                }
                let text = process.text();
                all.extend((!text.is_empty()).then(|| Spent {
                    pid,
                    text: divided(text, seconds),
                }));
            }
            self.processes.insert(pid, process);
        }
        let taken = own_time().saturating_sub(before_looking);
        let pause = taken.div_f64(SHARE).clamp(SHORTEST, LONGEST);
        self.next = Instant::now() + pause;
        Ok(all)
    }
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new()
    }
}

impl SampledProcess {
    /// Reads its text, if that was not read a short time ago. After an error, its mappings are not listed in time, and
    /// its text stays as it was.
    fn refresh(
        &mut self,
        pid: Pid,
        now: Instant,
        budget: &mut ListBudget,
    ) -> Result<(), ProcessError> {
        let fresh = |(read, _): &(Instant, _)| now.saturating_duration_since(*read) < STALE;
        if !self.text.as_ref().is_some_and(fresh) {
            let text = match mapped_text_within(pid, budget) {
                Err(error @ (ProcessError::Unresponsive | ProcessError::TooMuch)) => {
                    return Err(error);
                }
                text => text.unwrap_or_default(),
            };
            self.text = Some((now, text));
        }
        Ok(())
    }

    fn text(&self) -> &[MappedText] {
        self.text.as_ref().map_or(&[], |(_, text)| text)
    }
}

/// Ticks per second of [`ProcessTicks`].
pub fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second().max(1) as f64
}

/// Processor time of this thread, and of those that list mappings: what looking costs, however busy the machine is.
pub(crate) fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let own = Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0));
    own.saturating_add(listing_time())
}

/// `seconds` among files by their bytes.
fn divided(text: &[MappedText], seconds: f64) -> Vec<(MappedText, f64)> {
    let all: u64 = text.iter().map(|file| file.bytes).sum();
    let share = |file: &MappedText| seconds * file.bytes as f64 / all.max(1) as f64;
    text.iter()
        .map(|file| (file.clone(), share(file)))
        .collect()
}

/// Start and processor time of a process in ticks (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTicks {
    /// When it started. A number that is used again has another start.
    pub started: u64,
    /// Its processor time.
    pub spent: u64,
}

impl ProcessTicks {
    /// `None` if the process has ended, or has no memory of its own, as threads of the kernel.
    pub fn of(pid: Pid) -> Option<ProcessTicks> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold any byte.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = String::from_utf8_lossy(stat.get(end.checked_add(1)?..)?);
        let field = |number: usize| rest.split_whitespace().nth(number.checked_sub(3)?);
        let number = |at| field(at)?.parse::<u64>().ok();
        (number(23)? > 0).then_some(ProcessTicks {
            started: number(22)?,
            spent: number(14)?.saturating_add(number(15)?),
        })
    }

    /// Processor time since an earlier look at the same process.
    pub fn since(self, earlier: ProcessTicks) -> u64 {
        self.spent.saturating_sub(earlier.spent)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hugetext_leaf::FileId;

    use super::*;

    #[test]
    fn this_process_has_a_start_and_a_thread_of_the_kernel_has_none() {
        assert!(ProcessTicks::of(Pid::own()).is_some());
        // The limit itself is never given.
        assert_eq!(ProcessTicks::of(Pid::from_raw(1 << 22).unwrap()), None);
        if fs::read_link("/proc/2/exe").is_err() {
            assert_eq!(ProcessTicks::of(Pid::from_raw(2).unwrap()), None);
        }
    }

    #[test]
    fn time_is_divided_by_text() {
        let file = |bytes| MappedText {
            path: PathBuf::from("/x"),
            file: FileId { dev: 1, ino: bytes },
            bytes,
        };
        let divided = divided(&[file(300), file(100)], 4.0);
        let seconds: Vec<f64> = divided.iter().map(|(_, seconds)| *seconds).collect();
        assert_eq!(seconds, [3.0, 1.0]);
    }
}
