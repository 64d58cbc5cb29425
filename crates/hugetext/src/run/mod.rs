//! `hugetext run`: runs a command with its text on huge pages, and changes nothing else about it.
//!
//! The steps: resolve the command to the programs that it runs, add the libraries, decide about
//! each file, prepare the file or a copy of it, show the copy in a mount namespace, and become the
//! command. A failure before the last step is a warning. All these steps run in a child process, so
//! a failure leaves no trace in the process that becomes the command.

mod bind;
mod place;
mod prepare;
pub(crate) mod resolve;
mod room;
mod targets;
mod wrapper;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hugetext_host::{Guard, exec, in_child, open_regular};
use hugetext_loader::Environment;
use serde::{Deserialize, Serialize};

use crate::Verdict;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::path::{lossy, shown};
use crate::run::bind::Ready;
pub(crate) use crate::run::place::{Place, choose_on_disk, own_root};
use crate::run::prepare::Reason;
pub(crate) use crate::run::prepare::{Action, Policy, Step};
pub(crate) use crate::run::room::Room;
pub(crate) use crate::run::targets::Targets;
use crate::table::{bytes, count, figures};
use crate::warm::Ground;

/// Run a command with its text on huge pages
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Show what would be done with each file, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not run the command if any text that could fill a window stays unprepared
    #[arg(long)]
    strict: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

const EXIT_CODES: &str = "\
Exit status: that of the command, which takes the place of this process; 127 if it is not found, \
126 if it cannot be executed; 2 an error before that.";

/// The files to prepare, and the method.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also prepare these files: programs that the command starts, libraries that it opens itself.
    /// PATH is a path, a glob, a directory to search, or a command on PATH
    #[arg(long, value_name = "PATH")]
    also: Vec<OsString>,
    /// The place for copies of files whose own page cache cannot be used
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// The directory for copies
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Allow read-only data to become executable, which joins it with text in larger windows
    #[arg(long)]
    merge: bool,
}

impl Options {
    fn policy(&self) -> Policy {
        Policy {
            merge: self.merge,
            store: self.backend != Backend::None,
            prefer_store: self.backend == Backend::Store,
        }
    }
}

/// The place for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// On disk if its filesystem can hold huge folios, otherwise in a tmpfs
    Auto,
    /// On disk, with their text in the page cache
    Cache,
    /// In a tmpfs of huge pages
    Store,
    /// No copies: only warm files in place
    None,
}

/// The planned steps.
#[derive(Serialize)]
struct Plan {
    #[serde(serialize_with = "lossy::path")]
    program: PathBuf,
    files: Vec<Step>,
    /// How many files are too small for a window of text.
    small: usize,
    #[serde(skip)]
    small_files: Vec<PathBuf>,
    /// Errors in the search for files, one line each.
    problems: Vec<String>,
}

/// The files that run unprepared although their text could be on huge pages, one line each.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Unprepared {
    /// Files left because of an error. The user is warned of them.
    problems: Vec<String>,
    /// Files left by decision. They are printed only with more detail.
    left: Vec<String>,
    /// Other notes. They are printed only with more detail.
    notes: Vec<String>,
    /// Notes that are always printed. They do not prevent the run, even with --strict.
    hints: Vec<String>,
}

impl Unprepared {
    fn fail(&mut self, failure: &Failure) {
        self.problems.push(failure.to_string());
    }

    fn leave(&mut self, path: &Path, why: impl fmt::Display) {
        let failure = Failure::at(path, format_args!("not prepared: {why}"));
        self.left.push(failure.to_string());
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn hint(&mut self, failure: &Failure) {
        self.hints.push(failure.to_string());
    }

    fn add(&mut self, mut other: Unprepared) {
        self.problems.append(&mut other.problems);
        self.left.append(&mut other.left);
        self.notes.append(&mut other.notes);
        self.hints.append(&mut other.hints);
    }

    /// Everything except notes.
    fn into_all_lines(mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.hints);
        lines.append(&mut self.into_lines(true));
        lines
    }

    /// The errors and, with `all`, the decisions.
    fn into_lines(self, all: bool) -> Vec<String> {
        let left = self.left.into_iter().filter(|_| all);
        self.problems.into_iter().chain(left).collect()
    }
}

/// Runs `hugetext run`. Returns only if the command was not executed.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let program = match find(&arguments.command, output) {
        Ok((_, program)) => program,
        Err(verdict) => return Ok(verdict),
    };
    let mut unprepared = Unprepared::default();
    if arguments.dry_run {
        let decided = decide(&program, &arguments.options, &mut unprepared)?;
        let plan = Plan {
            program,
            files: decided.steps,
            small: decided.small.len(),
            small_files: decided.small,
            problems: unprepared.into_all_lines(),
        };
        output.result("run", &plan, |plan| show(plan, output.verbose()))?;
        return Ok(Verdict::Done);
    }
    let ready = match in_child(|| prepare(&program, &arguments.options)) {
        Ok((ready, found)) => {
            unprepared.add(found);
            ready
        }
        Err(error) => {
            unprepared.fail(&Failure::new("run", error).remedy("the command runs unprepared"));
            Ready::AsItIs
        }
    };
    bind::carry_out(ready, arguments.options.policy(), &mut unprepared)?;
    let notes = unprepared.notes.drain(..).filter(|_| output.verbose());
    for line in notes.chain(unprepared.hints.drain(..)) {
        output.warn(line);
    }
    let all = arguments.strict || output.verbose();
    tell(&unprepared.into_lines(all), arguments.strict, output)?;
    match exec(&program, &arguments.command) {
        Ok(never) => match never {},
        Err(error) => Ok(cannot_run(&program, &error, output)),
    }
}

