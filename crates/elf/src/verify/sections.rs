//! Compares the sections of two files by offset, name and content.

use std::collections::{BTreeMap, BTreeSet};

use hugetext_leaf::{Segment, Span};
use object::elf;

use super::bytes::{Comparer, taken_by_headers};
use super::difference::Difference;
use super::purpose::{is_mapped, must_stay};
use crate::image::Image;
use crate::section::Section;
use crate::source::ReadAt;

/// The sections must be the same in the same order. Symbols, relocations, notes, versions and debug
/// information are sections, or lie in segments, or both. Names are the same because their offsets
/// and the section that holds them are.
pub(super) fn compare<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let (old, new) = (comparer.old_image, comparer.new_image);
    let differs = |index, what| Difference::Section { index, what };
    let parts = second_parts(comparer)?;
    let taken = taken_by_headers(old, new);
    if old.section_names != new.section_names {
        return Err(differs(new.section_names, "its use for the section names"));
    }
    let names = old.sections.names().map_err(Difference::Old)?;
    let mut offsets = Offsets::new(old, new);
    for ((index, before), (_, after)) in old.sections.iter().zip(new.sections.iter()) {
        let part = parts.iter().find(|part| part.of == index);
        let whole = part.map_or(*after, |part| part.joined(after));
        if !same_but_offset(before, &whole) {
            return Err(differs(index, "a field other than its offset"));
        }
        offsets.note(index, before, after.offset);
        let end = before.offset.saturating_add(before.file_size());
        if before.file_size() > 0 && end > old.file_len {
            return Err(differs(
                index,
                "its bytes, which the old file does not have",
            ));
        }
        if Span::new(before.offset, end).overlaps(&taken) {
            return Err(differs(index, "its bytes, which the program headers take"));
        }
        let is_loaded = is_mapped(before, old) && is_mapped(after, new);
        let name = names.of(before);
        if before.offset != after.offset && must_stay(before, name, old) {
            return Err(differs(
                index,
                "its offset, by which the program may find it",
            ));
        }
        if !is_loaded {
            let end = before.offset.checked_add(before.file_size());
            let end = end.ok_or(differs(index, "its size, which overflows"))?;
            let span = Span::new(before.offset, end);
            if is_symbol_table(before) && !parts.is_empty() {
                comparer.same_symbols(span, after.offset, |value, from, to| {
                    let mut parts = parts.iter();
                    parts.any(|part| part.holds(value) && part.takes(from, to))
                })?
            } else {
                comparer.same("a section", span, after.offset)?
            }
        }
    }
    match offsets.without_reason() {
        Some(index) => Err(differs(index, "its offset, without a reason")),
        None => Ok(()),
    }
}

/// How far sections moved. One without bytes only marks a place, so it moves as far as anything that has some. The
/// distances are few: a distance for each PT_LOAD, and one for what follows them.
struct Offsets {
    /// Of what has bytes.
    moved: BTreeSet<u64>,
    /// Of sections without bytes, each with the index of one that moved so far.
    marks: BTreeMap<u64, u64>,
}

impl Offsets {
    /// The most distances of either kind. One kind may have one more: then it has one that the other lacks.
    const MOST: usize = 1 << 17;

    fn new(old: &Image, new: &Image) -> Offsets {
        let tables = [(&old.section_table, &new.section_table)];
        let tables = tables.map(|(old, new)| new.offset.wrapping_sub(old.offset));
        let delta = |segment: &Segment| segment.offset.wrapping_sub(segment.vaddr);
        let segments = old.segments.iter().flat_map(|before| {
            let same = new.segments.iter();
            let same = same.filter(|after| after.memory().contains(before.vaddr));
            same.map(move |after| delta(after).wrapping_sub(delta(before)))
        });
        Offsets {
            moved: segments.chain(tables).chain([0]).collect(),
            marks: BTreeMap::new(),
        }
    }

