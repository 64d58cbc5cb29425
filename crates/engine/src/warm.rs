//! Brings text into folios of the leaf's order in the page cache, by the cheapest method that works
//! here. Every method is measured; one that did not work is never reported as done.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hugetext_host::{Holder, recent_holders};
use hugetext_leaf::verdict::{Deed, LeafUse, Verdict};
use hugetext_leaf::{Cause, Leaf, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, plain};
use crate::folios::{Enlarged, TextFolios, enlarge, halve};
use crate::method::{FailedMethod, WarmMethod, WarmPolicy};
use crate::on_host::ProgramOnHost;
use crate::page_cache::PageCache;
use crate::placed_text::PlacedText;
use crate::program::Program;
use crate::replace::replace;

/// What warming one file gave.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WarmOutcome {
    /// The file.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The leaf that it was warmed for.
    pub leaf: Leaf,
    /// Windows of read-only segments.
    pub windows: usize,
    /// Windows that were huge before.
    pub huge_before: usize,
    /// Windows that are huge now.
    pub huge: usize,
    /// The last method that made a window huge or, without windows, folios larger; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<WarmMethod>,
    /// The methods that were tried and left windows behind.
    #[serde(rename = "tried", skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedMethod>,
    /// Why the layout leaves nothing, or only a part, to warm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Whether small folios of it are in use, so that they cannot be dropped.
    #[serde(skip)]
    pub is_in_use: bool,
    /// The processes that map the file, if small folios of it are in use, and if somebody asked
    /// ([`WarmOutcome::with_holders`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// The folios of text that holds no window; absent if it has one, or if its filesystem has no large folios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folios: Option<TextFolios>,
    /// On which nodes its text lies; absent unless it was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<PlacedText>,
    /// How its windows are to be mapped: without leaves where these do harm, unless somebody asked for leaves.
    pub leaves: LeafUse,
    /// How long it took.
    #[serde(rename = "took_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub took: Duration,
}

impl WarmOutcome {
    /// The same with the processes that keep small folios of `file` in use. The list of all processes is read for
    /// that, so only who shows them asks.
    pub fn with_holders(self, file: &File) -> WarmOutcome {
        let holders = if self.is_in_use && self.holders.is_empty() {
            recent_holders(file).unwrap_or_default()
        } else {
            self.holders
        };
        WarmOutcome { holders, ..self }
    }

    /// Whether the file has windows and all of them are huge.
    pub fn is_warm(&self) -> bool {
        self.windows > 0 && self.huge == self.windows
    }

    /// Whether no leaf is to map it, and its text is known to be in the largest folios that are allowed and that its file can
    /// fill.
    pub fn is_in_largest_folios(&self) -> bool {
        self.folios.is_some_and(|folios| folios.are_largest())
    }

    /// Whether a smaller leaf cannot add anything: windows of this leaf are huge, or could be.
    fn settles(&self) -> bool {
        self.huge > 0 || (self.windows > 0 && self.causes.is_empty())
    }

    /// The results of the methods that failed, and the reasons that no method works here, in one line.
    pub fn obstacle(&self) -> String {
        let failed = self.failed.iter().map(ToString::to_string);
        let causes = self.causes.iter().map(ToString::to_string);
        failed.chain(causes).collect::<Vec<_>>().join("; ")
    }
}

/// Warms one program for the largest leaf that its text can fill and its filesystem can hold. Text without a
/// window is brought into the largest folios that its file can fill.
pub fn warm(program: &ProgramOnHost<'_>, policy: WarmPolicy) -> Result<WarmOutcome, Error> {
    program.program.ensure_native()?;
    let outcome = warm_windows(program, policy)?;
    if outcome.windows > 0 {
        return Ok(outcome);
    }
    let start = Instant::now();
    let enlarged = enlarge(program, policy)?;
    let outcome = with_folios(outcome, enlarged);
    Ok(WarmOutcome {
        took: outcome.took.saturating_add(start.elapsed()),
        ..outcome
    })
}