/// The result of the child process: the work left to do, and the errors.
fn prepare(program: &Path, options: &Options) -> (Ready, Unprepared) {
    let mut unprepared = Unprepared::default();
    let ready = match decide(program, options, &mut unprepared) {
        Ok(decided) => bind::make_ready(decided, options, &mut unprepared),
        Err(failure) => {
            unprepared.fail(&failure);
            Ready::AsItIs
        }
    };
    (ready, unprepared)
}

/// The decisions, with the facts that they are based on.
struct Decided {
    ground: Ground,
    steps: Vec<Step>,
    /// Files too small for a window of text.
    small: Vec<PathBuf>,
}

/// Why a script leaves nothing to prepare, and the remedy.
const NOTHING_TOLD: &str = "a script, which does not show which large program it starts";
const NAME_IT: &str = "name the program with --also; `hugetext learn` finds it";

/// Decides about every file that the command is known to map.
fn decide(
    program: &Path,
    options: &Options,
    unprepared: &mut Unprepared,
) -> Result<Decided, Failure> {
    let ground = Ground::this()?;
    let mut room = Room::here();
    let programs = resolve::programs(program);
    let privileged = programs.iter().find(|program| changes_user(program));
    let reason = match (privileged, room.is_none()) {
        (Some(found), _) => Some((found.as_path(), "it changes user, group or capabilities")),
        (_, true) => Some((
            program,
            "its control group has too little memory for more than the command",
        )),
        _ => None,
    };
    if let Some((found, reason)) = reason {
        unprepared.leave(found, reason);
        return Ok(Decided {
            ground,
            steps: Vec::new(),
            small: Vec::new(),
        });
    }
    let environment = Environment::current();
    let mut targets = Targets::new(ground.leaf, options.merge, &environment);
    for program in &programs {
        targets.add_program(program);
    }
    for name in &options.also {
        targets.add_named(name);
    }
    unprepared.problems.append(&mut targets.problems);
    if targets.files.is_empty() && options.also.is_empty() && resolve::is_shell_script(program) {
        unprepared.hint(&Failure::at(program, NOTHING_TOLD).remedy(NAME_IT));
    }
    let policy = options.policy();
    let mut steps = Vec::new();
    for path in &targets.files {
        match Step::of(path, &ground, policy) {
            Ok(step) => steps.push(step.if_it_fits(&mut room)),
            Err(failure) => unprepared.fail(&failure),
        }
    }
    Ok(Decided {
        ground,
        steps,
        small: targets.small,
    })
}

/// Whether executing the program changes the user, group or capabilities. Such a program runs as
/// if it were called directly, because a namespace could change what its capabilities permit.
fn changes_user(program: &Path) -> bool {
    let guards = open_regular(program).and_then(|file| Guard::of(&file));
    guards.is_ok_and(|guards| guards.contains(&Guard::Privileged))
}

/// The program that the first word of the command line names, with that word; the verdict if it
/// names none.
pub(crate) fn find<'c>(
    command: &'c [OsString],
    output: &Output,
) -> Result<(&'c OsStr, PathBuf), Verdict> {
    let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    match resolve::command(name) {
        Ok(program) => Ok((name, program)),
        Err(error) => Err(cannot_run(Path::new(name), &error, output)),
    }
}

/// Exit status 127 or 126, as with shells and env(1).
fn cannot_run(program: &Path, error: &io::Error, output: &Output) -> Verdict {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let problem = match missing {
        true => "command not found".to_owned(),
        false => plain(error),
    };
    output.error(&Failure::at(program, problem));
    Verdict::Status(if missing { 127 } else { 126 })
}

/// Warns of unprepared files, in one line unless more detail was asked for. With --strict it is an
/// error.
fn tell(lines: &[String], strict: bool, output: &Output) -> Result<(), Failure> {
    let Some((first, rest)) = lines.split_first() else {
        return Ok(());
    };
    let listed = output.verbose() && !rest.is_empty();
    for line in lines.iter().filter(|_| listed) {
        output.warn(line);
    }
    let problem = match (rest.len(), listed) {
        (0, _) => first.clone(),
        (more, true) => format!("{first} (and {more} more)"),
        (more, false) => format!("{first} (and {more} more; -v lists them)"),
    };
    if strict {
        let failure = Failure::new("run", problem);
        return Err(failure.remedy("without --strict the command runs anyway"));
    }
    if !listed {
        output.warn(problem);
    }
    Ok(())
}

fn show(plan: &Plan, verbose: bool) -> String {
    let mut rows = Vec::new();
    let mut small: Vec<&Path> = plan.small_files.iter().map(PathBuf::as_path).collect();
    for step in &plan.files {
        let action = match step.action {
            Action::Leave { why: Reason::Small } => {
                small.push(&step.path);
                continue;
            }
            Action::Leave { why } => format!("left: {why}"),
            Action::Warm => "warmed in place".to_owned(),
            Action::Copy => "an equal copy takes its place".to_owned(),
            Action::Fix => "a fixed copy takes its place".to_owned(),
        };
        rows.push(vec![
            shown(&step.path),
            bytes(step.text),
            bytes(step.now),
            bytes(step.after),
            action,
        ]);
    }
    let header = ["file", "text", "in reach", "then", "what is done"];
    let mut text = figures(&header, &[0, 4], rows);
    if !small.is_empty() {
        text.push_str(&format!(
            "\nleft as is: {}",
            count(small.len(), "smaller file")
        ));
    }
    for path in small.into_iter().filter(|_| verbose) {
        text.push_str(&format!("\n  {}", shown(path)));
    }
    for problem in &plan.problems {
        text.push_str(&format!("\n{problem}"));
    }
    text
}
