//! `hugetext run`: runs a command with its text on huge pages, and changes nothing else about it.
//!
//! The steps: resolve the command to the programs that it runs, add the libraries, decide about
//! each file, prepare the file or a copy of it, show the copy in a mount namespace, and become the
//! command. A failure before the last step is a warning. All these steps run in a child process, so
//! a failure leaves no trace in the process that becomes the command.

mod show;

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use hugetext_engine::HostContext;
use hugetext_engine::prepare::{
    CopyBackend, PrepareRequest, PrepareStep, Ready, RecentCommand, RecentStart, ReplicaAdvice,
    Unprepared, enter_leaf_use, leaf_use_of_start, make_ready, move_again, plan_preparation,
};
use hugetext_host::{
    ChildError, Nodes, Pid, adopts_children, end_tracer, exec, in_child, is_filtered,
    let_descendants_trace, limit_listing, orphans_are_reaped, own_processors, process_name,
};
use hugetext_leaf::replica::{ChosenReplica, Replica, ReplicaChoice, choose_replica};
use hugetext_leaf::verdict::LeafUse;
use hugetext_promote::{NotMoved, Unmoved, Waiting, rehearse_placing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::command::{cannot_run, find};
use crate::documents::run::{ReplicaCost, RunPlan};
use crate::failure::Failure;
use crate::output::{Detail, Output};
use crate::path::shown;
use crate::run_directory::RunDirectory;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Show what would be done with each file, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not run the command if any text that could fill a window stays unprepared
    #[arg(long)]
    strict: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

const EXIT_CODES: &str = "\
Exit status: that of the command, which takes the place of this process; 127 if it is not found, \
126 if it cannot be executed; 2 an error before that.";

// The files to prepare, and the method. This is no documentation comment: clap would print it as the headline of
// `run`.
#[derive(Debug, Args)]
struct Options {
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
    /// Use copies whose text lies on the NUMA node that the command is bound to; one that spans nodes gets
    /// the node of its first processor. Each copy takes memory, on each node that runs such commands
    #[arg(long, conflicts_with = "replicas")]
    numa: bool,
    /// Use one of N copies of the program, its loader and libraries, chosen at random for each command, so that
    /// many starts do not meet at the lock of one file. Each copy takes memory. With auto, the autopilot
    /// says how many are worth it, from the starts that it saw
    #[arg(long, value_name = "N|auto")]
    replicas: Option<Replicas>,
    #[command(flatten)]
    autopilot: RunDirectory,
}

/// How many copies a command is one of many users of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replicas {
    /// So many.
    Number(u32),
    /// As many as the autopilot found to be worth it, or none.
    Advised,
}

impl FromStr for Replicas {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Replicas, &'static str> {
        let number = || {
            text.parse()
                .ok()
                .filter(|number| (1..=1024).contains(number))
        };
        match text {
            "auto" => Ok(Replicas::Advised),
            _ => number()
                .map(Replicas::Number)
                .ok_or("write a number from 1 to 1024, or auto"),
        }
    }
}

/// The place for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// On disk if its filesystem can hold huge folios, otherwise in a tmpfs
    Auto,
    /// On disk, with their text in the page cache
    Cache,
    /// In a tmpfs of huge pages
    Store,
    /// No copies: only warm files in place
    None,
}

impl From<Backend> for CopyBackend {
    fn from(backend: Backend) -> CopyBackend {
        match backend {
            Backend::Auto => CopyBackend::Auto,
            Backend::Cache => CopyBackend::Cache,
            Backend::Store => CopyBackend::Memory,
            Backend::None => CopyBackend::None,
        }
    }
}

impl Options {
    /// The copies that the command, which executes `program`, is to use, if it is to use any.
    fn choice(&self, program: &Path, output: &Output) -> Option<ReplicaChoice> {
        match self.replicas {
            None => self.numa.then_some(ReplicaChoice::OwnNode),
            Some(Replicas::Number(copies)) => Some(ReplicaChoice::OneOf(copies)),
            Some(Replicas::Advised) => match ReplicaAdvice::read(self.autopilot.path()) {
                Ok(advice) => {
                    advice.choice_of_program(program, &HostContext::with_huge_pages().ok()?)
                }
                Err(error) => {
                    let failure = Failure::io(self.autopilot.path(), &error);
                    output.warn(failure.remedy("the command uses the files themselves"));
                    None
                }
            },
        }
    }

    fn request(&self, replica: Option<Replica>) -> PrepareRequest {
        PrepareRequest {
            replica,
            also: self.also.clone(),
            backend: self.backend.into(),
            store: self.store.clone(),
            merge: self.merge,
        }
    }
}

