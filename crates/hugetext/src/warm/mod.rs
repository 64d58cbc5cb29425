//! `hugetext warm`: brings text into folios of the leaf's order in the page cache, by the cheapest
//! method that works here. Every method (rung) is measured; one that did not work is never reported
//! as done.

mod cache;
mod ground;
mod show;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use hugetext_host::{Holder, holders};
use hugetext_leaf::{Bias, Cause, Leaf, Span, reach, windows_in_file};
use hugetext_loader::{Environment, Finder};
use serde::Serialize;

use crate::Verdict;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::path::{lossy, shown};
use crate::program::Program;
use cache::Cache;
pub(crate) use ground::Ground;
use show::{rung_name, show};

/// Bring the text of programs into huge folios of the page cache
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs and shared objects
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Change nothing; exit with 1 if a file is not warm
    #[arg(long, conflicts_with = "replace")]
    check: bool,
    /// If nothing else works, write the file to a new inode and rename it into place
    #[arg(long)]
    replace: bool,
    /// With --replace: also replace files with set-id bits or capabilities; the new file keeps them
    #[arg(long, requires = "replace", conflicts_with = "check")]
    privileged: bool,
    /// Also warm the shared objects that each program needs
    #[arg(long)]
    with_libs: bool,
}

/// The ways to a warm file, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rung {
    /// The file was already warm.
    AlreadyHuge,
    /// MADV_COLLAPSE.
    Collapse,
    /// Dropped from the page cache and read again with MADV_HUGEPAGE.
    Reread,
    /// A new inode, written in windows and renamed into place.
    Replace,
}

/// The result for one file.
#[derive(Debug, Serialize)]
pub(crate) struct Warmed {
    #[serde(serialize_with = "lossy::path")]
    pub(crate) path: PathBuf,
    pub(crate) leaf: Leaf,
    /// Windows of read-only segments.
    pub(crate) windows: usize,
    pub(crate) huge_before: usize,
    pub(crate) huge: usize,
    /// The last rung that made a window huge; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rung: Option<Rung>,
    /// The error or result of each rung that was tried without success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tried: Vec<Tried>,
    /// Why the layout leaves nothing, or only a part, to warm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    /// The processes that keep small folios in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) holders: Vec<Holder>,
    pub(crate) microseconds: u64,
}

/// The result of a rung that met no error but did not finish.
const LEFT_BEHIND: &str = "left windows in small folios";

/// A rung that left windows behind.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    rung: Rung,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Warmed {
    pub(crate) fn is_warm(&self) -> bool {
        self.windows > 0 && self.huge == self.windows
    }

    /// Whether a smaller leaf cannot add anything: windows of this leaf are huge, or could be.
    fn settles(&self) -> bool {
        self.huge > 0 || (self.windows > 0 && self.causes.is_empty())
    }

    /// The results of the rungs that were tried, and the reasons that no rung works here.
    pub(crate) fn obstacle(&self) -> String {
        let said = self.tried.iter().map(|tried| {
            let said = tried.error.as_deref().unwrap_or(LEFT_BEHIND);
            format!("{}: {said}", rung_name(tried.rung))
        });
        let causes = self.causes.iter().map(ToString::to_string);
        said.chain(causes).collect::<Vec<_>>().join("; ")
    }
}

#[derive(Debug, Serialize)]
struct Report {
    files: Vec<Warmed>,
}

/// Runs `hugetext warm`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let ground = Ground::this()?;
    let mut verdict = Verdict::Done;
    let mut files = Vec::new();
    let wanted = wanted(arguments, output);
    let bar = output.progress("warming", wanted.len() as u64);
    for (path, library) in wanted {
        bar.inc(1);
        let climb = Climb {
            check: arguments.check,
            replace: arguments.replace,
            privileged: arguments.privileged,
        };
        match Program::open(&path).and_then(|program| warm(&program, &ground, climb)) {
            // A small library has no window to warm. The answer stays yes.
            Ok(warmed) if library && warmed.windows == 0 => {}
            Ok(warmed) => {
                verdict = verdict.and(if warmed.is_warm() {
                    Verdict::Done
                } else {
                    Verdict::No
                });
                files.push(warmed);
            }
            Err(failure) => {
                bar.suspend(|| output.error(&failure));
                verdict = Verdict::Failed;
            }
        }
    }
    bar.finish_and_clear();
    output.result("warm", &Report { files }, |report| {
        report
            .files
            .iter()
            .map(|file| show(file, arguments))
            .collect()
    })?;
    Ok(verdict)
}

