//! A program with everything that is known of it on this machine.

use std::path::Path;

use hugetext_host::FileWindows;
use hugetext_leaf::{
    Bias, Cause, Filesystem, Geometry, Leaf, Loader, Segment, Span, reach, windows_in_file,
};

use crate::error::Error;
use crate::host_context::HostContext;
use crate::page_cache::PageCache;
use crate::program::Program;

/// Bytes of text without a window below which nobody enlarges its folios unasked: such a text is a few faults.
const LEAST_TEXT: u64 = 256 << 10;

/// An open program, with the filesystem, the loader and the load bias that this machine gives it.
/// It is made once and passed on, so that nothing is asked twice.
#[derive(Debug)]
pub struct ProgramOnHost<'h> {
    /// The program.
    pub program: Program,
    /// The machine.
    pub host: &'h HostContext,
    /// The filesystem that the program lies on. It places the program's mappings.
    pub filesystem: Filesystem,
    /// The filesystem whose page cache holds the program. It differs from `filesystem` only on an
    /// overlay whose lower layer can be seen.
    pub pages: Filesystem,
    /// The rules by which the program is placed in memory.
    pub loader: Loader,
    /// What is known of its load bias here.
    pub bias: Bias,
    /// Whether this process may map its windows executable.
    executable: bool,
}

impl<'h> ProgramOnHost<'h> {
    /// Opens the program at `path`.
    pub fn open(path: &Path, host: &'h HostContext) -> Result<ProgramOnHost<'h>, Error> {
        ProgramOnHost::new(Program::open(path)?, host)
    }

    /// Learns what this machine does with a program.
    pub fn new(program: Program, host: &'h HostContext) -> Result<ProgramOnHost<'h>, Error> {
        let (file, path) = (&program.file, &program.path);
        let mount = host.mounts.of(file).map_err(Error::io(path))?;
        let pages = host
            .mounts
            .page_cache(file, path)
            .map_err(Error::io(path))?;
        let filesystem = mount.filesystem;
        let loader = program.loader(host.kernel, filesystem);
        let bias = bias(&program, loader, host);
        Ok(ProgramOnHost {
            host,
            filesystem,
            pages,
            loader,
            bias,
            program,
            executable: true,
        })
    }

    /// The same program for those who see it through another filesystem, as containers see a file of a layer
    /// through their overlay: `filesystem` places its mappings, and its page cache stays where it is.
    #[must_use]
    pub fn seen_through(self, filesystem: Filesystem) -> ProgramOnHost<'h> {
        let loader = self.program.loader(self.host.kernel, filesystem);
        ProgramOnHost {
            filesystem,
            loader,
            bias: bias(&self.program, loader, self.host),
            ..self
        }
    }

    /// The same program, whose image will be moved to a multiple of the largest leaf before its first instruction.
    #[must_use]
    pub(crate) fn at_a_leaf(self) -> ProgramOnHost<'h> {
        ProgramOnHost {
            bias: Bias::aligned(self.host.leaf),
            ..self
        }
    }

