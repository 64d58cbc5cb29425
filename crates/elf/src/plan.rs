//! The plan of a rewrite.

use hugetext_leaf::{Bias, Leaf, Segment, Span, reach};
use schemars::JsonSchema;
use serde::Serialize;

use crate::encoding::{Encoding, Overflow};
use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::layout::Move;
use crate::options::Strategy;
use crate::refusal::Refusal;
use crate::verify::Verified;

/// A decided rewrite. The new file is the old one after `moves`, with new header tables. A range
/// that no move covers is a hole.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The least strategy that includes all the changes.
    pub strategy: Strategy,
    /// The leaf that the layout is for.
    pub leaf: Leaf,
    /// How the numbers of both files are written.
    #[serde(skip)]
    pub encoding: Encoding,
    /// The new PT_LOADs.
    pub segments: Vec<Segment>,
    /// The new program headers. They are as many as the old ones, unless a cut uses room behind the
    /// table; merging turns some into PT_NULL.
    pub headers: Vec<ProgramHeader>,
    /// The distance in bytes that each PT_LOAD of the old file moves towards the end.
    pub shifts: Vec<u64>,
    /// The old file, cut into ranges that each move by one distance, in order.
    pub moves: Vec<Move>,
    /// e_phoff of the new file.
    pub program_table: u64,
    /// e_shoff of the new file; 0 if there is none.
    pub section_table: u64,
    /// The sections that are cut in two with their PT_LOAD, in the order of their indexes.
    pub sections_cut: Vec<SectionCut>,
    /// Length of the new file in bytes, holes included.
    pub file_len: u64,
    /// The cost.
    pub cost: Cost,
    /// Facts that the user should know first.
    pub warnings: Vec<Warning>,
}

/// A section that is cut in two. The second part becomes a section at the end of the section header table. Its name
/// lacks the first letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SectionCut {
    /// Its index in the old file.
    pub index: u64,
    /// The first address of the second part.
    pub at: u64,
}

/// The cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct Cost {
    /// Bytes added to the file, holes included.
    pub apparent: u64,
    /// Bytes of disk added, at most: blocks that a cut divides.
    pub disk: u64,
    /// Bytes of page cache, at most, that hold only zeros when the text is in leaves.
    pub memory: u64,
    /// Bits of ASLR lost to the larger alignment.
    pub aslr_bits: u32,
}

/// A change of a plan other than the offsets of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// Read-only data becomes executable.
    BecomesExecutable {
        /// Its addresses in the image.
        addresses: Span,
    },
    /// The program header table lies in a segment that moves by another distance than the first
    /// one. Kernels before 5.18 compute AT_PHDR from the first segment (binfmt_elf.c,
    /// load_elf_binary()).
    ProgramHeadersMove,
    /// PT_LOADs of writable data become one, so that the header of another gives its place to a cut PT_LOAD. The
    /// page that alignment left between them is mapped too.
    DataJoined {
        /// Its addresses in the image, without those of zeros at its end.
        addresses: Span,
    },
    /// A program header gives its place to a cut PT_LOAD. It is a PT_NOTE that PT_GNU_PROPERTY
    /// repeats, or PT_PHDR of an image that loaders place without it.
    LeftOut {
        /// p_type.
        p_type: u32,
    },
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The file does not permit it.
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

impl From<Overflow> for PlanError {
    fn from(_: Overflow) -> PlanError {
        let most = u64::from(u32::MAX);
        Refusal::TooLarge { most }.into()
    }
}

impl Plan {
    /// Whether the file already has the right layout.
    pub fn is_noop(&self, image: &Image) -> bool {
        self.headers == image.headers && self.file_len == image.file_len && self.moves.len() == 1
    }

    /// Whether all that verification found to differ is what the plan does: a merge changes rights and maps what lies
    /// between, and joined data maps what lies between.
    pub fn explains(&self, verified: &Verified) -> bool {
        let maps = |added: &Span| {
            self.warnings.iter().any(|warning| match warning {
                Warning::DataJoined { addresses } => addresses.intersect(added) == *added,
                _ => false,
            })
        };
        let is_mapped = verified.permissions.is_empty() && verified.added.iter().all(maps);
        self.strategy == Strategy::Merge || is_mapped
    }

    /// Bytes of the text of `image` that will lie in windows of a mapping that is aligned as the
    /// plan requests.
    pub fn reached(&self, image: &Image, page: Leaf) -> u64 {
        self.reached_at(image, page, Bias::aligned(self.leaf))
    }

    /// The same at a load bias of which `bias` is known. Bytes that a merge or an extension makes
    /// executable are not text of the program, so they do not count.
    pub fn reached_at(&self, image: &Image, page: Leaf, bias: Bias) -> u64 {
        let reach = reach(&self.segments, page, self.leaf, bias);
        let text = || image.segments.iter().filter(|segment| segment.is_text());
        // Two text segments of one mapping name the same windows.
        let mut windows: Vec<Span> = reach.segments.iter().map(|found| found.windows).collect();
        windows.dedup();
        windows
            .iter()
            .flat_map(|windows| text().map(|s| s.file_backed().intersect(windows).len()))
            .sum()
    }
}