    fn note(&mut self, index: u64, before: &Section, after: u64) {
        let distance = after.wrapping_sub(before.offset);
        if before.file_size() > 0 {
            if self.moved.len() < Self::MOST {
                self.moved.insert(distance);
            }
        } else if self.marks.len() <= Self::MOST {
            self.marks.entry(distance).or_insert(index);
        }
    }

    /// The index of a section without bytes that moved as far as nothing else.
    fn without_reason(&self) -> Option<u64> {
        let mut marks = self.marks.iter();
        let odd = marks.find(|(distance, _)| !self.moved.contains(distance));
        odd.map(|(_, index)| *index)
    }
}

/// A section of the new file that is the second part of one of the old file.
struct SecondPart {
    /// The index of the first part, which is that of the old section.
    of: u64,
    /// Its own index.
    index: u64,
    addr: u64,
    size: u64,
}

impl SecondPart {
    /// The header of the first part with the size of both.
    fn joined(&self, first: &Section) -> Section {
        Section {
            size: first.size.wrapping_add(self.size),
            ..*first
        }
    }

    fn holds(&self, address: u64) -> bool {
        address >= self.addr
    }

    /// Whether a symbol changes from the section that was cut to this part.
    fn takes(&self, from: u16, to: u16) -> bool {
        self.of == u64::from(from) && self.index == u64::from(to)
    }
}

/// The sections that only the new file has. Each must continue in memory a section
/// that both files have, and differ from it in nothing else. Both parts are loaded, so their bytes
/// are compared with the memory.
fn second_parts<O, N>(comparer: &Comparer<'_, O, N>) -> Result<Vec<SecondPart>, Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    /// More cuts than PT_LOADs with text have been seen in a file.
    const MOST: u64 = 64;
    let (old, new) = (comparer.old_image, comparer.new_image);
    let (known, all) = (old.section_table.count, new.section_table.count);
    let missing = |index| Difference::Section {
        index,
        what: "presence",
    };
    if all < known || all - known > MOST {
        return Err(missing(known.min(all)));
    }
    let added = new.sections.from(known);
    let mut parts = Vec::new();
    let before = new.sections.iter().take_while(|(index, _)| *index < known);
    for (index, section) in before.filter(|_| !added.is_empty()) {
        let mut added = (known..).zip(added);
        if let Some((at, part)) = added.find(|(_, part)| continues(section, part, new)) {
            parts.push(SecondPart {
                of: index,
                index: at,
                addr: part.addr,
                size: part.size,
            });
        }
    }
    // Each added section continues one section, and each section has one continuation.
    let mut indexes: Vec<u64> = parts.iter().map(|part| part.index).collect();
    indexes.sort_unstable();
    if indexes.into_iter().eq(known..all) {
        Ok(parts)
    } else {
        Err(missing(known))
    }
}

/// Whether `part` begins where `section` ends and is loaded as it is.
fn continues(section: &Section, part: &Section, image: &Image) -> bool {
    let end = section.offset.checked_add(section.size);
    // Its name is the same, or the same without the first letter.
    let is_named = [0, 1].map(|skipped| section.name.checked_add(skipped));
    let as_one = Section {
        name: section.name,
        addr: section.addr,
        size: section.size,
        ..*part
    };
    section.addr.checked_add(section.size) == Some(part.addr)
        && end.is_some_and(|end| end <= part.offset)
        && is_named.contains(&Some(part.name))
        && section.file_size() > 0
        && part.file_size() > 0
        && is_mapped(section, image)
        && is_mapped(part, image)
        && same_but_offset(section, &as_one)
}

/// Whether the section has symbols that only tools read.
fn is_symbol_table(section: &Section) -> bool {
    section.sh_type == elf::SHT_SYMTAB.0 && section.flags & elf::SHF_ALLOC.0 == 0
}

fn same_but_offset(old: &Section, new: &Section) -> bool {
    let offset = old.offset;
    Section { offset, ..*new } == *old
}
