//! `hugetext bench exec`: fork, exec and exit of a command, with the program's text in small folios
//! and in huge ones.
//!
//! Both sides run the same file. In each round its page cache is brought into the side's state,
//! held there, and checked before and after the runs; a round that did not keep it is thrown away.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use hugetext_elf::Image;
use hugetext_host::{
    Deadline, Instance, ReplaceError, Replacement, Usage, file_mappings, holders, run_measured,
    text_mappings,
};
use indicatif::ProgressBar;

use super::Stop;
use super::comparison::{Comparison, Measure, Side, Unit};
use super::rounds::Rounds;
use super::stats::median;
use super::text_cache::{Held, State, Text};
use crate::failure::Failure;
use crate::output::Output;
use crate::program::Program;
use crate::warm::Ground;

/// Rounds that may be thrown away, for each that counts.
const SPARE_ROUNDS: u32 = 3;

/// Start a command again and again, its text in small folios and in huge ones
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rounds: Rounds,
    /// Runs of each side in a round; many, because kernels tell user from system time by samples
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_round: u32,
    /// The program whose text to warm, if it is not the command's own
    #[arg(long, value_name = "PATH", requires = "command")]
    program: Option<PathBuf>,
    /// Measure a temporary copy beside the program, because others run the program itself
    #[arg(long)]
    copy: bool,
    /// Kill a run that takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The command [default: an empty compile by cc1, and /bin/true]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Arguments {
    /// What is measured when nothing is said.
    pub(super) fn usual(quick: bool) -> Arguments {
        Arguments {
            rounds: Rounds::usual(quick),
            per_round: if quick { 2 } else { 15 },
            program: None,
            copy: false,
            timeout: 60,
            command: Vec::new(),
        }
    }
}

/// Answers `hugetext bench exec`.
pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<Vec<Comparison>, Stop> {
    let ground = Ground::this()?;
    let mut jobs = Vec::new();
    match arguments.command.split_first() {
        Some((name, rest)) => jobs.push(Job::named(name.clone(), rest, arguments)?),
        None => {
            match compiler() {
                Some(program) => jobs.push(Job::compile(program)),
                None => output.warn("no C compiler here, so no empty compile; install gcc"),
            }
            jobs.push(Job::tiny());
        }
    }
    let explicit = !arguments.command.is_empty();
    jobs.iter()
        .map(|job| job.measure(arguments, explicit, &ground, output))
        .collect()
}

/// A command and the program it runs.
struct Job {
    title: String,
    program: PathBuf,
    command: Vec<OsString>,
}

impl Job {
    fn named(name: OsString, rest: &[OsString], arguments: &Arguments) -> Result<Job, Failure> {
        let path =
            which::which(&name).map_err(|error| Failure::new(name.to_string_lossy(), error))?;
        let mut command = vec![name];
        command.extend_from_slice(rest);
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Job {
            title: words.join(" "),
            program: arguments.program.clone().unwrap_or(path),
            command,
        })
    }

    fn compile(program: PathBuf) -> Job {
        let arguments = ["-quiet", "-o", "/dev/null", "/dev/null"];
        let arguments = arguments.map(OsString::from);
        Job {
            title: format!("an empty compile by {}", program.display()),
            command: std::iter::once(program.clone().into_os_string())
                .chain(arguments)
                .collect(),
            program,
        }
    }

    fn tiny() -> Job {
        let program = PathBuf::from("/bin/true");
        Job {
            title: "/bin/true, a tiny dynamic program".to_owned(),
            command: vec![program.clone().into_os_string()],
            program,
        }
    }

    /// Measures the command. Where its program has no window it is measured as it is; if the user
    /// named it, that is no answer.
    fn measure(
        &self,
        arguments: &Arguments,
        explicit: bool,
        ground: &Ground,
        output: &Output,
    ) -> Result<Comparison, Stop> {
        let program = Program::open(&self.program)?;
        // What others run cannot be taken out of the page cache.
        let in_use = || holders(&program.file).is_ok_and(|holders| !holders.is_empty());
        let copied = arguments.copy || (!explicit && in_use());
        let program = match copied {
            true => unnamed_copy(&program)?,
            false => program,
        };
        let executable = copied.then(|| format!("/proc/self/fd/{}", program.file.as_raw_fd()));
        let text = Text::of(program, ground)?;
        let states: &[Option<State>] = match text.count() {
            0 if explicit => {
                let none = Failure::at(&self.program, "its text has no window that can be huge");
                return Err(Stop::No(none.remedy("hugetext check tells why")));
            }
            0 => &[None],
            _ => &[Some(State::Small), Some(State::Huge)],
        };
        let runner = Runner {
            job: self,
            executable: executable.map(PathBuf::from),
            per_round: arguments.per_round,
            limit: Duration::from_secs(arguments.timeout),
        };
        runner.trial()?;
        let bar = output.progress("rounds", u64::from(arguments.rounds.rounds));
        let outcome = runner.rounds(arguments.rounds, states, &text, ground, &bar);
        bar.finish_and_clear();
        let mut comparison = outcome?.comparison(self, arguments);
        if copied {
            let note = "measured on a copy without a name, because others run the program itself";
            comparison.notes.push(note.to_owned());
        }
        Ok(comparison)
    }
}

