//! The page cache of a file's windows.

use std::io;

use hugetext_host::{CacheState, FileWindows, WindowState};
use hugetext_leaf::{Leaf, Span};

/// The state of a file's windows in the page cache, as seen at one time.
#[derive(Debug)]
pub struct PageCache {
    leaf: Leaf,
    ranges: Vec<CachedRange>,
}

/// Adjacent windows of a file with their states.
#[derive(Debug)]
pub struct CachedRange {
    /// The windows, as a range of the file; both ends are multiples of the leaf.
    pub range: Span,
    /// Their states, in the order of the file.
    pub state: CacheState,
}

impl PageCache {
    /// Looks at the windows of `leaf` in `ranges`, which `windows` maps, and changes nothing.
    pub(crate) fn read<'f>(
        ranges: &[Span],
        leaf: Leaf,
        windows: impl Fn(Span) -> FileWindows<'f>,
    ) -> io::Result<PageCache> {
        let state = |range: &Span| {
            Ok(CachedRange {
                range: *range,
                state: windows(*range).state()?,
            })
        };
        let ranges = ranges.iter().map(state).collect::<io::Result<_>>()?;
        Ok(PageCache { leaf, ranges })
    }

    /// The leaf of the windows.
    pub fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// The ranges that were looked at.
    pub fn ranges(&self) -> &[CachedRange] {
        &self.ranges
    }

    /// The number of windows.
    pub fn total(&self) -> usize {
        let ranges = self.ranges.iter();
        ranges.map(|range| range.state.windows.len()).sum()
    }

    /// The number of windows in a state.
    pub fn count(&self, state: WindowState) -> usize {
        let ranges = self.ranges.iter();
        ranges.map(|range| range.state.count(state)).sum()
    }

    /// The number of huge windows.
    pub fn huge(&self) -> usize {
        self.count(WindowState::Huge)
    }

    /// Whether every window is huge; true if there is none.
    pub fn is_warm(&self) -> bool {
        self.ranges.iter().all(|range| range.state.is_warm())
    }

    /// Each window with its state, as ranges of the file.
    pub fn windows(&self) -> impl Iterator<Item = (Span, WindowState)> {
        let leaf = self.leaf.bytes();
        self.ranges.iter().flat_map(move |cached| {
            let starts = (cached.range.start..cached.range.end).step_by(leaf as usize);
            let windows = starts.map(move |start| Span::new(start, start + leaf));
            windows.zip(cached.state.windows.iter().copied())
        })
    }
}
