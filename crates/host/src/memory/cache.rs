//! The page cache of a file, window by window.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;

use hugetext_leaf::{Leaf, Span};
use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use super::mapping::FileMapping;
use super::pagemap;

/// The state of one window in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowState {
    /// One folio of the leaf's order: every process that maps it congruently gets a leaf.
    Huge,
    /// Cached as a whole, in smaller folios.
    Small,
    /// Some or none of it.
    Absent,
}

/// The states of a run of windows, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheState {
    /// One entry per window.
    pub windows: Vec<WindowState>,
}

impl CacheState {
    /// Windows in the given state.
    pub fn count(&self, state: WindowState) -> usize {
        self.windows
            .iter()
            .filter(|window| **window == state)
            .count()
    }

    /// Whether every window is huge.
    pub fn is_warm(&self) -> bool {
        self.count(WindowState::Huge) == self.windows.len()
    }
}

/// The most windows viewed in one mapping: with leaves of 2 MiB, 32 MiB of this process's memory.
const PIECE: u64 = 16;

/// A run of whole windows of a file, mapped so that its page cache can be viewed and changed.
#[derive(Debug)]
pub struct FileWindows<'f> {
    file: &'f File,
    range: Span,
    leaf: Leaf,
    /// Maps a range of the file, executable or not.
    view: fn(&File, Span, Leaf) -> io::Result<FileMapping>,
}

impl<'f> FileWindows<'f> {
    /// The windows in `range`: file offsets. It begins at a multiple of `leaf`. It ends at another one, or at
    /// the page that holds the end of the file; the last window is shorter then, and never huge.
    pub fn new(file: &'f File, range: Span, leaf: Leaf) -> FileWindows<'f> {
        FileWindows {
            file,
            range,
            leaf,
            view: FileMapping::new,
        }
    }

    /// As [`FileWindows::new`], and never mapped executable: for files of other users. Kernels that
    /// collapse text by CONFIG_READ_ONLY_THP_FOR_FS do not collapse such a mapping.
    pub fn readable(file: &'f File, range: Span, leaf: Leaf) -> FileWindows<'f> {
        FileWindows {
            view: FileMapping::readable,
            ..FileWindows::new(file, range, leaf)
        }
    }

    /// File ranges of the windows.
    fn each(&self) -> impl Iterator<Item = Span> + use<> {
        let (range, step) = (self.range, self.leaf.bytes());
        (range.start..range.end)
            .step_by(step as usize)
            .map(move |at| Span::new(at, range.end.min(at + step)))
    }

    /// A fresh mapping of the run, congruent modulo the leaf.
    pub fn map(&self) -> io::Result<FileMapping> {
        (self.view)(self.file, self.range, self.leaf)
    }

    /// Views the state without changing it: the first page of each window is mapped in this process
    /// if it is cached, and the page map tells by which leaf. Nothing is read from disk, except for
    /// a user who neither owns the file nor may write it: mincore tells such a user that all pages
    /// are cached.
    pub fn state(&self) -> io::Result<CacheState> {
        let mut windows = Vec::new();
        let piece = self.leaf.bytes().saturating_mul(PIECE);
        let mut start = self.range.start;
        // Every process that maps huge pages is charged for all of them, so they are not mapped at
        // once.
        while start < self.range.end {
            let end = self.range.end.min(start.saturating_add(piece));
            let part = FileWindows {
                range: Span::new(start, end),
                ..*self
            };
            windows.extend(part.state_at_once()?.windows);
            start = end;
        }
        Ok(CacheState { windows })
    }

    fn state_at_once(&self) -> io::Result<CacheState> {
        let mapping = self.map()?;
        // With this advice, faults read nothing ahead.
        mapping.expect_random()?;
        let page = rustix::param::page_size() as u64;
        let holds = |range| -> io::Result<bool> {
            Ok(mapping.resident(range)?.into_iter().all(|page| page))
        };
        let mut begun = Vec::new();
        for window in self.each() {
            let first = Span::new(window.start, window.start + page);
            let is_cached = holds(first)?;
            if is_cached {
                mapping.touch(first)?;
            }
            begun.push(is_cached);
        }
        if !begun.contains(&true) {
            let windows = vec![WindowState::Absent; begun.len()];
            return Ok(CacheState { windows });
        }
        let huge = pagemap::leaf_spans(mapping.addresses(), self.leaf)?;
        let base = mapping.addresses().start;
        let state = |(window, begun): (Span, bool)| -> io::Result<WindowState> {
            let address = base + (window.start - self.range.start);
            // mincore looks for pages one by one, which takes longer than all other steps. It is
            // skipped where one leaf maps the window, which is then wholly cached, and where the
            // first page is absent.
            Ok(if huge.iter().any(|span| span.contains(address)) {
                WindowState::Huge
            } else if begun && holds(window)? {
                WindowState::Small
            } else {
                WindowState::Absent
            })
        };
        let windows = self.each().zip(begun).map(state);
        Ok(CacheState {
            windows: windows.collect::<io::Result<_>>()?,
        })
    }

    /// Method: makes the windows that are not huge yet huge by MADV_COLLAPSE. It continues after a
    /// window that fails, and returns the last error if none succeeded.
    pub fn collapse(&self, state: &CacheState) -> io::Result<()> {
        let mapping = self.map()?;
        let mut outcome = Ok(());
        for (window, _) in self
            .each()
            .zip(&state.windows)
            .filter(|(_, s)| **s != WindowState::Huge)
        {
            match mapping.collapse(window) {
                Ok(()) => outcome = Ok(()),
                Err(error) if outcome.is_ok() => outcome = Err(error),
                Err(_) => {}
            }
        }
        outcome
    }

    /// Method: drops the windows that are not huge yet and reads them again with MADV_HUGEPAGE.
    /// Dirty pages are written first; pages that a process maps stay. Gives the number of windows of
    /// which a page stayed.
    pub fn reread(&self, state: &CacheState) -> io::Result<usize> {
        // Some filesystems do not let a reader sync. Dirty pages then stay cached.
        let _ = rustix::fs::fdatasync(self.file);
        let cold = self.each().zip(&state.windows);
        let cold = cold.filter(|(_, state)| **state != WindowState::Huge);
        let mapping = self.map()?;
        let (mut empty, mut kept) = (Vec::new(), Vec::new());
        for (window, _) in cold {
            self.drop_cached(window)?;
            if mapping.resident(window)?.contains(&true) {
                kept.push(window);
            } else {
                empty.push(window);
            }
        }
        mapping.want_huge()?;
        // A fault reads its window and the next one. If pages of its own are in the way, it reads both in
        // small folios (page_cache_ra_order() in mm/readahead.c). So what was kept comes last.
        for window in empty.iter().chain(&kept) {
            mapping.touch(*window)?;
        }
        Ok(kept.len())
    }

    /// Drops the run from the page cache and reads it as a plain mapping would, into the small
    /// folios of fault readahead: the state of a machine without this project. Pages that a process
    /// maps stay unchanged.
    pub fn make_small(&self) -> io::Result<()> {
        self.forget()?;
        self.map()?.touch(self.range)
    }

    /// Drops the run from the page cache, so that the next start reads it. Pages that a process maps stay.
    pub fn forget(&self) -> io::Result<()> {
        // Pages that were not written yet would stay.
        let _ = rustix::fs::fdatasync(self.file);
        self.drop_cached(self.range)
    }

    fn drop_cached(&self, range: Span) -> io::Result<()> {
        Ok(fadvise(
            self.file,
            range.start,
            NonZeroU64::new(range.len()),
            Advice::DontNeed,
        )?)
    }
}