/// What one side did in one round: medians of wall time and faults; means of processor times, which
/// the kernel counts in ticks.
struct Block {
    wall: f64,
    /// The shortest, which work of others on the machine disturbs least.
    best: f64,
    user: f64,
    system: f64,
    faults: f64,
    /// Bytes of text on PMD leaves, and mappings of files, of a process about to exit.
    end: Option<(f64, f64)>,
}

/// The rounds of every side.
struct Outcome {
    sides: Vec<(Side, Vec<Block>)>,
    thrown_away: u32,
}

struct Runner<'j> {
    job: &'j Job,
    /// Run instead of the command's own program, under its name.
    executable: Option<PathBuf>,
    per_round: u32,
    limit: Duration,
}

impl Runner<'_> {
    fn rounds(
        &self,
        rounds: Rounds,
        states: &[Option<State>],
        text: &Text,
        ground: &Ground,
        bar: &ProgressBar,
    ) -> Result<Outcome, Stop> {
        let mut outcome = Outcome {
            sides: states
                .iter()
                .map(|state| (side(*state), Vec::new()))
                .collect(),
            thrown_away: 0,
        };
        for order in rounds.orders(states.len()) {
            loop {
                let mut round: Vec<Option<(Block, Option<String>)>> = Vec::new();
                round.resize_with(states.len(), || None);
                for index in &order {
                    let state = states.get(*index).copied().flatten();
                    let block = self.side(state, text, ground)?;
                    if let Some(slot) = round.get_mut(*index) {
                        *slot = block;
                    }
                }
                let round: Option<Vec<_>> = round.into_iter().collect();
                if let Some(round) = round {
                    outcome.add(round);
                    break;
                }
                outcome.thrown_away += 1;
                if outcome.thrown_away > SPARE_ROUNDS * rounds.rounds {
                    let path = &self.job.program;
                    let lost = Failure::at(path, "its page cache does not keep its state");
                    return Err(Stop::No(
                        lost.remedy("raise RLIMIT_MEMLOCK, or run as root"),
                    ));
                }
            }
            bar.inc(1);
        }
        Ok(outcome)
    }

    /// One side of one round; `None` if its page cache did not keep its state.
    fn side(
        &self,
        state: Option<State>,
        text: &Text,
        ground: &Ground,
    ) -> Result<Option<(Block, Option<String>)>, Stop> {
        let held = state.map(|state| text.bring(state, ground)).transpose()?;
        self.once()?;
        let usages: Vec<Usage> = (0..self.per_round)
            .map(|_| self.once())
            .collect::<Result<_, _>>()?;
        let block = Block::of(&usages, self.look()?);
        let stands = held.as_ref().map_or(Ok(true), Held::stands)?;
        Ok(stands.then(|| (block, held.as_ref().map(Held::describe))))
    }

    fn command(&self) -> Command {
        let mut words = self.job.command.iter();
        let name = words.next().map_or("".as_ref(), OsString::as_os_str);
        let program = self
            .executable
            .as_ref()
            .map_or(name, |path| path.as_os_str());
        let mut command = Command::new(program);
        command
            .arg0(name)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The first run, whose complaints the user sees: a command that fails is not measured.
    fn trial(&self) -> Result<(), Failure> {
        let mut command = self.command();
        command.stderr(Stdio::inherit());
        self.finished(run_measured(&mut command, self.limit))
            .map(drop)
    }

    fn once(&self) -> Result<Usage, Failure> {
        self.finished(run_measured(&mut self.command(), self.limit))
    }

    fn finished(&self, run: io::Result<(Usage, ExitStatus)>) -> Result<Usage, Failure> {
        let title = &self.job.title;
        match run {
            Ok((usage, status)) if status.success() => Ok(usage),
            Ok((_, status)) => Err(
                Failure::new(title, format_args!("failed: {}", plain(status)))
                    .remedy("measure a command that succeeds"),
            ),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Failure::new(
                title,
                format_args!("still running after {} s", self.limit.as_secs()),
            )
            .remedy("raise --timeout")),
            Err(error) => Err(Failure::new(title, crate::failure::plain(&error))),
        }
    }

    /// A run apart, looked at as it exits; `None` where ptrace is not permitted.
    fn look(&self) -> Result<Option<(f64, f64)>, Failure> {
        let Ok(instance) = Instance::start(&mut self.command()) else {
            return Ok(None);
        };
        let failed = |error| Failure::new(&self.job.title, error);
        let pid = u32::try_from(instance.pid()).unwrap_or_default();
        let deadline = Deadline::new(pid, self.limit).map_err(failed)?;
        let seen = instance.at_exit(|pid| {
            let text = text_mappings(pid).ok()?;
            let huge: u64 = text.iter().map(|mapping| mapping.pmd_mapped).sum();
            Some((huge as f64, file_mappings(pid).ok()? as f64))
        });
        deadline.missed();
        Ok(seen.map_err(failed)?.0.flatten())
    }
}

