//! Cuts PT_LOADs at given addresses: one becomes two, or a second one repeats a part of it.

use hugetext_leaf::{Segment, Span};
use object::elf;

use crate::headers::ProgramHeader;
use crate::plan::{Plan, Warning};
use crate::repeats::around_and_in;
use crate::room::Room;

/// What becomes of a PT_LOAD that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It ends at the cut, and a second one begins there, which may lie elsewhere in the file.
    InTwo,
    /// It stays, and a second one repeats a part of it ([`crate::repeats`]).
    Repeated,
}

/// The plan with the PT_LOADs cut that hold these ranges, each from its begin. There is `room` for all.
pub(crate) fn cut(plan: Plan, cuts: &[Span], room: &Room, form: Form) -> Plan {
    let spare = room.spare(cuts.len());
    let leaf = plan.leaf.bytes();
    let mut warnings = plan.warnings;
    let mut headers: Vec<ProgramHeader> = Vec::with_capacity(plan.headers.len());
    for (index, header) in plan.headers.iter().enumerate() {
        if spare.contains(&index) {
            if header.p_type != elf::PT_NULL.0 {
                let p_type = header.p_type;
                warnings.push(Warning::LeftOut { p_type });
            }
            continue;
        }
        let is_cut = |cut: &&Span| {
            let inside = header.vaddr < cut.start && cut.start - header.vaddr < header.filesz;
            header.p_type == elf::PT_LOAD.0 && inside
        };
        match cuts.iter().find(is_cut) {
            Some(cut) => headers.extend(two_headers(header, *cut, leaf, form)),
            None => headers.push(*header),
        }
    }
    let added = headers.len().saturating_sub(plan.headers.len()) as u64;
    let grown = added.saturating_mul(plan.encoding.size_of::<ProgramHeader>());
    for header in &mut headers {
        if header.p_type == elf::PT_PHDR.0 {
            header.filesz = header.filesz.saturating_add(grown);
            header.memsz = header.memsz.saturating_add(grown);
        }
    }
    let segments = plan.segments.iter().flat_map(|segment| {
        let is_cut =
            |cut: &&Span| segment.vaddr < cut.start && cut.start - segment.vaddr < segment.filesz;
        match cuts.iter().find(is_cut) {
            Some(cut) => cut_segment(segment, *cut, leaf, form),
            None => vec![*segment],
        }
    });
    Plan {
        segments: segments.collect(),
        headers,
        warnings,
        ..plan
    }
}

/// The headers in the place of that of a PT_LOAD, which is aligned to a leaf of so many bytes.
fn two_headers(header: &ProgramHeader, cut: Span, leaf: u64, form: Form) -> [ProgramHeader; 2] {
    let head = cut.start - header.vaddr;
    let align = header.align.max(leaf);
    let first = match form {
        Form::InTwo => ProgramHeader {
            filesz: head,
            memsz: head,
            align,
            ..*header
        },
        Form::Repeated => ProgramHeader { align, ..*header },
    };
    let (filesz, memsz) = match form {
        Form::InTwo => (header.filesz - head, header.memsz.saturating_sub(head)),
        Form::Repeated => (cut.len(), cut.len()),
    };
    let second = ProgramHeader {
        offset: header.offset.saturating_add(head),
        vaddr: cut.start,
        paddr: header.paddr.wrapping_add(head),
        filesz,
        memsz,
        align,
        ..*header
    };
    [first, second]
}

fn cut_segment(segment: &Segment, cut: Span, leaf: u64, form: Form) -> Vec<Segment> {
    let mut whole = *segment;
    whole.align = segment.align.max(leaf);
    let mut second = whole;
    let head = cut.start - segment.vaddr;
    second.vaddr = cut.start;
    second.offset += head;
    (second.filesz, second.memsz) = match form {
        Form::InTwo => (segment.filesz - head, segment.memsz - head),
        Form::Repeated => (cut.len(), cut.len()),
    };
    around_and_in(&whole, &second)
}
