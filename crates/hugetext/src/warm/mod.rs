//! `hugetext warm`: brings the text of files into huge folios of the page cache.

mod arguments;
mod show;

use std::path::PathBuf;

use hugetext_engine::{
    Error, HostContext, ProgramOnHost, WarmOutcome, WarmPolicy, leaf_use_here, libraries_of, warm,
    warm_on, warm_without_leaves,
};
use hugetext_host::{Nodes, limit_listing};
use hugetext_leaf::replica::Node;
use hugetext_leaf::verdict::{Deed, LeafUse};

use crate::documents::warm::WarmReport;
use crate::failure::Failure;
use crate::meaning::{self, Meaning, WarmedText, of_this_host};
use crate::output::Output;
use crate::path::shown;
use crate::verdict::Verdict;
pub(crate) use arguments::Arguments;
use show::show;

/// Runs `hugetext warm`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    limit_listing();
    let host = HostContext::with_huge_pages()?;
    let choice = arguments.node.map(|choice| choice.nodes(&Nodes::this()));
    let nodes = choice.transpose()?;
    let mut verdict = Verdict::Done;
    let mut files = Vec::new();
    let wanted = wanted(arguments, output);
    let bar = output.progress("warming", wanted.len() as u64);
    for file in wanted {
        bar.inc(1);
        let program = ProgramOnHost::open(&file.path, &host);
        let warmed = program.and_then(|program| {
            let warmed = arguments.warm(&program, nodes.as_deref())?;
            Ok(warmed.with_holders(&program.program.file))
        });
        match warmed {
            // A small library has no window to warm. The answer stays yes, and its line tells what changed.
            Ok(outcome) if file.is_library && outcome.windows == 0 && nodes.is_none() => {
                if outcome
                    .folios
                    .is_some_and(|folios| folios.now != folios.before)
                {
                    files.push(outcome);
                }
            }
            Ok(outcome) => {
                verdict = verdict.and(Verdict::no_if(!is_done(&outcome)));
                files.push(outcome);
            }
            Err(error) => {
                bar.suspend(|| output.error(&error.into()));
                verdict = Verdict::Failed;
            }
        }
    }
    bar.finish_and_clear();
    output.result("warm", &WarmReport { files }, |report| {
        let shown = report.files.iter().map(|file| show(file, arguments));
        format!(
            "{}{}",
            shown.collect::<String>(),
            meaning_of(report, arguments)
        )
    })?;
    Ok(verdict)
}

/// What the outcome means for those who run the files.
fn meaning_of(report: &WarmReport, arguments: &Arguments) -> Meaning {
    let files = report.files.iter();
    let files: Vec<WarmedText<'_>> = files.map(|file| warmed_text(file, arguments)).collect();
    meaning::warmed(&files, of_this_host())
}

fn warmed_text<'f>(file: &'f WarmOutcome, arguments: &Arguments) -> WarmedText<'f> {
    let bytes = |windows: usize| (windows as u64).saturating_mul(file.leaf.bytes());
    WarmedText {
        path: &file.path,
        windows: bytes(file.windows),
        huge: bytes(file.huge),
        is_in_largest_folios: file.is_in_largest_folios(),
        only_looked: arguments.check,
        leaves: file.leaves,
    }
}

/// Whether all windows are huge, or text without a window is in the largest folios, and, where a node was
/// named, all text lies there. Without a window, only the node counts then.
fn is_done(outcome: &WarmOutcome) -> bool {
    match &outcome.nodes {
        Some(placed) => placed.elsewhere == 0 && (outcome.windows == 0 || outcome.is_warm()),
        None => outcome.is_warm() || outcome.is_in_largest_folios(),
    }
}

impl Arguments {
    /// Warms one file, by leaves unless these do harm here.
    fn warm(
        &self,
        program: &ProgramOnHost<'_>,
        nodes: Option<&[Node]>,
    ) -> Result<WarmOutcome, Error> {
        let policy = self.policy();
        // Without a window there is no leaf, and a look changes nothing.
        let may_harm =
            !self.leaves && policy != WarmPolicy::LookOnly && !program.windows().is_empty();
        let leaves = if may_harm {
            leaf_use_here(Deed::Fill)
        } else {
            LeafUse::Leaves
        };
        match (leaves, nodes) {
            (LeafUse::Leaves, Some(nodes)) => warm_on(program, policy, nodes),
            (LeafUse::Leaves, None) => warm(program, policy),
            (LeafUse::Tables | LeafUse::AsItIs, _) => warm_without_leaves(program, policy),
        }
    }
}

/// A file to warm.
struct Wanted {
    path: PathBuf,
    /// Whether it is a library that the user did not name.
    is_library: bool,
}

/// The files to warm.
fn wanted(arguments: &Arguments, output: &Output) -> Vec<Wanted> {
    let named = arguments.paths.iter().map(|path| Wanted {
        path: path.clone(),
        is_library: false,
    });
    let mut wanted: Vec<Wanted> = named.collect();
    if !arguments.with_libs {
        return wanted;
    }
    // A path that is not a program is reported at its turn.
    let libraries = libraries_of(&arguments.paths);
    for missing in &libraries.missing {
        let (needed_by, name) = (shown(&missing.needed_by), shown(&missing.name));
        output.warn(format_args!(
            "{needed_by}: needs {name}, which was not found"
        ));
    }
    wanted.extend(libraries.found.into_iter().map(|path| Wanted {
        path,
        is_library: true,
    }));
    wanted
}
