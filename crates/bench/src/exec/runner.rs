//! Runs every side in rounds and collects the results.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use hugetext_engine::plain;
use hugetext_host::{
    Deadline, FaultCounts, FaultTrace, Instance, MemoryKinds, TextMapping, Usage, file_mappings,
    run_measured, text_mappings,
};

use super::rival::RivalChange;
use super::sides::{Version, Versions};
use crate::comparison::{Comparison, Measure, Side, Unit};
use crate::error::BenchError;
use crate::error::BenchStop;
use crate::interrupt::Interrupt;
use crate::observer::Observer;
use crate::quantity::count;
use crate::rounds::{PerRound, Rounds};
use crate::stats::median;
use crate::text_cache::{Lost, STOP_IT};

/// How many rounds may be discarded for each round that counts.
const SPARE_ROUNDS: u32 = 3;

/// A run of this length does not show how warm the processor's caches were at its start.
const LONG_RUN: Duration = Duration::from_millis(100);

/// The runs of one side in a round.
#[derive(Debug, Clone, Copy)]
struct SideRuns {
    first: FirstRun,
    counted: u32,
}

/// The settings of a run.
pub(crate) struct Runner<'r> {
    pub(crate) title: &'r str,
    pub(crate) command: &'r [OsString],
    /// Runs of each side in a round.
    pub(crate) per_round: PerRound,
    /// Time limit of a run, after which it is killed.
    pub(crate) limit: Duration,
    pub(crate) interrupt: &'r Interrupt,
}

