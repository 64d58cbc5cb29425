//! Times fork, exec and exit of a command, with the program's text in small
//! folios and in huge ones, unchanged and rewritten.
//!
//! All sides run under the program's own path. A rewritten copy is mounted over that path, in a
//! mount namespace of this process, while its side runs. In each round the page cache of each file
//! is brought into the side's state, held there, and checked before and after the runs. A round
//! that lost the state is discarded.

pub mod names;
mod rival;
mod runner;
mod sides;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hugetext_engine::{HostContext, Program, plain, shown, text_elsewhere};
use hugetext_host::Namespace;

pub use self::rival::{Rival, RivalChange, RivalError};
use self::runner::Runner;
pub(crate) use self::sides::Subject;
use self::sides::{Means, Versions};
use super::comparison::{Comparison, Measured};
use super::disk::directory;
use super::interrupt::Interrupt;
use super::rounds::{PerRound, Rounds};
use crate::error::BenchError;
use crate::error::BenchStop;
use crate::observer::Observer;
use crate::quantity::bytes;

/// What to start, and how often.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// How many rounds.
    pub rounds: Rounds,
    /// Runs of each side per round.
    pub per_round: PerRound,
    /// The program whose text is warmed and rewritten; by default the file that holds most of the text that the command
    /// maps: its own, or a library.
    pub program: Option<PathBuf>,
    /// Whether a copy is measured for the unchanged sides too, because other processes run the
    /// program.
    pub copy: bool,
    /// The directory for the copies, which are removed afterwards; by default that for temporary
    /// files.
    pub directory: Option<PathBuf>,
    /// A run is killed after this many seconds.
    pub timeout: u64,
    /// Other ways to huge text, measured beside this project's.
    pub rivals: Vec<Rival>,
    /// The command; if it is empty, an empty compile by cc1, and /bin/true.
    pub command: Vec<OsString>,
}

impl ExecSettings {
    /// The default settings.
    pub fn usual(quick: bool) -> ExecSettings {
        ExecSettings {
            rounds: Rounds::usual(quick),
            per_round: PerRound::Runs(if quick { 2 } else { 15 }),
            program: None,
            copy: false,
            directory: None,
            timeout: 60,
            rivals: Vec::new(),
            command: Vec::new(),
        }
    }
}

/// Times fork, exec and exit of a command.
pub fn bench_exec(
    settings: &ExecSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let starts = Starts::new(settings, interrupt, observer)?;
    let jobs = Job::all(settings, observer)?;
    let explicit = !settings.command.is_empty();
    let subject = match (settings.copy, explicit) {
        (true, _) => Subject::Copy,
        (false, true) => Subject::Itself,
        (false, false) => Subject::ItselfUnlessInUse,
    };
    let measured = jobs
        .iter()
        .map(|job| starts.measure(job, subject, explicit));
    measured.collect()
}

/// What every job is measured with.
pub(crate) struct Starts<'s> {
    settings: &'s ExecSettings,
    host: HostContext,
    directory: PathBuf,
    /// Why a copy cannot be mounted over a file, if it cannot.
    refused: Option<String>,
    interrupt: &'s Interrupt,
    observer: &'s dyn Observer,
}

impl<'s> Starts<'s> {
    /// Gives this process a mount namespace of its own, where that is permitted. It must not have opened
    /// any file of the old one.
    pub(crate) fn new(
        settings: &'s ExecSettings,
        interrupt: &'s Interrupt,
        observer: &'s dyn Observer,
    ) -> Result<Starts<'s>, BenchError> {
        let namespace = Namespace::possible().map_err(|error| error.to_string());
        let entered = namespace.and_then(|kind| kind.enter().map_err(|error| error.to_string()));
        let refused = entered.err();
        Ok(Starts {
            settings,
            host: HostContext::with_huge_pages()?,
            directory: directory(settings.directory.as_ref()),
            refused: refused.map(|error| format!("no mount namespace: {}", plain(error))),
            interrupt,
            observer,
        })
    }

    /// Measures every side of one job. If a side `must` have a window and none has one, the answer is no.
    pub(crate) fn measure(
        &self,
        job: &Job,
        subject: Subject,
        must: bool,
    ) -> Result<Comparison, BenchStop> {
        let means = Means {
            host: &self.host,
            directory: &self.directory,
            refused: self.refused.as_deref(),
            rivals: &self.settings.rivals,
        };
        let mut versions = Versions::of(&job.program, subject, must, &means)?;
        let runner = Runner {
            title: &job.title,
            command: &job.command,
            per_round: self.settings.per_round,
            limit: Duration::from_secs(self.settings.timeout),
            interrupt: self.interrupt,
        };
        runner.drop_failing_rivals(&mut versions)?;
        let rounds = self.settings.rounds;
        self.observer.begin("rounds", u64::from(rounds.count));
        let comparison = runner.measure(rounds, &versions, self.observer);
        self.observer.end();
        let mut comparison = comparison?;
        comparison.notes.extend(job.note.clone());
        let words = job.command.iter().map(|word| word.to_string_lossy());
        comparison.measured = Some(Measured::Command {
            program: job.program.clone(),
            words: words.map(Cow::into_owned).collect(),
        });
        Ok(comparison)
    }
}

/// Arguments with which cc1 compiles an empty input.
pub const EMPTY_COMPILE: [&str; 4] = ["-quiet", "-o", "/dev/null", "/dev/null"];

/// A command and the program it runs.
pub(crate) struct Job {
    /// What it does, in one line.
    pub(crate) title: String,
    /// The file whose text is brought into the states of the sides.
    pub(crate) program: PathBuf,
    /// The words of the command.
    pub(crate) command: Vec<OsString>,
    /// Why that file is measured, where it is not the command's own.
    pub(crate) note: Option<String>,
}

impl Job {
    fn all(settings: &ExecSettings, observer: &dyn Observer) -> Result<Vec<Job>, BenchError> {
        if let Some((name, rest)) = settings.command.split_first() {
            return Ok(vec![Job::named(name.clone(), rest, settings)?]);
        }
        let compile = compiler().map(Job::compile);
        if compile.is_none() {
            observer.warn(&"no C compiler found, so the empty compile is left out; install gcc");
        }
        Ok(compile.into_iter().chain([Job::tiny()]).collect())
    }

    fn named(
        name: OsString,
        rest: &[OsString],
        settings: &ExecSettings,
    ) -> Result<Job, BenchError> {
        let path =
            which::which(&name).map_err(|error| BenchError::new(name.to_string_lossy(), error))?;
        let mut command = vec![name];
        command.extend_from_slice(rest);
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let elsewhere = match settings.program {
            Some(_) => None,
            None => Program::open(&path).ok().and_then(|program| {
                text_elsewhere(&path, program.image.kind, program.image.text_len())
            }),
        };
        let note = elsewhere.as_ref().map(|library| {
            let (path, text) = (shown(&library.path), bytes(library.text));
            format!("most of the text that it maps is in {path}: {text}, which is measured; --program names another file")
        });
        let found = elsewhere.map_or(path, |library| library.path);
        Ok(Job {
            title: words.join(" "),
            program: settings.program.clone().unwrap_or(found),
            command,
            note,
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
            note: None,
        }
    }

    fn tiny() -> Job {
        let program = PathBuf::from("/bin/true");
        Job {
            title: "/bin/true, a tiny dynamic program".to_owned(),
            command: vec![program.clone().into_os_string()],
            program,
            note: None,
        }
    }
}

/// The program that the C compiler runs to compile.
pub fn compiler() -> Option<PathBuf> {
    let output = Command::new("cc")
        .arg("-print-prog-name=cc1")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