/// Warms one program as [`warm`] does, where leaves do harm: no window becomes huge. A file that may be written anew comes
/// into folios of half a leaf, which starts map whole as well; its own page cache stays as it is.
pub fn warm_without_leaves(
    program: &ProgramOnHost<'_>,
    policy: WarmPolicy,
) -> Result<WarmOutcome, Error> {
    let start = Instant::now();
    let looked = warm(program, WarmPolicy::LookOnly)?;
    if looked.windows == 0 {
        return warm(program, policy);
    }
    let deed = if policy.replaces() {
        Deed::Write
    } else {
        Deed::Fill
    };
    let leaves = LeafUse::of(Verdict::Harmful, deed);
    let outcome = match leaves {
        LeafUse::Tables => {
            let halved = halve(program, policy, looked.huge > 0)?;
            // The file at the path is the new one, which has no huge window.
            let is_new = halved.as_ref().is_some_and(|halved| halved.error.is_none());
            let huge = if is_new { 0 } else { looked.huge };
            with_folios(
                WarmOutcome {
                    huge,
                    method: None,
                    ..looked
                },
                halved,
            )
        }
        LeafUse::Leaves | LeafUse::AsItIs => looked,
    };
    Ok(WarmOutcome {
        leaves,
        took: start.elapsed(),
        ..outcome
    })
}

/// What enlarging folios added to what was found.
fn with_folios(outcome: WarmOutcome, enlarged: Option<Enlarged>) -> WarmOutcome {
    let Some(enlarged) = enlarged else {
        return outcome;
    };
    let failed = enlarged.error.map(|error| FailedMethod {
        method: WarmMethod::Replace,
        error: Some(plain(error)),
        left: 0,
        in_use: 0,
    });
    WarmOutcome {
        folios: Some(enlarged.folios),
        method: enlarged.method,
        is_in_use: enlarged.is_in_use,
        failed: failed.into_iter().collect(),
        ..outcome
    }
}

/// Warms a program without windows in place, unless a process maps its file: the pages of that process would stay
/// in small folios, and those around them would be read into small folios again.
/// `users` tells which processes map a file: as of now, or of a short time ago.
pub fn warm_unused(
    program: &ProgramOnHost<'_>,
    users: fn(&File) -> io::Result<Vec<Holder>>,
) -> Result<WarmOutcome, Error> {
    let looked = warm(program, WarmPolicy::LookOnly)?;
    if looked.folios.is_none() || looked.is_in_largest_folios() {
        return Ok(looked);
    }
    let file = &program.program.file;
    let holders = users(file).map_err(Error::io(&program.program.path))?;
    if holders.is_empty() {
        warm(program, WarmPolicy::InPlace)
    } else {
        Ok(WarmOutcome {
            is_in_use: true,
            holders,
            ..looked
        })
    }
}

/// Warms the windows of one program.
fn warm_windows(program: &ProgramOnHost<'_>, policy: WarmPolicy) -> Result<WarmOutcome, Error> {
    let mut first: Option<WarmOutcome> = None;
    for leaf in program.host.leaves() {
        let windows = program.windows_of(leaf);
        let warmed = match (warm_ranges(program, &windows, leaf, policy), first.take()) {
            (Ok(warmed), _) if warmed.settles() => return Ok(warmed),
            // Only root may see which folios lie behind blocks of PTEs.
            (Err(error), None) => return Err(error),
            (Ok(warmed), None) => warmed,
            (smaller, Some(larger)) => match smaller {
                Ok(smaller) if larger.windows == 0 && smaller.windows > 0 => smaller,
                _ => larger,
            },
        };
        first = Some(warmed);
    }
    first.ok_or_else(|| Error::NoLeaf {
        path: program.program.path.clone(),
    })
}