impl Runner<'_> {
    /// Leaves out every rival whose run fails, with the reason.
    pub(crate) fn drop_failing_rivals(&self, versions: &mut Versions<'_>) -> Result<(), BenchStop> {
        let mut failing = Vec::new();
        for (index, side) in versions.sides.iter().enumerate() {
            if side.change.is_none() {
                continue;
            }
            let shown = versions.show(side)?;
            if let Err(error) = self.once(side) {
                self.interrupt.check()?;
                failing.push((index, error));
            }
            drop(shown);
        }
        for (index, error) in failing.into_iter().rev() {
            let side = versions.sides.remove(index);
            versions
                .notes
                .push(format!("{} left out: {error}", side.name()));
        }
        Ok(())
    }

    /// Measures every side in every round.
    pub(crate) fn measure(
        &self,
        rounds: Rounds,
        versions: &Versions<'_>,
        observer: &dyn Observer,
    ) -> Result<Comparison, BenchStop> {
        let wall = self.trial()?.wall;
        let first = if wall < LONG_RUN {
            FirstRun::Discarded
        } else {
            FirstRun::Counted
        };
        let runs = SideRuns {
            first,
            counted: self.per_round.of(wall, versions.sides.len()),
        };
        let sides = versions.sides.iter();
        let mut outcome = ExecRounds {
            sides: sides
                .map(|side| (side.describe(None), Vec::new()))
                .collect(),
            discarded: Discarded::default(),
        };
        for order in rounds.orders(versions.sides.len()) {
            while let Some(lost) = self.round(&order, versions, runs, &mut outcome)? {
                outcome.discarded.count(lost);
                if outcome.discarded.rounds() > SPARE_ROUNDS * rounds.count {
                    return Err(BenchStop::No(outcome.discarded.too_often(self.title)));
                }
            }
            observer.step();
        }
        let title = format!(
            "{}, {} of {} a side",
            self.title,
            count(rounds.count, "round"),
            count(runs.counted, "run")
        );
        Ok(outcome.comparison(title, versions.notes.clone()))
    }

    /// One round. It counts if every side's page cache kept its state; otherwise returns how one lost it.
    fn round(
        &self,
        order: &[usize],
        versions: &Versions<'_>,
        runs: SideRuns,
        outcome: &mut ExecRounds,
    ) -> Result<Option<Lost>, BenchStop> {
        let mut blocks = Vec::new();
        for index in order {
            let Some(version) = versions.sides.get(*index) else {
                continue;
            };
            let facts = match outcome.sides.get(*index) {
                Some((_, known)) if known.is_empty() => Facts::Wanted,
                _ => Facts::Known,
            };
            match self.side(version, versions, runs, facts)? {
                Ok(block) => blocks.push((*index, block)),
                Err(lost) => return Ok(Some(lost)),
            }
        }
        for (index, (side, block)) in blocks {
            if let Some(known) = outcome.sides.get_mut(index) {
                known.0 = side;
                known.1.push(block);
            }
        }
        Ok(None)
    }

    /// One side of one round, or how its page cache lost its state.
    fn side(
        &self,
        version: &Version<'_>,
        versions: &Versions<'_>,
        runs: SideRuns,
        facts: Facts,
    ) -> Result<Result<(Side, Block), Lost>, BenchStop> {
        let shown = versions.show(version)?;
        if runs.first == FirstRun::Discarded || version.is_as_found() {
            self.once(version)?;
        }
        let usages: Vec<Usage> = (0..runs.counted)
            .map(|_| self.once(version))
            .collect::<Result<_, _>>()?;
        // What a process maps is the same in every round.
        let end = if facts == Facts::Wanted {
            self.look(version)?
        } else {
            None
        };
        let block = Block::of(&usages, end);
        let side = version.describe(shown.describe().as_deref());
        Ok(match shown.lost()? {
            None => Ok((side, block)),
            Some(lost) => Err(lost),
        })
    }

    /// The command, with what a rival changes of it.
    fn command(&self, change: Option<&RivalChange>) -> Command {
        let words = match change {
            Some(change) => change.words(self.command),
            None => self.command.to_vec(),
        };
        let (name, arguments) = match words.split_first() {
            Some((name, arguments)) => (name.as_os_str(), arguments),
            None => ("".as_ref(), &[][..]),
        };
        let mut command = Command::new(name);
        command
            .arg0(name)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(change) = change {
            change.apply(&mut command);
        }
        command
    }

    /// The first run. Its error messages reach the user: a command that fails is not measured.
    fn trial(&self) -> Result<Usage, BenchError> {
        let mut command = self.command(None);
        command.stderr(Stdio::inherit());
        self.finished(run_measured(&mut command, self.limit))
    }

    fn once(&self, version: &Version<'_>) -> Result<Usage, BenchError> {
        let mut command = self.command(version.change.as_ref());
        self.finished(run_measured(&mut command, self.limit))
    }

    fn finished(&self, run: io::Result<(Usage, ExitStatus)>) -> Result<Usage, BenchError> {
        // Ctrl-C ends the command too.
        self.interrupt.check()?;
        match run {
            Ok((usage, status)) if status.success() => Ok(usage),
            Ok((_, status)) => Err(BenchError::new(
                self.title,
                format_args!("failed: {}", ended(status)),
            )
            .remedy("measure a command that succeeds")),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(BenchError::new(
                self.title,
                format_args!("still running after {} s", self.limit.as_secs()),
            )
            .remedy("raise --timeout")),
            Err(error) => Err(BenchError::new(self.title, plain(&error))),
        }
    }

    /// A separate run under ptrace; `None` if ptrace is not permitted.
    fn look(&self, version: &Version<'_>) -> Result<Option<End>, BenchError> {
        let mut command = self.command(version.change.as_ref());
        let Ok(instance) = Instance::start(&mut command) else {
            return Ok(None);
        };
        let failed = |error| BenchError::new(self.title, plain(&error));
        let deadline = Deadline::new(instance.pid(), self.limit).map_err(failed)?;
        let faults = FaultTrace::of(instance.pid()).ok();
        let seen = instance.at_exit_with_mmaps(|pid| {
            let text = text_mappings(pid).ok()?;
            let sum = |bytes: fn(&TextMapping) -> u64| text.iter().map(bytes).sum::<u64>() as f64;
            let own = sum(|mapping| mapping.anonymous);
            let mappings = file_mappings(pid).ok()? as f64;
            let huge = sum(|mapping| mapping.pmd_mapped);
            Some((huge, own, mappings, MemoryKinds::of(pid).ok()?))
        });
        deadline.missed();
        let end = seen.map_err(failed)?.0.and_then(|(seen, mmaps)| {
            let (huge, own, mappings, kinds) = seen?;
            let faults = faults.and_then(FaultTrace::addresses);
            Some(End {
                faults: faults.map(|faults| kinds.count(&faults)),
                huge,
                own,
                mappings,
                mmaps: mmaps as f64,
            })
        });
        Ok(end)
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// What becomes of the first run after the page cache was brought into a side's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstRun {
    Counted,
    Discarded,
}

/// Whether a side's mappings are still unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Facts {
    Wanted,
    Known,
}

/// A process about to exit.
struct End {
    /// Bytes of text on PMD leaves.
    huge: f64,
    /// Bytes of text in anonymous memory, which no other process shares.
    own: f64,
    /// Mappings of files.
    mappings: f64,
    /// Page faults; `None` if they could not be counted.
    faults: Option<FaultCounts>,
    /// Calls of mmap(2) for files. Mappings that execve(2) makes are not counted.
    mmaps: f64,
}

