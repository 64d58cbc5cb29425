//! Compares the sections of two files by offset, name and content.

use hugetext_leaf::Span;
use object::LittleEndian as LE;
use object::elf::SectionHeader64;

use super::Difference;
use super::bytes::Comparer;
use crate::purpose::is_payload;
use crate::sections::{Names, Section, read_batch};
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
    if old.section_table.count != new.section_table.count {
        let index = old.section_table.count.min(new.section_table.count);
        return Err(differs(index, "presence"));
    }
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
            if !same_but_offset(raw, after) {
                return Err(differs(index, "a field other than its offset"));
            }
            let (before, after) = (Section::from(raw), Section::from(after));
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
                comparer.same("a section", span, after.offset)?;
            }
        }
        first += batch.len() as u64;
    }
    Ok(())
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