fn plain(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn side(state: Option<State>) -> Side {
    let name = match state {
        Some(State::Small) => "small folios",
        Some(State::Huge) => "warmed",
        None => "as it is",
    };
    Side {
        name: name.to_owned(),
        state: "no window that can be huge".to_owned(),
    }
}

impl Block {
    fn of(usages: &[Usage], end: Option<(f64, f64)>) -> Block {
        let middle = |value: fn(&Usage) -> f64| median(usages.iter().map(value).collect());
        let mean = |value: fn(&Usage) -> f64| {
            usages.iter().map(value).sum::<f64>() / usages.len().max(1) as f64
        };
        Block {
            wall: middle(|usage| usage.wall.as_secs_f64()),
            best: usages
                .iter()
                .map(|usage| usage.wall.as_secs_f64())
                .fold(f64::INFINITY, f64::min),
            user: mean(|usage| usage.user.as_secs_f64()),
            system: mean(|usage| usage.system.as_secs_f64()),
            faults: middle(|usage| usage.minor_faults as f64),
            end,
        }
    }
}

impl Outcome {
    fn add(&mut self, round: Vec<(Block, Option<String>)>) {
        for ((side, blocks), (block, state)) in self.sides.iter_mut().zip(round) {
            if let Some(state) = state {
                side.state = state;
            }
            blocks.push(block);
        }
    }

    fn comparison(self, job: &Job, arguments: &Arguments) -> Comparison {
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
            measure("text on huge pages", Unit::Bytes, |block| {
                block.end.map(|end| end.0)
            }),
            measure("file mappings", Unit::Count, |block| {
                block.end.map(|end| end.1)
            }),
        ];
        let mut notes = Vec::new();
        if self.thrown_away > 0 {
            notes.push(format!(
                "{} rounds were thrown away: the page cache did not keep its state",
                self.thrown_away
            ));
        }
        Comparison {
            benchmark: "exec".to_owned(),
            title: format!(
                "{}, {} rounds of {} runs a side",
                job.title, arguments.rounds.rounds, arguments.per_round
            ),
            measures: measures.into_iter().flatten().collect(),
            sides: self.sides.into_iter().map(|(side, _)| side).collect(),
            notes,
        }
    }
}

/// A copy without a name, in the program's directory: gone when this process ends, however it ends.
fn unnamed_copy(program: &Program) -> Result<Program, Failure> {
    let failed = |error: &io::Error| Failure::io(&program.path, error);
    let unmade = |error: ReplaceError| {
        Failure::at(&program.path, error).remedy("copy it yourself, and measure the copy")
    };
    let copy = Replacement::new(&program.path).map_err(unmade)?;
    io::copy(&mut &program.file, &mut copy.file()).map_err(|error| failed(&error))?;
    copy.copy_metadata(&program.file).map_err(unmade)?;
    // A file that is open for writing is not executed (ETXTBSY).
    let path = format!("/proc/self/fd/{}", copy.file().as_raw_fd());
    let file = File::open(path).map_err(|error| failed(&error))?;
    Ok(Program {
        path: program.path.clone(),
        image: Image::read(&file).map_err(|error| Failure::image(&program.path, &error))?,
        file,
    })
}

/// The program that the C compiler runs to compile.
fn compiler() -> Option<PathBuf> {
    let output = Command::new("cc")
        .arg("-print-prog-name=cc1")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
