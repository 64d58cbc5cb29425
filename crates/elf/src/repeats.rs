//! PT_LOADs that repeat a part of the one before them.
//!
//! Loaders map PT_LOADs in the order of their headers, each over what lies there. A PT_LOAD inside of the one before it that
//! gives the same bytes of the file and the same rights changes nothing that a program sees. It gives this part a mapping of
//! its own, for which loaders may ask for huge folios. Tools find what they know by the PT_LOAD around it, and by sections.

use hugetext_leaf::{Leaf, Segment};
use object::elf;

use crate::headers::ProgramHeader;

/// The parts of memory that the PT_LOADs `loads` give, in ascending order: one that holds another becomes what lies
/// before it, in it and behind it. An error names the addresses of two that clash. The last one repeats nothing: glibc and
/// kernels before 5.18 map as much as reaches from the first to the end of the last, and glibc forbids access between
/// both (elf/dl-map-segments.h, _dl_map_segments(); fs/binfmt_elf.c, total_mapping_size()).
pub(crate) fn parts(loads: &[Segment]) -> Result<Vec<Segment>, (u64, u64)> {
    let mut parts: Vec<Segment> = Vec::with_capacity(loads.len());
    let mut whole: Option<&Segment> = None;
    let is_last = |load| loads.iter().rfind(|load| load.memsz > 0) == Some(load);
    for load in loads {
        // GNU strip leaves one without bytes, which maps nothing.
        if load.memsz == 0 && whole.is_some_and(|around| around.memory().contains(load.vaddr)) {
            continue;
        }
        match (parts.last().copied(), whole) {
            (Some(last), Some(around)) if load.vaddr < last.memory().end => {
                if last != *around || !repeats(around, load) || is_last(load) {
                    return Err((around.vaddr, load.vaddr));
                }
                parts.pop();
                parts.extend(around_and_in(around, load));
            }
            _ => parts.push(*load),
        }
        whole = Some(load);
    }
    Ok(parts)
}

/// What lies in `around` before `inner`, `inner` itself, and what lies behind it.
pub(crate) fn around_and_in(around: &Segment, inner: &Segment) -> Vec<Segment> {
    let before = inner.vaddr.saturating_sub(around.vaddr);
    let to_end = inner.memory().end.saturating_sub(around.vaddr);
    let mut head = *around;
    (head.filesz, head.memsz) = (before, before);
    let mut tail = *around;
    tail.vaddr = inner.memory().end;
    tail.offset = around.offset.saturating_add(to_end);
    tail.filesz = around.filesz.saturating_sub(to_end);
    tail.memsz = around.memsz.saturating_sub(to_end);
    let mut all = vec![head, *inner, tail];
    all.retain(|part| part.memsz > 0);
    all
}

/// Whether `inner` gives the bytes and rights that `around` gives there, from a page on to another, or to the end.
fn repeats(around: &Segment, inner: &Segment) -> bool {
    let distance = |segment: &Segment| segment.vaddr.wrapping_sub(segment.offset);
    let end = inner.memory().end;
    let is_whole = Leaf::K4.is_aligned(end) || end == around.memory().end;
    around.vaddr < inner.vaddr
        && end <= around.file_backed().end
        && inner.filesz == inner.memsz
        && inner.filesz > 0
        && distance(around) == distance(inner)
        && around.perms == inner.perms
        && Leaf::K4.is_aligned(inner.vaddr)
        && is_whole
}

/// Whether a PT_LOAD among the headers of an image repeats a part of another.
pub(crate) fn has_repeats(headers: &[ProgramHeader]) -> bool {
    let loads = headers.iter().filter(|h| h.p_type == elf::PT_LOAD.0);
    let mut end = 0;
    loads.fold(false, |found, load| {
        let repeats = load.vaddr < end;
        end = load.vaddr.saturating_add(load.memsz);
        found || repeats
    })
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Perms;

    use super::*;

    fn load(vaddr: u64, size: u64) -> Segment {
        let perms = Perms {
            read: true,
            write: false,
            exec: true,
        };
        Segment::new(vaddr, vaddr + 0x1000, size, size, 0x1000, perms).unwrap()
    }

    #[test]
    fn a_part_that_is_repeated_divides_what_holds_it() {
        let around = load(0x1000, 0x9123);
        let found = parts(&[around, load(0x3000, 0x4000), load(0x20000, 1)]).unwrap();
        let found: Vec<(u64, u64)> = found.iter().map(|p| (p.vaddr, p.filesz)).collect();
        let expected = [
            (0x1000, 0x2000),
            (0x3000, 0x4000),
            (0x7000, 0x3123),
            (0x20000, 1),
        ];
        assert_eq!(found, expected);
        let mut empty = load(0x3000, 1);
        (empty.filesz, empty.memsz) = (0, 0);
        assert_eq!(parts(&[around, empty]), Ok(vec![around]));
        let to_end = parts(&[around, load(0x3000, 0x7123), load(0x20000, 1)]).unwrap();
        assert_eq!(to_end.len(), 3);
    }

    #[test]
    fn what_would_change_a_byte_or_a_right_is_a_clash() {
        let around = load(0x1000, 0x9123);
        let inner = load(0x3000, 0x4000);
        let behind = load(0x20000, 1);
        let mut moved = inner;
        moved.offset += 0x1000;
        let mut writable = inner;
        writable.perms.write = true;
        let mut longer = inner;
        longer.memsz += 0x1000;
        for clash in [
            moved,
            writable,
            longer,
            load(0x3000, 0x8000),
            load(0x3010, 0x4000),
            load(0x3000, 0x4010),
        ] {
            assert_eq!(parts(&[around, clash, behind]), Err((0x1000, clash.vaddr)));
        }
        // The last of all.
        assert_eq!(parts(&[around, inner]), Err((0x1000, 0x3000)));
        // One part alone.
        let second = load(0x8000, 0x1000);
        assert_eq!(
            parts(&[around, inner, second, behind]),
            Err((0x3000, 0x8000))
        );
    }
}
