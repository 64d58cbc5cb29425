//! `hugetext learn`: watches a command once, and ranks the programs and libraries that it executes
//! most.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::{Args, ValueEnum};
use hugetext_engine::keep::KeepList;
use hugetext_engine::prepare::{PrepareAction, PreparePolicy, PrepareStep};
use hugetext_engine::{HostContext, Program};
use hugetext_host::{Interest, Moment, Pid, Replacement, Watched, Way, executable_files, watch};
use hugetext_loader::{Environment, Finder};

use crate::command::find;
use crate::documents::learn::{LearnReport, LearnedFile};
use crate::failure::Failure;
use crate::meaning::{self, LearnedText, Meaning, of_this_host};
use crate::output::Output;
use crate::path::shown;
use crate::table::{bytes, count, figures};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Also write the files that gain to a list for `hugetext keep`
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// How to watch
    #[arg(long, value_enum, default_value_t = WatchMethod::Auto)]
    by: WatchMethod,
    /// The command and its arguments; its exit status is that of `learn`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// How to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WatchMethod {
    /// By reports if they are permitted, otherwise by ptrace
    Auto,
    /// By reports of the kernel (proc connector and fanotify)
    Reports,
    /// By ptrace
    Ptrace,
}

/// How many exits of a program are inspected for its mappings, which include the libraries that it
/// opened itself. More inspections find little more and cost time.
const LOOKS: u32 = 3;

/// The observations of one program.
#[derive(Debug, Default)]
struct Seen {
    executions: u64,
    looks: u32,
    /// Whether it traces other processes.
    traces: bool,
    /// The other files that it mapped executable.
    libraries: BTreeSet<PathBuf>,
}

/// The observations of all programs.
#[derive(Debug, Default)]
struct Tally {
    programs: BTreeMap<PathBuf, Seen>,
    running: HashMap<Pid, PathBuf>,
}

impl Tally {
    /// Records a moment, and returns what else is of interest about the process.
    fn note(&mut self, moment: Moment) -> Interest {
        match moment {
            Moment::Exec { pid, program } => {
                let seen = self
                    .programs
                    .entry(program.clone())
                    .or_insert_with(|| Seen {
                        traces: traces(&program),
                        ..Seen::default()
                    });
                seen.executions += 1;
                let look = seen.looks < LOOKS;
                if look {
                    seen.looks += 1;
                    self.running.insert(pid, program);
                } else {
                    self.running.remove(&pid);
                }
                match (seen.traces, look) {
                    (true, _) => Interest::Own,
                    (false, true) => Interest::Mappings,
                    (false, false) => Interest::Nothing,
                }
            }
            Moment::Look { pid } => {
                let program = self.running.remove(&pid);
                let seen = program.and_then(|program| self.programs.get_mut(&program));
                if let (Some(seen), Ok(files)) = (seen, executable_files(pid)) {
                    seen.libraries.extend(files);
                }
                Interest::Nothing
            }
        }
    }

    /// Adds the files that the loader maps to programs that ended too early to be inspected.
    fn complete(&mut self) {
        let environment = Environment::current();
        let mut finder = Finder::new(&environment);
        for (program, seen) in &mut self.programs {
            if seen.libraries.is_empty()
                && let Ok(closure) = finder.closure(program)
            {
                let libraries = closure.objects.into_iter().map(|object| object.path);
                seen.libraries
                    .extend(libraries.filter(|path| path != program));
            }
        }
    }

    /// Each file, with the number of processes that mapped it.
    fn files(&self) -> BTreeMap<&Path, u64> {
        let mut files: BTreeMap<&Path, u64> = BTreeMap::new();
        for (program, seen) in &self.programs {
            let own = std::iter::once(program).filter(|program| !seen.libraries.contains(*program));
            for file in seen.libraries.iter().chain(own) {
                *files.entry(file).or_default() += seen.executions;
            }
        }
        files
    }
}

/// Whether a program traces other processes, as far as its names tell: debuggers import ptrace(2);
/// programs with LeakSanitizer use it to stop themselves and look for leaks.
fn traces(program: &Path) -> bool {
    const NAMES: [&[u8]; 5] = [
        b"ptrace",
        b"__asan_init",
        b"__hwasan_init",
        b"__lsan_init",
        b"liblsan.so.0",
    ];
    let program = Program::read(program);
    program.is_ok_and(|program| {
        program
            .image
            .mentions(&program.file, &NAMES)
            .unwrap_or(false)
    })
}

