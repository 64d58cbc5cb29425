//! Brings text that holds no window into the largest folios that its file can fill.
//!
//! No leaf maps such text. Larger folios still make each start shorter, since the kernel counts a folio
//! once for all pages that it maps of it (lab/results/folios.md).

use std::fs::File;
use std::io;

use hugetext_host::{FolioCount, PageMapError, folio_count};
use hugetext_leaf::{Leaf, Span, least_folios};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cached_text::map_cached;
use crate::error::Error;
use crate::method::{WarmMethod, WarmPolicy};
use crate::on_host::ProgramOnHost;
use crate::program::Program;
use crate::replace::replace;

/// The folios that hold text without a window, before and after they were enlarged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextFolios {
    /// The number of folios if each is as large as the file allows.
    pub least: u64,
    /// What held the text before.
    pub before: CachedIn,
    /// What holds it now.
    pub now: CachedIn,
}

impl TextFolios {
    /// Whether all text is known to be in the largest folios.
    pub fn are_largest(&self) -> bool {
        matches!(self.now, CachedIn::Folios(now) if now <= self.least)
    }
}

/// How the page cache holds a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachedIn {
    /// All of it, in this number of folios.
    Folios(u64),
    /// Some pages are not cached.
    Absent,
    /// The kernel shows folios below a PMD leaf to root only (/proc/kpageflags).
    Hidden,
}

/// What enlarging gave.
pub(crate) struct Enlarged {
    pub(crate) folios: TextFolios,
    /// The method that made folios larger; `None` if none did.
    pub(crate) method: Option<WarmMethod>,
    /// Whether processes that map the file kept pages of it in small folios.
    pub(crate) is_in_use: bool,
    /// Why the file was not replaced.
    pub(crate) error: Option<io::Error>,
}

/// Brings the text of a program without windows into the largest folios, as far as `policy` allows.
/// `None` if it has no text, or if its filesystem has no large folios.
pub(crate) fn enlarge(
    program: &ProgramOnHost<'_>,
    policy: WarmPolicy,
) -> Result<Option<Enlarged>, Error> {
    let (text, loaded) = (program.text_pages(), program.loaded_pieces());
    let failed = Error::io(&program.program.path);
    let leaf = program.host.leaf;
    let Some(mut enlarged) = Enlarged::before(program, &text, leaf)? else {
        return Ok(None);
    };
    if enlarged.folios.are_largest() {
        enlarged.method = Some(WarmMethod::AlreadyHuge);
    } else if policy != WarmPolicy::LookOnly {
        let in_use = reread(program, loaded).map_err(&failed)?;
        let now = cached_in(program, &text).map_err(&failed)?;
        enlarged.found(now, WarmMethod::Reread);
        if in_use > 0 && !enlarged.folios.are_largest() {
            enlarged.is_in_use = true;
            if policy.replaces() {
                enlarged.replace(program, &text, (policy, leaf), &failed)?;
            }
        }
    }
    Ok(Some(enlarged))
}

/// Writes a program anew in folios of half a leaf, which no leaf maps. If `is_huge`, some of it lies in larger ones now.
/// `None` as for [`enlarge`].
pub(crate) fn halve(
    program: &ProgramOnHost<'_>,
    policy: WarmPolicy,
    is_huge: bool,
) -> Result<Option<Enlarged>, Error> {
    let (text, half) = (program.text_pages(), program.host.leaf.half());
    let Some(mut halved) = Enlarged::before(program, &text, half)? else {
        return Ok(None);
    };
    if halved.folios.are_largest() && !is_huge {
        halved.method = Some(WarmMethod::AlreadyHuge);
        return Ok(Some(halved));
    }
    let failed = Error::io(&program.program.path);
    halved.replace(program, &text, (policy, half), &failed)?;
    let is_written = halved.error.is_none();
    halved.method = is_written.then_some(WarmMethod::Replace);
    Ok(Some(halved))
}

impl Enlarged {
    /// Text whose folios may be as large as `largest`, before anything is done with it.
    fn before(
        program: &ProgramOnHost<'_>,
        text: &[Span],
        largest: Leaf,
    ) -> Result<Option<Enlarged>, Error> {
        let least = least(program, text, largest);
        if least == 0 || program.large_folio_obstacle(program.host.leaf).is_some() {
            return Ok(None);
        }
        let before = cached_in(program, text).map_err(Error::io(&program.program.path))?;
        Ok(Some(Enlarged {
            folios: TextFolios {
                least,
                before,
                now: before,
            },
            method: None,
            is_in_use: false,
            error: None,
        }))
    }

    /// Puts a new file in the place of one that is in use.
    fn replace(
        &mut self,
        program: &ProgramOnHost<'_>,
        text: &[Span],
        (policy, largest): (WarmPolicy, Leaf),
        failed: &impl Fn(io::Error) -> Error,
    ) -> Result<(), Error> {
        let path = &program.program.path;
        match replace(&program.program, largest, policy.privileged()) {
            Ok(file) => {
                let new = Program::from_file(path, file).map_err(|error| error.at(path))?;
                let now = cached_in(&program.moved_to(new), text).map_err(failed)?;
                self.found(now, WarmMethod::Replace);
                self.is_in_use = false;
            }
            Err(error) => self.error = Some(error),
        }
        Ok(())
    }

    /// What `method` gave.
    fn found(&mut self, now: CachedIn, method: WarmMethod) {
        let is_better = match (self.folios.now, now) {
            (CachedIn::Folios(before), CachedIn::Folios(now)) => now < before,
            (_, now) => now != CachedIn::Absent,
        };
        self.method = if is_better { Some(method) } else { self.method };
        self.folios.now = now;
    }
}

/// The number of folios that hold the text if each is as large as the file allows.
fn least(program: &ProgramOnHost<'_>, text: &[Span], largest: Leaf) -> u64 {
    let len = program.program.metadata.len();
    let page = program.host.page;
    let each = text.iter();
    each.map(|text| least_folios(*text, len, page, largest))
        .sum()
}

/// How the page cache holds the text now.
fn cached_in(program: &ProgramOnHost<'_>, text: &[Span]) -> io::Result<CachedIn> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut folios = 0_u64;
    for text in text {
        let mapping = map_cached(program, *text)?;
        match folio_count(&pagemap, mapping.addresses()) {
            Ok(FolioCount { pages, .. }) if pages < text.len() / program.host.page.bytes() => {
                return Ok(CachedIn::Absent);
            }
            Ok(found) => folios = folios.saturating_add(found.folios),
            Err(PageMapError::Hidden) => return Ok(CachedIn::Hidden),
            Err(PageMapError::Io(error)) => return Err(error),
        }
    }
    Ok(CachedIn::Folios(folios))
}

/// Drops what the program loads and reads it with MADV_HUGEPAGE: a start maps its read-only data and its data
/// too. Gives the number of pieces of PMD size of which a page stayed, because a process maps or writes it.
fn reread(program: &ProgramOnHost<'_>, loaded: Vec<Span>) -> io::Result<usize> {
    let mut in_use = 0_usize;
    for whole in loaded {
        let windows = program.file_windows(whole, program.host.leaf);
        let state = windows.state()?;
        in_use = in_use.saturating_add(windows.reread(&state)?);
    }
    Ok(in_use)
}
