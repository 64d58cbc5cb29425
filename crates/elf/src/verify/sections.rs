//! Compares the sections of two files by offset, name and content.

use hugetext_leaf::Span;
use object::LittleEndian as LE;
use object::elf::SectionHeader64;

use super::Difference;
use super::bytes::{Comparer, taken_by_headers};
use crate::image::Image;
use crate::purpose::is_payload;
use crate::sections::{Names, Section, read_batch};
use crate::source::ReadAt;
use crate::symbols::holds_symbols;

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
    let names = Names::read(
        comparer.old,
        &old.section_table,
        old.section_names,
        old.file_len,
    )
    .map_err(Difference::Old)?;
    let mut first = 0;
    while first < old.section_table.count {
        let batch = read_batch(comparer.old, &old.section_table, old.file_len, first)
            .map_err(Difference::Old)?;
        let new_batch = read_batch(comparer.new, &new.section_table, new.file_len, first)
            .map_err(Difference::New)?;
        for (index, (raw, after)) in (first..).zip(batch.iter().zip(&new_batch)) {
            let part = parts.iter().find(|part| part.of == index);
            let whole = part.map_or(*after, |part| part.joined(after));
            if !same_but_offset(raw, &whole) {
                return Err(differs(index, "a field other than its offset"));
            }
            let (before, after) = (Section::from(raw), Section::from(after));
            let end = before.offset.saturating_add(before.file_size());
            if Span::new(before.offset, end).overlaps(&taken) {
                return Err(differs(index, "its bytes, which the program headers take"));
            }
            let is_loaded = before.is_loaded(old) && after.is_loaded(new);
            let name = names.as_ref().map_or(&b""[..], |names| names.of(raw));
            if before.offset != after.offset && is_payload(&before, name, is_loaded) {
                return Err(differs(
                    index,
                    "its offset, by which the program may find it",
                ));
            }
            if !is_loaded {
                let end = before.offset.checked_add(before.file_size());
                let end = end.ok_or(differs(index, "its size, which overflows"))?;
                let span = Span::new(before.offset, end);
                if holds_symbols(&before) && !parts.is_empty() {
                    comparer.same_symbols(span, after.offset, |value, from, to| {
                        let mut parts = parts.iter();
                        parts.any(|part| part.holds(value) && part.takes(from, to))
                    })?
                } else {
                    comparer.same("a section", span, after.offset)?
                }
            }
        }
        first += batch.len() as u64;
    }
    Ok(())
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
    fn joined(&self, first: &SectionHeader64<LE>) -> SectionHeader64<LE> {
        let mut whole = *first;
        let size = first.sh_size.get(LE).wrapping_add(self.size);
        whole.sh_size.set(LE, size);
        whole
    }

    fn holds(&self, address: u64) -> bool {
        address >= self.addr
    }

    /// Whether a symbol changes from the section that was cut to this part.
    fn takes(&self, from: u16, to: u16) -> bool {
        self.of == u64::from(from) && self.index == u64::from(to)
    }
}

/// The sections that only the new file has. Each must continue, in memory and in the file, a section
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
    let read = |first| read_batch(comparer.new, &new.section_table, new.file_len, first);
    let mut added = match all - known {
        0 => return Ok(Vec::new()),
        _ => read(known).map_err(Difference::New)?,
    };
    added.truncate((all - known) as usize);
    let mut parts = Vec::new();
    let mut first = 0;
    while first < known {
        let batch = read(first).map_err(Difference::New)?;
        for (index, section) in (first..known).zip(&batch) {
            let found = added.iter().position(|part| continues(section, part, new));
            if let Some(at) = found {
                parts.push(SecondPart {
                    of: index,
                    index: known + at as u64,
                    addr: added[at].sh_addr.get(LE),
                    size: added[at].sh_size.get(LE),
                });
            }
        }
        first += batch.len() as u64;
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
fn continues(section: &SectionHeader64<LE>, part: &SectionHeader64<LE>, image: &Image) -> bool {
    let (one, two) = (Section::from(section), Section::from(part));
    let mut as_one = *part;
    as_one.sh_addr = section.sh_addr;
    as_one.sh_offset = section.sh_offset;
    as_one.sh_size = section.sh_size;
    one.addr.checked_add(one.size) == Some(two.addr)
        && one.offset.checked_add(one.size) == Some(two.offset)
        && one.file_size() > 0
        && two.file_size() > 0
        && one.is_loaded(image)
        && two.is_loaded(image)
        && same_but_offset(section, &as_one)
}

fn same_but_offset(old: &SectionHeader64<LE>, new: &SectionHeader64<LE>) -> bool {
    old.sh_name == new.sh_name
        && old.sh_type == new.sh_type
        && old.sh_flags == new.sh_flags
        && old.sh_addr == new.sh_addr
        && old.sh_size == new.sh_size
        && old.sh_link == new.sh_link
        && old.sh_info == new.sh_info
        && old.sh_addralign == new.sh_addralign
        && old.sh_entsize == new.sh_entsize
}