/// Warms some windows of a program: all or a part of those that [`ProgramOnHost::windows_of`] gives
/// for `leaf`. Climbs the ladder until each of them is huge.
pub fn warm_ranges(
    program: &ProgramOnHost<'_>,
    ranges: &[Span],
    leaf: Leaf,
    policy: WarmPolicy,
) -> Result<WarmOutcome, Error> {
    let start = Instant::now();
    let cache = program.page_cache(ranges, leaf)?;
    let mut outcome = WarmOutcome {
        path: program.program.path.clone(),
        leaf,
        windows: cache.total(),
        huge_before: cache.huge(),
        huge: cache.huge(),
        method: (cache.total() > 0 && cache.is_warm()).then_some(WarmMethod::AlreadyHuge),
        failed: Vec::new(),
        causes: Vec::new(),
        is_in_use: false,
        holders: Vec::new(),
        folios: None,
        nodes: None,
        leaves: LeafUse::Leaves,
        took: Duration::ZERO,
    };
    if outcome.windows == 0 {
        outcome.causes = program.layout_causes(leaf);
    } else if policy != WarmPolicy::LookOnly && !cache.is_warm() {
        let mut ladder = Ladder {
            program,
            ranges,
            policy,
            cache,
        };
        ladder.climb(&mut outcome)?;
        if !ladder.cache.is_warm() {
            outcome.causes.extend(program.large_folio_obstacle(leaf));
            outcome.is_in_use = outcome.failed.iter().any(|method| method.in_use > 0);
        }
    }
    outcome.took = start.elapsed();
    Ok(outcome)
}

/// The windows of a file on their way up.
struct Ladder<'p, 'h> {
    program: &'p ProgramOnHost<'h>,
    ranges: &'p [Span],
    policy: WarmPolicy,
    cache: PageCache,
}

impl Ladder<'_, '_> {
    /// Tries the methods, cheapest first, until every window is huge.
    fn climb(&mut self, outcome: &mut WarmOutcome) -> Result<(), Error> {
        for method in [
            WarmMethod::Collapse,
            WarmMethod::Reread,
            WarmMethod::Replace,
        ] {
            if !self.policy.permits(method)
                || (method == WarmMethod::Collapse && !self.may_collapse())
            {
                continue;
            }
            let tried = self.exhaust(method, outcome)?;
            if self.cache.is_warm() {
                return Ok(());
            }
            let left = self.cache.total().saturating_sub(self.cache.huge());
            let (error, in_use) = match tried {
                Ok(in_use) => (None, in_use.min(left)),
                Err(error) => (Some(plain(error)), 0),
            };
            outcome.failed.push(FailedMethod {
                method,
                error,
                left,
                in_use,
            });
        }
        Ok(())
    }

    fn may_collapse(&self) -> bool {
        let host = self.program.host;
        // MADV_COLLAPSE makes PMD leaves only.
        self.cache.leaf() == host.leaf && host.may_collapse(self.program.pages)
    }

    /// Tries a method again as long as each try makes more windows huge: concurrent readahead of
    /// another process can lose one at the first try. A file is replaced only once. Gives the number of
    /// windows in use at the last try.
    fn exhaust(
        &mut self,
        method: WarmMethod,
        outcome: &mut WarmOutcome,
    ) -> Result<io::Result<usize>, Error> {
        loop {
            let tried = self.attempt(method)?;
            if self.cache.huge() <= outcome.huge {
                return Ok(tried);
            }
            outcome.huge = self.cache.huge();
            outcome.method = Some(method);
            if self.cache.is_warm() || method == WarmMethod::Replace {
                return Ok(tried);
            }
        }
    }

    /// Tries a method once, and looks at what it gave. Gives the number of windows in use.
    fn attempt(&mut self, method: WarmMethod) -> Result<io::Result<usize>, Error> {
        let (program, leaf) = (self.program, self.cache.leaf());
        if method == WarmMethod::Replace {
            let replaced = replace(&program.program, leaf, self.policy.privileged());
            let file = match replaced {
                Ok(file) => file,
                Err(error) => return Ok(Err(error)),
            };
            let path = &program.program.path;
            let new = Program::from_file(path, file).map_err(|error| error.at(path))?;
            self.cache = program.moved_to(new).page_cache(self.ranges, leaf)?;
            return Ok(Ok(0));
        }
        let tried = self.cache.ranges().iter().map(|cached| {
            let windows = program.file_windows(cached.range, leaf);
            match method {
                WarmMethod::Collapse => windows.collapse(&cached.state).map(|()| 0),
                _ => windows.reread(&cached.state),
            }
        });
        let tried = tried.sum();
        self.cache = program.page_cache(self.ranges, leaf)?;
        Ok(tried)
    }
}