/// The files to warm. Each tells whether it is a library that the user did not name.
fn wanted(arguments: &Arguments, output: &Output) -> Vec<(PathBuf, bool)> {
    let mut wanted: Vec<(PathBuf, bool)> = arguments
        .paths
        .iter()
        .map(|path| (path.clone(), false))
        .collect();
    if !arguments.with_libs {
        return wanted;
    }
    let environment = Environment::current();
    let mut finder = Finder::new(&environment);
    let mut seen = HashSet::new();
    // A path that is not a program is reported at its turn.
    let closures = arguments
        .paths
        .iter()
        .filter_map(|path| finder.closure(path).ok());
    for closure in closures {
        for missing in &closure.missing {
            let (needed_by, name) = (shown(&missing.needed_by), shown(&missing.name));
            output.warn(format_args!(
                "{needed_by}: needs {name}, which was not found"
            ));
        }
        // The first object is the program itself.
        for object in closure.objects.into_iter().skip(1) {
            if seen.insert(object.inode) {
                wanted.push((object.path, true));
            }
        }
    }
    wanted
}

/// The rungs that the user permits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Climb {
    pub(crate) check: bool,
    pub(crate) replace: bool,
    /// Also replaces files with set-id bits or capabilities.
    privileged: bool,
}

impl Climb {
    /// No rung: nothing is changed.
    pub(crate) fn look() -> Climb {
        Climb {
            check: true,
            replace: false,
            privileged: false,
        }
    }

    /// The rungs that change no file.
    pub(crate) fn in_place() -> Climb {
        Climb {
            check: false,
            replace: false,
            privileged: false,
        }
    }
}

/// The windows of read-only segments, as ranges of the file.
pub(crate) fn windows(program: &Program, ground: &Ground) -> Result<Vec<Span>, Failure> {
    let segments = &program.image.segments;
    let (page, bias) = (ground.page(), ground.bias(program)?);
    Ok(windows_in_file(segments, page, ground.leaf, bias))
}

/// Warms one program for the largest leaf that its text can fill and its filesystem can hold.
pub(crate) fn warm(program: &Program, ground: &Ground, climb: Climb) -> Result<Warmed, Failure> {
    program.may_run_here()?;
    let mut first: Option<Warmed> = None;
    for leaf in ground.leaves() {
        let warmed = match (warm_for(leaf, program, ground, climb), first.take()) {
            (Ok(warmed), _) if warmed.settles() => return Ok(warmed),
            // Only root may see which folios lie behind blocks of PTEs.
            (Err(failure), None) => return Err(failure),
            (Ok(warmed), None) => warmed,
            (smaller, Some(larger)) => match smaller {
                Ok(smaller) if larger.windows == 0 && smaller.windows > 0 => smaller,
                _ => larger,
            },
        };
        first = Some(warmed);
    }
    first.ok_or_else(|| {
        Failure::at(
            &program.path,
            "this machine maps no leaf larger than the base page",
        )
    })
}

/// Climbs the ladder for one program until every window of `leaf` is huge.
fn warm_for(
    leaf: Leaf,
    program: &Program,
    ground: &Ground,
    climb: Climb,
) -> Result<Warmed, Failure> {
    let start = Instant::now();
    let pages = program.page_cache(&ground.mounts)?;
    let (page, bias) = (ground.page(), ground.bias(program)?);
    let ranges = windows_in_file(&program.image.segments, page, leaf, bias);
    let mut cache = Cache::look(program, &ranges, leaf)?;
    let mut warmed = Warmed {
        path: program.path.clone(),
        leaf,
        windows: cache.total(),
        huge_before: cache.huge(),
        huge: cache.huge(),
        rung: (cache.total() > 0 && cache.is_warm()).then_some(Rung::AlreadyHuge),
        tried: Vec::new(),
        causes: Vec::new(),
        holders: Vec::new(),
        microseconds: 0,
    };
    if warmed.windows == 0 {
        warmed.causes = layout_causes(program, page, leaf, bias);
    } else if !climb.check && !cache.is_warm() {
        // MADV_COLLAPSE makes PMD leaves only.
        let collapse = leaf == ground.leaf && ground.collapses(pages);
        for rung in ladder(collapse, climb.replace) {
            let outcome = cache.climb_on(rung, climb, program, &ranges, &mut warmed)?;
            if cache.is_warm() {
                break;
            }
            let error = outcome.err().map(plain);
            warmed.tried.push(Tried { rung, error });
        }
        if !cache.is_warm() {
            warmed.causes.extend(ground.obstacle(pages, leaf));
            warmed.holders = holders(&program.file).unwrap_or_default();
        }
    }
    warmed.microseconds = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(warmed)
}

/// The rungs to try, cheapest first.
fn ladder(collapse: bool, replace: bool) -> impl Iterator<Item = Rung> {
    let rungs = [
        collapse.then_some(Rung::Collapse),
        Some(Rung::Reread),
        replace.then_some(Rung::Replace),
    ];
    rungs.into_iter().flatten()
}

fn layout_causes(program: &Program, page: Leaf, leaf: Leaf, bias: Bias) -> Vec<Cause> {
    let reach = reach(&program.image.segments, page, leaf, bias);
    reach
        .segments
        .into_iter()
        .flat_map(|text| text.causes)
        .collect()
}
