//! Formats preparations as text.

use std::path::{Path, PathBuf};

use hugetext_engine::Problem;
use hugetext_engine::prepare::{LeaveReason, LeftReason, PrepareAction, Unprepared};
use hugetext_leaf::replica::ReplicaNote;
use hugetext_leaf::verdict::LeafUse;

use crate::documents::run::RunPlan;
use crate::failure::Failure;
use crate::path::shown;
use crate::table::{bytes, count, figures};

/// The table of what would be done.
pub(super) fn plan(plan: &RunPlan<'_>, verbose: bool) -> String {
    let mut rows = Vec::new();
    let mut small: Vec<&Path> = plan.small_files.iter().map(PathBuf::as_path).collect();
    for step in &plan.files {
        let action = match step.action {
            PrepareAction::Leave {
                why: LeaveReason::Small,
            } => {
                small.push(&step.path);
                continue;
            }
            PrepareAction::Leave { why } => format!("left: {}", decided(why)),
            PrepareAction::Warm if step.text_alone => {
                "warmed in place, and moved to an aligned address".to_owned()
            }
            PrepareAction::Warm => "warmed in place".to_owned(),
            PrepareAction::Copy if step.text_alone => {
                "its text comes from an equal copy".to_owned()
            }
            PrepareAction::Copy => "an equal copy takes its place".to_owned(),
            PrepareAction::Fix if step.text_alone => "its text comes from a fixed copy".to_owned(),
            PrepareAction::Fix => "a fixed copy takes its place".to_owned(),
        };
        rows.push(vec![
            shown(&step.path),
            bytes(step.text),
            bytes(step.now),
            bytes(step.after),
            action,
        ]);
    }
    let named = plan.replicas.map_or_else(String::new, |cost| {
        format!(
            "\n{} of {}: {} of memory and {} of disk at most; all of them {} and {}",
            cost.replica,
            count(cost.copies, "replica"),
            bytes(cost.memory),
            bytes(cost.disk),
            bytes(cost.all_memory),
            bytes(cost.all_disk),
        )
    });
    let header = ["file", "text", "in reach", "then", "what is done"];
    let mut text = figures(&header, &[0, 4], rows);
    text.push_str(&named);
    if plan.leaves == LeafUse::Tables {
        text.push_str(&format!("\n{BY_TABLES}"));
    }
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

/// What a command gets where leaves do harm.
pub(super) const BY_TABLES: &str = "run: the command gets huge folios without leaves, and no huge pages for its own \
                                    memory, because on this machine programs of many system calls lose by leaves \
                                    (hugetext host)";

/// What a profiler needs that finds names by file offsets.
pub(super) fn for_perf(path: &str) -> String {
    format!(
        "{path}: runs as a copy, in which perf finds no names; before perf report: \
         perf buildid-cache -u \"$(hugetext store path {path})\""
    )
}

/// What the user of a replica would not expect.
pub(super) fn note(note: &ReplicaNote) -> String {
    match note {
        ReplicaNote::OneNode => {
            "run: this machine has one node with memory, so --numa changes nothing".to_owned()
        }
        ReplicaNote::Spans { nodes, chosen } => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!(
                "run: the command may run on {}; it gets the text of {chosen}; bind it with taskset or numactl",
                nodes.join(", ")
            )
        }
        ReplicaNote::NoMemory { node } => {
            format!(
                "run: {node}, which runs the command, has no memory; it gets no text of its own"
            )
        }
    }
}

/// What is printed whether or not files stay unprepared. It does not prevent the run, even with
/// --strict.
pub(super) fn always(unprepared: &Unprepared, verbose: bool) -> Vec<String> {
    let user_namespace = (verbose && unprepared.in_user_namespace).then(|| USER_NAMESPACE.into());
    user_namespace.into_iter().chain(hint(unprepared)).collect()
}

/// The effect of a user namespace on the calls of a command.
const USER_NAMESPACE: &str = "run: the command is in a user namespace: it cannot give files to \
                              another group (chgrp, setgroups), files of other users show as \
                              nobody's, and set-id programs such as sudo do not change the user";

/// Why a script leaves nothing to prepare, and the remedy.
const NOTHING_TOLD: &str = "a script, which does not show which large program it starts";
const NAME_IT: &str = "name the program with --also; `hugetext learn` finds it";

fn hint(unprepared: &Unprepared) -> Option<String> {
    let script = Path::new(unprepared.opaque_script.as_ref()?);
    Some(
        Failure::at(script, NOTHING_TOLD)
            .remedy(NAME_IT)
            .to_string(),
    )
}

/// The files that stay unprepared, one line each: those with errors and, with `all`, those that were
/// left by decision.
pub(super) fn unprepared(unprepared: Unprepared, all: bool) -> Vec<String> {
    let problems = unprepared.problems.into_iter();
    let left = unprepared.left.into_iter().filter(|_| all).map(|left| {
        let why = reason(left.why);
        let failure = Failure::at(Path::new(&left.path), format_args!("not prepared: {why}"));
        failure.to_string()
    });
    problems.map(problem).chain(left).collect()
}

/// Everything that `run` would say about the files that it cannot prepare.
pub(super) fn all(found: Unprepared) -> Vec<String> {
    let hint = hint(&found);
    hint.into_iter().chain(unprepared(found, true)).collect()
}

fn problem(problem: Problem) -> String {
    Failure::from(problem).to_string()
}

fn reason(why: LeftReason) -> &'static str {
    match why {
        LeftReason::Decided(why) => decided(why),
        LeftReason::NotFullyWarm => "not fully warm: other processes use it",
        LeftReason::CopyNotFullyWarm => "its copy is not fully warm",
        LeftReason::ChangesUser => "it changes user, group or capabilities",
        LeftReason::TooLittleMemory => {
            "its control group has too little memory for more than the command"
        }
    }
}

fn decided(why: LeaveReason) -> &'static str {
    match why {
        LeaveReason::Small => "its text fills no window",
        LeaveReason::Irreplaceable => "no copy may take its place",
        LeaveReason::Refused => "a fix of it is refused; hugetext check --verbose says why",
        LeaveReason::Vouched => "a checksum protects it, which a fix would break",
        LeaveReason::NoPlace => "it needs a copy, which --backend none forbids",
        LeaveReason::HarmfulLeaves => {
            "programs of many system calls lose by huge text on this machine; hugetext host says why"
        }
        LeaveReason::Cramped => "its control group has too little memory for it",
    }
}
