//! Decides where an image goes and which calls bring it there. Pure: it looks at nothing.

use hugetext_host::perms;
use hugetext_leaf::{Leaf, Perms, Segment, Span};
use procfs::process::{MMPermissions, MemoryMap};

/// How many places below the one of the kernel are tried. Mostly nothing lies there.
const TRIES: u64 = 64;

/// A mapping of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vma {
    pub(super) addresses: Span,
    pub(super) perms: Perms,
    pub(super) is_private: bool,
    /// Where its file has the first page.
    pub(super) offset: u64,
}

impl Vma {
    pub(super) fn of(map: &MemoryMap) -> Vma {
        let (start, end) = map.address;
        Vma {
            addresses: Span::new(start, end),
            perms: perms(map.perms),
            is_private: map.perms.contains(MMPermissions::PRIVATE),
            offset: map.offset,
        }
    }

    fn is_text(&self) -> bool {
        self.perms.exec && !self.perms.write && self.is_private
    }
}

/// A segment with text of a program, and where the file has it from which it is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedSegment {
    /// From p_vaddr to the last byte that comes from the file.
    vaddrs: Span,
    /// p_offset in the program.
    offset: u64,
    /// p_offset in that file.
    text_offset: u64,
}

impl PlacedSegment {
    /// The executable segments of a program that the file with its text has too.
    pub(super) fn of(program: &[Segment], text: &[Segment]) -> Vec<PlacedSegment> {
        let executable = |segments: &[Segment]| -> Vec<(Span, u64)> {
            let segments = segments.iter().filter(|segment| segment.perms.exec);
            let ends = |segment: &Segment| segment.vaddr.saturating_add(segment.filesz);
            segments
                .map(|segment| (Span::new(segment.vaddr, ends(segment)), segment.offset))
                .collect()
        };
        let text = executable(text);
        let placed = executable(program).into_iter();
        placed
            .filter_map(|(vaddrs, offset)| {
                let (_, text_offset) = *text.iter().find(|(other, _)| *other == vaddrs)?;
                Some(PlacedSegment {
                    vaddrs,
                    offset,
                    text_offset,
                })
            })
            .collect()
    }

    /// Where the file has what the program maps from `vaddr`, the beginning of a page, to `end`, which may be that of the
    /// last page, if that is this segment: then `mapped` is where the program's own file has it.
    fn offset_at(&self, vaddr: u64, end: u64, mapped: u64) -> Option<u64> {
        let covers = end <= self.vaddrs.end.checked_next_multiple_of(PAGE)?;
        let at = |offset: u64| (offset.checked_add(vaddr)?).checked_sub(self.vaddrs.start);
        let there = at(self.text_offset).filter(|offset| offset.is_multiple_of(PAGE));
        there.filter(|_| covers && at(self.offset) == Some(mapped))
    }
}

/// The smallest page. A larger one divides all addresses of mappings, too.
const PAGE: u64 = 4096;

/// One call. `from` and `to` are whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Text is mapped anew, from the file that has it. What is moved by mremap(2) is not told to profilers.
    Map {
        from: Span,
        to: Span,
        perms: Perms,
        offset: u64,
    },
    /// Anything else is moved.
    Move { from: Span, to: Span },
}

/// Where the image of a program goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// What is added to each address, modulo 2^64.
    pub(super) by: u64,
    /// The calls.
    pub(super) steps: Vec<Step>,
}

impl Arrangement {
    /// For a program of these segments that was loaded with the load bias `bias`. `None`: there is no place, or no file has its
    /// text.
    pub(super) fn decide(
        vmas: &[Vma],
        segments: &[Segment],
        texts: &[PlacedSegment],
        bias: u64,
        leaf: Leaf,
    ) -> Option<Arrangement> {
        let image = image_of(segments)?;
        let old = Span::new(bias.checked_add(image.start)?, bias.checked_add(image.end)?);
        let new_bias = free_bias(vmas, &image, &old, bias, leaf)?;
        let by = new_bias.wrapping_sub(bias);
        let there = |span: Span| Span::new(span.start.wrapping_add(by), span.end.wrapping_add(by));
        let parts = vmas.iter().filter_map(|vma| {
            let from = vma.addresses.intersect(&old);
            (!from.is_empty()).then_some((vma, from))
        });
        let file_offset = |vma: &Vma, from: &Span| {
            let skipped = from.start.saturating_sub(vma.addresses.start);
            vma.offset.saturating_add(skipped)
        };
        let steps = parts.map(|(vma, from)| {
            let to = there(from);
            let vaddr = from.start.wrapping_sub(bias);
            let end = from.end.wrapping_sub(bias);
            let mapped = file_offset(vma, &from);
            let mut offsets = texts
                .iter()
                .filter_map(|text| text.offset_at(vaddr, end, mapped));
            let offset = offsets.next();
            match offset.filter(|_| vma.is_text()) {
                Some(offset) => Step::Map {
                    from,
                    to,
                    perms: vma.perms,
                    offset,
                },
                None => Step::Move { from, to },
            }
        });
        let steps: Vec<Step> = steps.collect();
        let has_text = steps.iter().any(|step| matches!(step, Step::Map { .. }));
        has_text.then_some(Arrangement { by, steps })
    }
}

/// The pages of an image, by p_vaddr.
fn image_of(segments: &[Segment]) -> Option<Span> {
    let first = segments.iter().map(|segment| segment.vaddr).min()?;
    let ends = segments
        .iter()
        .map(|segment| segment.vaddr.saturating_add(segment.memsz));
    let last = ends.max()?.checked_next_multiple_of(PAGE)?;
    Some(Span::new(first - first % PAGE, last))
}