/// Runs `hugetext learn`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let (name, program) = match find(&arguments.command, output) {
        Ok(found) => found,
        Err(verdict) => return Ok(verdict),
    };
    if let Some(path) = &arguments.keep {
        // An error is better reported before the command has run than afterwards.
        Replacement::new(path).map_err(|error| Failure::replace(path, &error))?;
    }
    let host = HostContext::with_huge_pages()?;
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments.command.iter().skip(1));
    if output.is_json() {
        // Standard output must hold the document alone.
        command.stdout(io::stderr());
    }
    let mut tally = Tally::default();
    let way = match arguments.by {
        WatchMethod::Auto => None,
        WatchMethod::Reports => Some(Way::Reports),
        WatchMethod::Ptrace => Some(Way::Ptrace),
    };
    let watched = watch(&mut command, way, |moment| tally.note(moment));
    let watched = watched.map_err(|error| watching_failed(&program, way, &error))?;
    let status = watched.status;
    tally.complete();
    let report = report(&tally, &watched, &host, &arguments.command);
    let written = arguments.keep.as_ref().map_or(Ok(()), |path| {
        let named = |file: &LearnedFile| match file.path.to_str() {
            Some(path) => Some(path.to_owned()),
            None => {
                let problem = "left out of the list, which holds names in UTF-8 alone";
                output.warn(Failure::at(&file.path, problem).remedy("rename it"));
                None
            }
        };
        KeepList::of_paths(report.files.iter().filter_map(named)).write(path)
    });
    output.result("learn", &report, show)?;
    if let Err(error) = written {
        let failure = Failure::from(error);
        if status.success() {
            return Err(failure);
        }
        output.error(&failure);
    }
    Ok(Verdict::Status(exit_code(status)))
}

fn watching_failed(program: &Path, way: Option<Way>, error: &io::Error) -> Failure {
    let failure = Failure::io(program, error);
    match (way, error.kind()) {
        (Some(Way::Reports), _) => {
            failure.remedy("reports need root outside of containers; use --by ptrace")
        }
        (_, io::ErrorKind::PermissionDenied) => failure.remedy("ptrace must be permitted"),
        _ => failure,
    }
}

/// The exit status in the form of shells.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn report(
    tally: &Tally,
    watched: &Watched,
    host: &HostContext,
    command: &[OsString],
) -> LearnReport {
    let worth = |(path, executions): (&Path, u64)| {
        // Removed files, and files that are not readable programs, cannot gain.
        let step = PrepareStep::of(path, host, PreparePolicy::ON_DISK).ok()?;
        (!matches!(step.action, PrepareAction::Leave { .. })).then_some(LearnedFile {
            path: step.path,
            executions,
            text: step.text,
            huge: step.after,
        })
    };
    let mut files: Vec<LearnedFile> = tally.files().into_iter().filter_map(worth).collect();
    files
        .sort_by_key(|file| std::cmp::Reverse(u128::from(file.executions) * u128::from(file.huge)));
    LearnReport {
        argv: command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        executions: tally.programs.values().map(|seen| seen.executions).sum(),
        by: watched.way,
        lost: watched.lost,
        tracers: {
            let tracers = tally.programs.values().filter(|seen| seen.traces);
            tracers.map(|seen| seen.executions).sum()
        },
        files,
    }
}

fn show(report: &LearnReport) -> String {
    let mut executions = count(report.executions, "execution");
    if report.lost > 0 {
        executions.push_str(&format!(
            ", and the reports of at least {} were lost",
            report.lost
        ));
    }
    if report.by == Way::Ptrace && report.tracers > 0 {
        executions.push_str(&format!(
            "; the programs that {} of debuggers and leak checkers started were not watched",
            count(report.tracers, "execution")
        ));
    }
    let meaning = meaning_of(report);
    if report.files.is_empty() {
        return format!("{executions}\n{meaning}");
    }
    let rows = report.files.iter().map(|file| {
        vec![
            file.executions.to_string(),
            bytes(file.huge),
            bytes(file.text),
            shown(&file.path),
        ]
    });
    let table = figures(
        &["executions", "huge", "of text", "file"],
        &[3],
        rows.collect(),
    );
    format!("{executions}\n{table}\n\n{meaning}")
}

fn meaning_of(report: &LearnReport) -> Meaning {
    let files: Vec<&Path> = report
        .files
        .iter()
        .map(|file| file.path.as_path())
        .collect();
    let seen = LearnedText {
        argv: &report.argv,
        executions: report.executions,
        files: &files,
        gaining: report
            .files
            .iter()
            .map(|file| file.executions)
            .max()
            .unwrap_or(0),
        huge: report.files.iter().map(|file| file.huge).sum(),
    };
    meaning::learned(&seen, of_this_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(number: i32, program: &str) -> Moment {
        Moment::Exec {
            pid: Pid::from_raw(number).unwrap(),
            program: PathBuf::from(program),
        }
    }

    #[test]
    fn every_execution_counts_and_a_few_are_looked_at() {
        let mut tally = Tally::default();
        let looks: Vec<_> = (1..6)
            .map(|number| tally.note(exec(number, "/nowhere/a")))
            .collect();
        let (look, nothing) = (Interest::Mappings, Interest::Nothing);
        assert_eq!(looks, [look, look, look, nothing, nothing]);
        tally.note(exec(9, "/nowhere/b"));
        let seen = tally.programs.get_mut(Path::new("/nowhere/a")).unwrap();
        seen.libraries
            .extend([PathBuf::from("/lib/l"), PathBuf::from("/nowhere/a")]);
        let files = tally.files();
        assert_eq!(files[Path::new("/nowhere/a")], 5);
        assert_eq!(files[Path::new("/lib/l")], 5);
        assert_eq!(files[Path::new("/nowhere/b")], 1);
    }
}
