//! Decides which text a leaf can map, and names the obstacles for the rest.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bias::Bias;
use crate::cause::Cause;
use crate::geometry::Leaf;
use crate::segment::{Perms, Segment, Span};

/// A mapping as the loader makes it from PT_LOADs, with a load bias of zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Vma {
    /// Page-aligned addresses.
    pub addresses: Span,
    /// File offset of the first address, page-aligned.
    pub offset: u64,
    /// Access rights.
    pub perms: Perms,
}

impl Vma {
    fn of(segment: &Segment, page: Leaf) -> Option<Vma> {
        let file_backed = segment.file_backed();
        // The loader maps whole pages, so address and offset must be congruent modulo the page.
        let congruent = page.is_aligned(segment.vaddr.wrapping_sub(segment.offset));
        (congruent && !file_backed.is_empty()).then(|| Vma {
            addresses: Span::new(
                page.align_down(file_backed.start),
                page.align_up(file_backed.end),
            ),
            offset: page.align_down(segment.offset),
            perms: segment.perms,
        })
    }

    /// Whether the kernel makes one VMA of `self` and the mapping made right after it
    /// (`vma_merge_new_range()`, mm/vma.c: same file, same flags, contiguous offsets).
    fn merges_with(&self, next: &Vma) -> bool {
        self.perms == next.perms
            && self.addresses.end == next.addresses.start
            && self.offset.wrapping_add(self.addresses.len()) == next.offset
    }
}

/// The file-backed mappings of an image, in the order of its PT_LOADs. Neighbours that the kernel
/// would merge are one. A page that two segments share belongs to the later one, which is mapped
/// over the other. Segments that cannot be mapped with pages of `page` are left out.
pub fn vmas(segments: &[Segment], page: Leaf) -> Vec<Vma> {
    let mut vmas: Vec<Vma> = Vec::with_capacity(segments.len());
    for vma in segments.iter().filter_map(|segment| Vma::of(segment, page)) {
        if let Some(last) = vmas.last_mut() {
            last.addresses.end = last.addresses.end.min(vma.addresses.start);
        }
        vmas.pop_if(|last| last.addresses.is_empty());
        match vmas.last_mut() {
            Some(last) if last.merges_with(&vma) => last.addresses.end = vma.addresses.end,
            _ => vmas.push(vma),
        }
    }
    vmas
}

/// The reach of one text segment.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextReach {
    /// Index among the given segments.
    pub segment: usize,
    /// Addresses of the whole windows that hold some of this text in its mapping. They may begin
    /// before the text and end after it. Empty if no window holds any.
    pub windows: Span,
    /// File offset of the first window.
    pub offset: u64,
    /// Text bytes inside the windows.
    #[serde(rename = "in_windows")]
    pub reached: u64,
    /// The obstacles for the remaining text.
    pub causes: Vec<Cause>,
}

/// How much of an image's text a leaf can map.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reach {
    /// The leaf.
    pub leaf: Leaf,
    /// Text bytes of the image.
    pub text: u64,
    /// Text bytes in windows.
    #[serde(rename = "in_windows")]
    pub reached: u64,
    /// The reach of each segment.
    pub segments: Vec<TextReach>,
}

impl Reach {
    /// Reach in percent of the text; 0 for an image without text.
    pub fn percent(&self) -> f64 {
        if self.text == 0 {
            0.0
        } else {
            100.0 * self.reached as f64 / self.text as f64
        }
    }
}

/// The reach of `leaf` into the text among `segments`, mapped with base pages of `page` at a load
/// bias of which `bias` is known. It assumes that the page cache has folios of the leaf's order.
pub fn reach(segments: &[Segment], page: Leaf, leaf: Leaf, bias: Bias) -> Reach {
    let vmas = vmas(segments, page);
    let texts = segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.is_text());
    let reaches: Vec<TextReach> = texts
        .map(|(index, segment)| text_reach(index, segment, &vmas, leaf, bias))
        .collect();
    Reach {
        leaf,
        text: segments
            .iter()
            .filter(|s| s.is_text())
            .map(|s| s.filesz)
            .sum(),
        reached: reaches.iter().map(|reach| reach.reached).sum(),
        segments: reaches,
    }
}

