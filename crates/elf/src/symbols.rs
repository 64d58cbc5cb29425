//! The symbols of sections that are cut: each names the part that holds it.
//!
//! Only symbol tables that are not loaded are rewritten. The dynamic symbols stay, since a fix
//! changes no byte in memory. Their section is of no meaning to loaders, unless it is SHN_UNDEF,
//! SHN_ABS or SHN_COMMON.

use object::elf;

use crate::encoding::Symbol;
use crate::image::Image;
use crate::layout::shift_at;
use crate::operation::Operation;
use crate::plan::{Plan, PlanError};
use crate::section::Section;
use crate::source::{ReadAt, read_range};

/// Number of symbols read at a time.
const BATCH: u64 = 1 << 13;

/// The writes that give symbols their new section.
pub(crate) fn symbols(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Vec<Operation>, PlanError> {
    let mut writes = Vec::new();
    if plan.sections_cut.is_empty() {
        return Ok(writes);
    }
    for (_, section) in image.sections.iter() {
        if holds_symbols(section) {
            writes.extend(symbols_of(source, image, plan, section)?);
        }
    }
    Ok(writes)
}

/// Whether the section is a symbol table that is not loaded.
pub(crate) fn holds_symbols(section: &Section) -> bool {
    section.sh_type == elf::SHT_SYMTAB.0 && !section.is_allocated()
}

fn symbols_of(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
    section: &Section,
) -> Result<Vec<Operation>, PlanError> {
    let mut writes = Vec::new();
    let size = image.encoding.size_of::<Symbol>();
    // The symbol in these bytes with the second part of its section; `None` if it lies in the first, or in a section
    // that is not cut.
    let moved = |bytes: &[u8]| {
        let symbol: Symbol = image.encoding.decode(bytes)?;
        let section = u64::from(symbol.st_shndx);
        let mut cuts = plan.sections_cut.iter();
        let part = cuts.position(|cut| cut.index == section && cut.at <= symbol.st_value)?;
        let index = image.section_table.count.saturating_add(part as u64);
        let st_shndx = u16::try_from(index).ok()?;
        Some(Symbol { st_shndx, ..symbol })
    };
    let end = section.offset.saturating_add(section.file_size());
    let mut at = section.offset;
    while end.saturating_sub(at) >= size {
        let count = ((end - at) / size).min(BATCH);
        let bytes = read_range(source, at, count * size, image.file_len, "the symbols")?;
        let mut changed = bytes.clone();
        for (old, new) in bytes
            .chunks_exact(size as usize)
            .zip(changed.chunks_exact_mut(size as usize))
        {
            if let Some(symbol) = moved(old) {
                new.copy_from_slice(&image.encoding.encode(&symbol)?);
            }
        }
        if changed != bytes {
            writes.push(Operation::Write {
                at: at.saturating_add(shift_at(&plan.moves, at)),
                bytes: changed,
            });
        }
        at += count * size;
    }
    Ok(writes)
}
