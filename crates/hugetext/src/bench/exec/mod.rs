//! `hugetext bench exec`: times fork, exec and exit of a command, with the program's text in small
//! folios and in huge ones, unchanged and rewritten.
//!
//! All sides run under the program's own path. A rewritten copy is mounted over that path, in a
//! mount namespace of this process, while its side runs. In each round the page cache of each file
//! is brought into the side's state, held there, and checked before and after the runs. A round
//! that lost the state is discarded.

mod runner;
mod sides;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use hugetext_host::Namespace;

use self::runner::Runner;
use self::sides::{Means, Subject, Versions};
use super::Stop;
use super::comparison::Comparison;
use super::disk::directory;
use super::interrupt::Interrupt;
use super::rounds::Rounds;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::warm::Ground;

/// Start a command repeatedly, with its text in small and huge folios, unchanged and rewritten
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rounds: Rounds,
    /// Runs of each side per round; many, because kernels tell user from system time by samples
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_round: u32,
    /// The program whose text is warmed and rewritten [default: the command's own]
    #[arg(long, value_name = "PATH", requires = "command")]
    program: Option<PathBuf>,
    /// Measure a copy for the unchanged sides too, because other processes run the program
    #[arg(long)]
    copy: bool,
    /// Directory for the copies, which are removed afterwards [default: the directory for temporary
    /// files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Kill a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The command [default: an empty compile by cc1, and /bin/true]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Arguments {
    /// The default settings.
    pub(super) fn usual(quick: bool) -> Arguments {
        Arguments {
            rounds: Rounds::usual(quick),
            per_round: if quick { 2 } else { 15 },
            program: None,
            copy: false,
            directory: None,
            timeout: 60,
            command: Vec::new(),
        }
    }
}

/// Runs `hugetext bench exec`.
pub(super) fn run(
    arguments: &Arguments,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<Vec<Comparison>, Stop> {
    // This happens before any file of the old namespace is opened.
    let namespace = Namespace::possible().map_err(|error| error.to_string());
    let entered = namespace.and_then(|kind| kind.enter().map_err(|error| error.to_string()));
    let refused = entered.err();
    let refused = refused.map(|error| format!("no mount namespace: {}", plain(error)));
    let ground = Ground::this()?;
    let means = Means {
        ground: &ground,
        directory: &directory(arguments.directory.as_ref()),
        refused: refused.as_deref(),
    };
    let jobs = Job::all(arguments, output)?;
    let explicit = !arguments.command.is_empty();
    let subject = match (arguments.copy, explicit) {
        (true, _) => Subject::Copy,
        (false, true) => Subject::Itself,
        (false, false) => Subject::ItselfUnlessInUse,
    };
    let measured = jobs.iter().map(|job| {
        let versions = Versions::of(&job.program, subject, explicit, &means)?;
        let runner = Runner {
            title: &job.title,
            command: &job.command,
            per_round: arguments.per_round,
            limit: Duration::from_secs(arguments.timeout),
            interrupt,
        };
        let bar = output.progress("rounds", u64::from(arguments.rounds.rounds));
        let comparison = runner.measure(arguments.rounds, &versions, &ground, &bar);
        bar.finish_and_clear();
        comparison
    });
    measured.collect()
}

/// Arguments with which cc1 compiles an empty input.
pub(super) const EMPTY_COMPILE: [&str; 4] = ["-quiet", "-o", "/dev/null", "/dev/null"];

/// A command and the program it runs.
struct Job {
    title: String,
    program: PathBuf,
    command: Vec<OsString>,
}

impl Job {
    fn all(arguments: &Arguments, output: &Output) -> Result<Vec<Job>, Failure> {
        if let Some((name, rest)) = arguments.command.split_first() {
            return Ok(vec![Job::named(name.clone(), rest, arguments)?]);
        }
        let compile = compiler().map(Job::compile);
        if compile.is_none() {
            output.warn("no C compiler found, so the empty compile is left out; install gcc");
        }
        Ok(compile.into_iter().chain([Job::tiny()]).collect())
    }

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
        let arguments = EMPTY_COMPILE.map(OsString::from);
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
}

/// The program that the C compiler runs to compile.
pub(super) fn compiler() -> Option<PathBuf> {
    let output = Command::new("cc")
        .arg("-print-prog-name=cc1")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