fn text_reach(index: usize, segment: &Segment, vmas: &[Vma], leaf: Leaf, bias: Bias) -> TextReach {
    let text = segment.file_backed();
    let none = |causes| TextReach {
        segment: index,
        windows: Span::new(text.start, text.start),
        offset: segment.offset,
        reached: 0,
        causes,
    };
    let delta = leaf.offset_in(
        text.start
            .wrapping_add(bias.residue)
            .wrapping_sub(segment.offset),
    );
    let vma = vmas.iter().find(|vma| {
        vma.addresses.contains(text.start)
            && vma.perms == segment.perms
            && vma.addresses.start.wrapping_sub(vma.offset)
                == segment.vaddr.wrapping_sub(segment.offset)
    });
    let Some(vma) = vma else {
        // The segment has no mapping of its own: it is incongruent even modulo the page, or lies
        // wholly in a page that the next segment is mapped over.
        return none(vec![match delta {
            0 => Cause::Small,
            by => Cause::Incongruent { by },
        }]);
    };

    let mut causes = Vec::new();
    if segment.perms.write {
        causes.push(Cause::Writable);
    }
    if vma.addresses.len() < leaf.bytes() {
        // No load address could make room for a window.
        causes.push(Cause::Small);
        return none(causes);
    }
    if delta != 0 {
        causes.push(Cause::Incongruent { by: delta });
    }
    if bias.align < leaf {
        causes.push(Cause::Alignment { align: bias.align });
    }
    if !causes.is_empty() {
        return none(causes);
    }
    let windows = whole_windows(vma.addresses, leaf, bias.residue);
    if windows.is_empty() {
        return none(vec![Cause::Head { bytes: text.len() }]);
    }
    let head = windows.start.saturating_sub(text.start).min(text.len());
    let tail = text.end.saturating_sub(windows.end).min(text.len());
    causes.extend((head > 0).then_some(Cause::Head { bytes: head }));
    causes.extend((tail > 0).then_some(Cause::Tail { bytes: tail }));
    TextReach {
        segment: index,
        windows,
        offset: vma
            .offset
            .wrapping_add(windows.start.wrapping_sub(vma.addresses.start)),
        reached: text.intersect(&windows).len(),
        causes,
    }
}

/// The file ranges to warm, in whole windows. They must be in folios of the leaf's order before
/// leaves can map every read-only mapping of the image as far as its layout allows. Ranges ascend
/// and do not overlap. An alignment that `bias` does not promise is assumed.
pub fn windows_in_file(segments: &[Segment], page: Leaf, leaf: Leaf, bias: Bias) -> Vec<Span> {
    let residue = if bias.align < leaf { 0 } else { bias.residue };
    let ranges = vmas(segments, page)
        .into_iter()
        .filter(|vma| !vma.perms.write)
        .filter_map(|vma| {
            let delta = vma
                .addresses
                .start
                .wrapping_add(residue)
                .wrapping_sub(vma.offset);
            let windows = whole_windows(vma.addresses, leaf, residue);
            let offset = vma.offset + (windows.start - vma.addresses.start);
            (leaf.is_aligned(delta) && !windows.is_empty())
                .then(|| Span::new(offset, offset + windows.len()))
        });
    Span::joined(ranges)
}

/// The whole windows inside `addresses` after a bias of `residue` is added, as unbiased addresses.
fn whole_windows(addresses: Span, leaf: Leaf, residue: u64) -> Span {
    let start = leaf.align_up(addresses.start + residue);
    let end = leaf.align_down(addresses.end + residue);
    if start >= end {
        return Span::new(addresses.start, addresses.start);
    }
    Span::new(start - residue, end - residue)
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