/// The results of one side in one round: medians of wall time and faults, and means of processor
/// times, which the kernel counts in ticks.
struct Block {
    wall: f64,
    /// The shortest wall time, which other work on the machine disturbs least.
    best: f64,
    user: f64,
    system: f64,
    faults: f64,
    end: Option<End>,
}

impl Block {
    fn of(usages: &[Usage], end: Option<End>) -> Block {
        let middle = |value: fn(&Usage) -> f64| median(usages.iter().map(value).collect());
        let mean = |value: fn(&Usage) -> f64| {
            usages.iter().map(value).sum::<f64>() / usages.len().max(1) as f64
        };
        let walls = usages.iter().map(|usage| usage.wall.as_secs_f64());
        Block {
            wall: middle(|usage| usage.wall.as_secs_f64()),
            best: walls.fold(f64::INFINITY, f64::min),
            user: mean(|usage| usage.user.as_secs_f64()),
            system: mean(|usage| usage.system.as_secs_f64()),
            faults: middle(|usage| usage.minor_faults as f64),
            end,
        }
    }
}

/// The results of every side, round by round.
struct ExecRounds {
    sides: Vec<(Side, Vec<Block>)>,
    discarded: Discarded,
}

/// Rounds that do not count, by how a side lost its state.
#[derive(Debug, Default)]
struct Discarded {
    warmed: u32,
    dropped: u32,
}

impl Discarded {
    fn count(&mut self, lost: Lost) {
        match lost {
            Lost::Warmed => self.warmed += 1,
            Lost::Dropped => self.dropped += 1,
        }
    }

    fn rounds(&self) -> u32 {
        self.warmed.saturating_add(self.dropped)
    }

    /// Why there are too many of them.
    fn too_often(&self, title: &str) -> BenchError {
        if self.warmed > self.dropped {
            BenchError::new(title, "something else makes its text huge meanwhile").remedy(STOP_IT)
        } else {
            BenchError::new(title, "the page cache lost its state too often")
                .remedy("raise RLIMIT_MEMLOCK, or run as root")
        }
    }

    /// What the reader of the results must know.
    fn notes(&self) -> impl Iterator<Item = String> {
        let each = [
            (self.warmed, "something else made its text huge"),
            (self.dropped, "the page cache lost its state"),
        ];
        let some = each.into_iter().filter(|(rounds, _)| *rounds > 0);
        some.map(|(rounds, why)| {
            format!("rounds discarded because {why}: {}", count(rounds, "round"))
        })
    }
}

impl ExecRounds {
    fn comparison(self, title: String, mut notes: Vec<String>) -> Comparison {
        let measure = |name, unit, value: fn(&Block) -> Option<f64>| {
            let sides = self.sides.iter();
            let values = sides.map(|(_, blocks)| blocks.iter().filter_map(value).collect());
            Measure::new(name, unit, values.collect())
        };
        let measures = [
            measure("wall", Unit::Seconds, |block| Some(block.wall)),
            measure("wall, shortest", Unit::Seconds, |block| Some(block.best)),
            measure("processor", Unit::Seconds, |block| {
                Some(block.user + block.system)
            }),
            measure("user", Unit::Seconds, |block| Some(block.user)),
            measure("system", Unit::Seconds, |block| Some(block.system)),
            measure("minor faults", Unit::Count, |block| Some(block.faults)),
            measure("faults on text", Unit::Count, |block| {
                Some(block.end.as_ref()?.faults?.text as f64)
            }),
            measure("faults on read-only data", Unit::Count, |block| {
                Some(block.end.as_ref()?.faults?.read_only as f64)
            }),
            measure("faults on data and relocations", Unit::Count, |block| {
                Some(block.end.as_ref()?.faults?.written as f64)
            }),
            measure("faults on other memory", Unit::Count, |block| {
                Some(block.end.as_ref()?.faults?.other as f64)
            }),
            measure("text on huge pages", Unit::Bytes, |block| {
                Some(block.end.as_ref()?.huge)
            }),
            measure("text in memory of its own", Unit::Bytes, |block| {
                Some(block.end.as_ref()?.own)
            }),
            measure("file mappings at exit", Unit::Count, |block| {
                Some(block.end.as_ref()?.mappings)
            }),
            measure("mmap calls for files", Unit::Count, |block| {
                Some(block.end.as_ref()?.mmaps)
            }),
        ];
        notes.extend(self.discarded.notes());
        Comparison {
            benchmark: "exec".to_owned(),
            title,
            measures: measures.into_iter().flatten().collect(),
            sides: self.sides.into_iter().map(|(side, _)| side).collect(),
            notes,
            measured: None,
        }
    }
}