/// Runs `hugetext run`. Returns only if the command was not executed.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let program = match find(&arguments.command, output) {
        Ok((_, program)) => program,
        Err(verdict) => return Ok(verdict),
    };
    let choice = arguments.options.choice(&program, output);
    let chosen = choice.map(choose_here);
    let replica = chosen.as_ref().and_then(|chosen| chosen.replica);
    let request = arguments.options.request(replica);
    if let Some(note) = chosen.as_ref().and_then(|chosen| chosen.note.as_ref()) {
        output.warn(show::note(note));
    }
    if arguments.dry_run {
        return dry_run(program, &request, chosen.as_ref(), output);
    }
    let is_awaited = ready_here(&program, &request, arguments.strict, output)?;
    let error = match become_command(&program, arguments) {
        // A rule of the machine may forbid to trace this program.
        _ if is_awaited && end_tracer() => become_command(&program, arguments),
        error => error,
    };
    Ok(cannot_run(&program, &error, output))
}

/// Returns only if the program cannot be executed.
fn become_command(program: &Path, arguments: &Arguments) -> io::Error {
    match exec(program, &arguments.command) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Prepares this process and the files of the command that it is to become, as far as that was not done a moment ago. Returns
/// whether a tracer waits for the execution of the command.
fn ready_here(
    program: &Path,
    request: &PrepareRequest,
    strict: bool,
    output: &Output,
) -> Result<bool, Failure> {
    let recent = RecentCommand::of(program, request);
    match recent.as_ref().and_then(RecentCommand::found) {
        Some(RecentStart::AsItIs) => return Ok(false),
        Some(RecentStart::Moved) if move_again_here(program, request, strict, output) => {
            return Ok(true);
        }
        Some(RecentStart::Moved) | None => {}
    }
    let found = prepare_here(program, request, strict, output)?;
    if let (Some(recent), Some(start)) = (recent, found.start) {
        recent.note(start);
    }
    Ok(found.is_awaited)
}

/// What had to be done for a command.
struct Found {
    /// Whether a tracer waits for its execution.
    is_awaited: bool,
    /// What the next start can do without.
    start: Option<RecentStart>,
}

/// Does `work` in a child, which is told of the process that becomes the command if that may be traced.
fn in_child_beside<T>(
    program: &Path,
    strict: bool,
    output: &Output,
    work: impl FnOnce(Option<Waiting<'_>>) -> T,
) -> Result<T, ChildError>
where
    T: Serialize + DeserializeOwned,
{
    let unmoved = |why: &NotMoved| tell_unmoved(program, why, strict, output);
    // The child has none of its own.
    let wants_to_know = strict || output.verbose();
    let standard_error = wants_to_know.then(|| io::stderr().as_fd().try_clone_to_owned().ok());
    let standard_error = standard_error.flatten();
    let waiting = may_be_traced().then(|| Waiting {
        process: Pid::own(),
        standard_error: standard_error.as_ref().map(OwnedFd::as_fd),
        unmoved: &unmoved,
    });
    let permit = |permitted| {
        if waiting.is_some() {
            let_descendants_trace(permitted);
        }
    };
    permit(true);
    let done = in_child(|| {
        limit_listing();
        work(waiting)
    });
    permit(false);
    done
}

/// Has the image of the command moved again. Returns false if all files have to be looked at.
fn move_again_here(
    program: &Path,
    request: &PrepareRequest,
    strict: bool,
    output: &Output,
) -> bool {
    let moved = in_child_beside(program, strict, output, |waiting| {
        let Some((waiting, host)) = waiting.zip(HostContext::with_huge_pages().ok()) else {
            return false;
        };
        move_again(program, &host, request, waiting)
    });
    moved.unwrap_or(false)
}

/// Prepares this process and the files of the command that it is to become, and tells what stays unprepared.
fn prepare_here(
    program: &Path,
    request: &PrepareRequest,
    strict: bool,
    output: &Output,
) -> Result<Found, Failure> {
    let mut not_tried = None;
    let prepared = in_child_beside(program, strict, output, |waiting| {
        prepare(program, request, waiting)
    });
    let Prepared {
        ready,
        leaves,
        mut unprepared,
        offsets_moved,
    } = prepared.unwrap_or_else(|error| {
        let failure = Failure::new("run", error).remedy("the command runs unprepared");
        not_tried = Some(failure.to_string());
        Prepared::default()
    });
    let is_awaited = ready.is_awaited();
    let start = ready
        .start()
        .filter(|_| leaves == LeafUse::Leaves && not_tried.is_none());
    ready.enter(request, &mut unprepared)?;
    enter_leaf_use(leaves)?;
    if leaves == LeafUse::Tables && output.verbose() {
        output.warn(show::BY_TABLES);
    }
    let start = start.filter(|_| unprepared.is_empty());
    if !offsets_moved.is_empty() && is_started_by_perf() {
        for path in &offsets_moved {
            output.warn(show::for_perf(path));
        }
    }
    for line in show::always(&unprepared, output.verbose()) {
        output.warn(line);
    }
    let all = strict || output.verbose();
    let lines: Vec<String> = not_tried
        .into_iter()
        .chain(show::unprepared(unprepared, all))
        .collect();
    tell(&lines, strict, output)?;
    Ok(Found { is_awaited, start })
}

/// Whether perf records what this process is to become. It looks for the names of a sample only later.
fn is_started_by_perf() -> bool {
    Pid::parent().is_some_and(|parent| process_name(parent) == "perf")
}

/// Whether a tracer may wait for the execution of the command without harm to it.
fn may_be_traced() -> bool {
    // A filter may kill whoever makes a call.
    let admits = || in_child(|| rehearse_placing().is_ok()).unwrap_or(false);
    // A process that adopts the children of others would find the tracer among its children.
    (!is_filtered() || admits()) && !adopts_children() && orphans_are_reaped()
}

/// Tells that the image of the command stays where the kernel loaded it, and decides whether it runs.
fn tell_unmoved(program: &Path, why: &NotMoved, strict: bool, output: &Output) -> Unmoved {
    let failure = Failure::at(
        program,
        format_args!("not moved to an aligned address: {why}"),
    );
    if strict {
        output.error(&failure.remedy(RUNS_WITHOUT_STRICT));
        return Unmoved::Ends(Verdict::Failed.status());
    }
    if output.verbose() {
        output.warn(failure);
    }
    Unmoved::Runs
}

/// What would run a command that --strict keeps from it.
const RUNS_WITHOUT_STRICT: &str = "without --strict the command runs anyway";

/// Chooses a copy for a command that runs where this process runs.
fn choose_here(choice: ReplicaChoice) -> ChosenReplica {
    let nodes = Nodes::this();
    let runs_on = nodes.of_processors(&own_processors());
    // Process ids are no draw: a loop that starts a fixed number of processes each time would always get the
    // same copies.
    let draw = RandomState::new().hash_one(std::process::id());
    choose_replica(choice, &runs_on, &nodes.with_memory(), (draw >> 32) as u32)
}

fn dry_run(
    program: PathBuf,
    request: &PrepareRequest,
    chosen: Option<&ChosenReplica>,
    output: &Output,
) -> Result<Verdict, Failure> {
    let host = HostContext::with_huge_pages()?;
    let mut unprepared = Unprepared::default();
    let planned = plan_preparation(&program, &host, request, &mut unprepared);
    let (leaves, steps) = permitted(planned.steps);
    let plan = RunPlan {
        program,
        replicas: chosen.and_then(|chosen| ReplicaCost::of(chosen, &steps)),
        leaves,
        files: steps,
        small: planned.small.len(),
        small_files: planned.small,
        problems: show::all(unprepared),
    };
    output.result("run", &plan, |plan| show::plan(plan, output.verbose()))?;
    Ok(Verdict::Done)
}

/// How the text of the command is to be mapped, and the steps that this permits.
fn permitted(steps: Vec<PrepareStep<'_>>) -> (LeafUse, Vec<PrepareStep<'_>>) {
    let leaves = leaf_use_of_start(&steps);
    let steps = steps.into_iter().map(|step| step.under(leaves));
    (leaves, steps.collect())
}

/// What the child process found and did.
#[derive(Default, Serialize, Deserialize)]
struct Prepared {
    /// The work that is left to do.
    ready: Ready,
    /// How the text of the command is to be mapped.
    leaves: LeafUse,
    /// What could not be done.
    unprepared: Unprepared,
    /// The files whose copies have text at other offsets, as they are shown.
    offsets_moved: Vec<String>,
}

/// What the child process does.
fn prepare(program: &Path, request: &PrepareRequest, waiting: Option<Waiting<'_>>) -> Prepared {
    let mut prepared = Prepared::default();
    match HostContext::with_huge_pages() {
        Ok(host) => {
            let unprepared = &mut prepared.unprepared;
            let plan = plan_preparation(program, &host, request, unprepared);
            let (leaves, steps) = permitted(plan.steps);
            prepared.leaves = leaves;
            let moved = steps.iter().filter(|step| step.moves_offsets());
            prepared.offsets_moved = moved.map(|step| shown(&step.path)).collect();
            prepared.ready = make_ready(steps, &host, request, waiting, unprepared);
        }
        Err(error) => prepared.unprepared.fail(&error),
    }
    prepared
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
        return Err(failure.remedy(RUNS_WITHOUT_STRICT));
    }
    if !listed {
        output.warn(problem);
    }
    Ok(())
}