    /// The same program, which is never mapped executable from now on: for files of other users.
    #[must_use]
    pub fn only_read(self) -> ProgramOnHost<'h> {
        ProgramOnHost {
            executable: false,
            ..self
        }
    }

    /// These windows of `leaf` in the page cache.
    pub(crate) fn file_windows(&self, range: Span, leaf: Leaf) -> FileWindows<'_> {
        let file = &self.program.file;
        if self.executable {
            FileWindows::new(file, range, leaf)
        } else {
            FileWindows::readable(file, range, leaf)
        }
    }

    /// The same program in a new inode, which has replaced the old one at its path.
    pub(crate) fn moved_to(&self, program: Program) -> ProgramOnHost<'h> {
        ProgramOnHost { program, ..*self }
    }

    /// The load bias on a machine of `geometry`, with these segments.
    pub fn bias_with(&self, segments: &[Segment], geometry: &Geometry) -> Bias {
        self.loader
            .bias(self.program.image.kind, segments, geometry)
    }

    /// The windows of its read-only segments for `leaf`, as ranges of the file.
    pub fn windows_of(&self, leaf: Leaf) -> Vec<Span> {
        windows_in_file(
            &self.program.image.segments,
            self.host.page,
            leaf,
            self.bias,
        )
    }

    /// Its text, as ranges of the file in whole pages.
    pub fn text_pages(&self) -> Vec<Span> {
        let page = self.host.page;
        let segments = self.program.image.segments.iter();
        let texts = segments.filter(|segment| segment.is_text());
        texts
            .map(|segment| segment.file())
            .map(|file| Span::new(page.align_down(file.start), page.align_up(file.end)))
            .collect()
    }

    /// Its text without windows, as [`ProgramOnHost::text_pages`], if it is worth larger folios unasked.
    pub fn text_to_enlarge(&self) -> Option<Vec<Span>> {
        let text = self.text_pages();
        let is_long = text.iter().map(Span::len).sum::<u64>() >= LEAST_TEXT;
        (is_long && self.windows().is_empty()).then_some(text)
    }

    /// The pieces of PMD size of its file that hold its segments, neighbours joined. The last one ends with the file.
    pub fn loaded_pieces(&self) -> Vec<Span> {
        let (page, leaf) = (self.host.page, self.host.leaf);
        let end = page.align_up(self.program.metadata.len());
        let segments = self.program.image.segments.iter();
        let piece = |file: Span| {
            Span::new(
                leaf.align_down(file.start),
                leaf.align_up(file.end).min(end),
            )
        };
        let loaded = segments.map(|segment| segment.file());
        let pieces = loaded.filter(|file| !file.is_empty()).map(piece);
        Span::joined(pieces.filter(|piece| !piece.is_empty()))
    }

    /// The windows for the largest leaf of this machine.
    pub fn windows(&self) -> Vec<Span> {
        self.windows_of(self.host.leaf)
    }

    /// The state of the page cache of these windows of `leaf`, which [`ProgramOnHost::windows_of`]
    /// gave.
    pub fn page_cache(&self, windows: &[Span], leaf: Leaf) -> Result<PageCache, Error> {
        let read = PageCache::read(windows, leaf, |range| self.file_windows(range, leaf));
        read.map_err(Error::io(&self.program.path))
    }

    /// Why the layout leaves nothing, or only a part, of the text within reach of `leaf`.
    pub fn layout_causes(&self, leaf: Leaf) -> Vec<Cause> {
        let image = &self.program.image;
        let reach = reach(&image.segments, self.host.page, leaf, self.bias);
        let segments = reach.segments.into_iter();
        segments.flat_map(|text| text.causes).collect()
    }

    /// Why the page cache of its filesystem cannot hold folios of the order of `leaf`.
    pub fn large_folio_obstacle(&self, leaf: Leaf) -> Option<Cause> {
        self.host.large_folio_obstacle(self.pages, leaf)
    }
}

/// What is known of the load bias of a program that is placed by the rules of `loader`.
fn bias(program: &Program, loader: Loader, host: &HostContext) -> Bias {
    match &host.geometry {
        Some(geometry) => loader.bias(program.image.kind, &program.image.segments, geometry),
        None => Bias::aligned(host.leaf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_aligns_no_file_of_its_layers() {
        let Ok(host) = HostContext::with_huge_pages() else {
            eprintln!("skipped: no huge pages here");
            return;
        };
        let own = std::env::current_exe().unwrap();
        let layer = ProgramOnHost::open(&own, &host).unwrap();
        let pages = layer.pages;
        let seen = layer.seen_through(Filesystem::Overlay);
        assert_eq!((seen.filesystem, seen.pages), (Filesystem::Overlay, pages));
        // Rust's linkers leave p_align at a page or at 64K, which is no PMD leaf anywhere.
        assert!(seen.bias.align < host.leaf);
    }
}