/// The highest load bias below `bias` with which leaves map text, and where nothing lies. The random part of `bias` above a
/// leaf is kept, as the kernel keeps it for files with that p_align.
fn free_bias(vmas: &[Vma], image: &Span, old: &Span, bias: u64, leaf: Leaf) -> Option<u64> {
    let highest = leaf.align_down(bias.checked_sub(image.len())?);
    let candidates = (0..TRIES).map(|step| highest.checked_sub(step.checked_mul(leaf.bytes())?));
    candidates.map_while(|bias| bias).find(|bias| {
        let (start, end) = (bias.checked_add(image.start), bias.checked_add(image.end));
        let (Some(start), Some(end)) = (start, end) else {
            return false;
        };
        let place = Span::new(start, end);
        let free = |vma: &Vma| !vma.addresses.overlaps(&place);
        start >= LOWEST && !place.overlaps(old) && vmas.iter().all(free)
    })
}

/// No program is brought below this address, which is far above vm.mmap_min_addr everywhere.
const LOWEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn perms(text: &str) -> Perms {
        Perms {
            read: text.contains('r'),
            write: text.contains('w'),
            exec: text.contains('x'),
        }
    }

    fn segment(vaddr: u64, offset: u64, len: u64, access: &str) -> Segment {
        Segment::new(vaddr, offset, len, len, PAGE, perms(access)).unwrap()
    }

    fn vma(start: u64, len: u64, access: &str, offset: u64) -> Vma {
        Vma {
            addresses: Span::new(start, start + len),
            perms: perms(access),
            is_private: true,
            offset,
        }
    }

    /// A program of 10 MiB of text, loaded at no multiple of a leaf.
    fn loaded() -> (Vec<Segment>, Vec<Vma>, u64) {
        let segments = vec![
            segment(0, 0, 0x800, "r"),
            segment(0x1000, 0x1000, 10 * M - 5, "rx"),
            Segment::new(11 * M, 11 * M - 0x1000, 0x800, 0x3000, PAGE, perms("rw")).unwrap(),
        ];
        let bias = 0x5555_5555_4000;
        let vmas = vec![
            vma(bias, 0x1000, "r", 0),
            vma(bias + 0x1000, 10 * M, "rx", 0x1000),
            vma(bias + 11 * M, 0x1000, "rw", 11 * M - 0x1000),
            vma(bias + 11 * M + 0x1000, 0x2000, "rw", 0),
            vma(0x7fff_0000_0000, 0x1000, "rw", 0),
        ];
        (segments, vmas, bias)
    }

    #[test]
    fn text_is_mapped_from_the_copy_and_all_else_is_moved() {
        let (segments, vmas, bias) = loaded();
        let copy = [segment(0x1000, 0x1000 + 32 * M, 10 * M - 5, "rx")];
        let texts = PlacedSegment::of(&segments, &copy);
        let found = Arrangement::decide(&vmas, &segments, &texts, bias, Leaf::M2).unwrap();
        let new = bias.wrapping_add(found.by);
        assert!(Leaf::M2.align_down(new) == new && new + 11 * M + 0x3000 <= bias);
        assert!(bias - new < 11 * M + 0x3000 + 4 * M, "the nearest place");
        let moved = |vma: &Vma| Step::Move {
            from: vma.addresses,
            to: Span::new(
                vma.addresses.start.wrapping_add(found.by),
                vma.addresses.end.wrapping_add(found.by),
            ),
        };
        let text = Step::Map {
            from: vmas[1].addresses,
            to: Span::new(new + 0x1000, new + 0x1000 + 10 * M),
            perms: perms("rx"),
            offset: 0x1000 + 32 * M,
        };
        let expected = [moved(&vmas[0]), text, moved(&vmas[2]), moved(&vmas[3])];
        assert_eq!(found.steps, expected);
    }

    #[test]
    fn what_lies_below_stays_where_it_is() {
        let (segments, mut vmas, bias) = loaded();
        let texts = PlacedSegment::of(&segments, &segments);
        vmas.push(vma(bias - 40 * M, 30 * M, "rw", 0));
        let found = Arrangement::decide(&vmas, &segments, &texts, bias, Leaf::M2).unwrap();
        let new = bias.wrapping_add(found.by);
        assert!(new + 11 * M + 0x3000 <= bias - 40 * M, "{new:#x}");
    }

    #[test]
    fn without_a_place_or_text_nothing_is_done() {
        let (segments, vmas, bias) = loaded();
        let texts = PlacedSegment::of(&segments, &segments);
        let decide = |vmas: &[Vma], texts: &[PlacedSegment], bias: u64| {
            Arrangement::decide(vmas, &segments, texts, bias, Leaf::M2)
        };
        assert_eq!(decide(&vmas, &[], bias), None, "no text");
        let half = [segment(0x1000, 0x1000, 5 * M, "rx")];
        let other = PlacedSegment::of(&segments, &half);
        assert_eq!(decide(&vmas, &other, bias), None, "half of the text");
        let mut elsewhere = vmas.clone();
        elsewhere[1].offset = 0x3000;
        assert_eq!(
            decide(&elsewhere, &texts, bias),
            None,
            "not as the headers say"
        );
        assert_eq!(decide(&vmas, &texts, 3 * M), None, "no place below");
        assert_eq!(decide(&vmas, &texts, u64::MAX), None, "no such address");
    }
}
