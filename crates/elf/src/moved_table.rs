//! Moves the program header table to where it can grow: into the rest of the last page of the
//! PT_LOAD that holds it.
//!
//! Only copies that no tool changes may have this: GNU strip and objcopy put the table behind the
//! ELF header again. The page is mapped already, so the process maps nothing more. The PT_LOAD is
//! the first, and the table keeps its distance from the file: kernels before 5.18 compute AT_PHDR
//! as the address of the ELF header plus e_phoff (binfmt_elf.c, load_elf_binary()).

use hugetext_leaf::{Leaf, Segment, Span};
use object::elf;

use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::plan::{Plan, Warning};
use crate::room::{Gap, zeros_in};
use crate::source::ReadAt;

/// The smallest base page: what lies in the last of these is mapped with every base page.
const PAGE: Leaf = Leaf::K4;

/// Alignment of the table, bytes: that of the largest fields.
const ALIGN: u64 = 8;

/// Where a longer table fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TablePlace {
    /// Its offset in both files.
    offset: u64,
    /// Entries that fit.
    pub(crate) entries: u64,
}

impl TablePlace {
    /// The place in zeros that nothing names, if the table is in the PT_LOAD of the ELF header and
    /// the address of the place is free.
    pub(crate) fn of(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
    ) -> Result<Option<TablePlace>, ImageError> {
        let Some(holder) = holder(image) else {
            return Ok(None);
        };
        let end = holder.file().end;
        let offset = end.next_multiple_of(ALIGN);
        let pages = image.segments.iter().filter(|s| s.vaddr > holder.vaddr);
        let next = pages.map(|next| PAGE.align_down(next.vaddr)).min();
        let free = next.map_or(u64::MAX, |next| next.saturating_sub(holder.vaddr));
        let page_end = PAGE
            .align_up(holder.file_backed().end)
            .saturating_sub(holder.vaddr);
        let gap = Gap {
            bytes: Span::new(end, holder.offset.saturating_add(page_end.min(free))),
            holder,
        };
        let zeros = zeros_in(source, image, &gap)?;
        let size = image.encoding.size_of::<ProgramHeader>();
        let entries = zeros.saturating_sub(offset - end) / size;
        let most = u64::from(elf::PN_XNUM).saturating_sub(1);
        Ok(Some(TablePlace {
            offset,
            entries: entries.min(most),
        }))
    }

    /// The plan with its table here, which all its headers fit. `None` if the plan changes the end
    /// of the PT_LOAD.
    pub(crate) fn moved(self, image: &Image, mut plan: Plan) -> Option<Plan> {
        let holder = holder(image)?;
        let (file, addresses) = (holder.file(), holder.memory());
        let size = plan.encoding.size_of::<ProgramHeader>();
        let len = (plan.headers.len() as u64).saturating_mul(size);
        let grown = self.offset + len - file.end;
        let shift = self.offset.checked_sub(plan.program_table)?;
        let segment = plan
            .segments
            .iter_mut()
            .find(|s| (s.file().end, s.memory().end) == (file.end, addresses.end))?;
        segment.filesz += grown;
        segment.memsz += grown;
        for header in &mut plan.headers {
            let ends_here = header.filesz > 0
                && header.offset.saturating_add(header.filesz) == file.end
                && header.vaddr.saturating_add(header.memsz) == addresses.end;
            if header.p_type == elf::PT_LOAD.0 && ends_here {
                header.filesz += grown;
                header.memsz += grown;
            }
            if header.p_type == elf::PT_PHDR.0 {
                header.offset = header.offset.wrapping_add(shift);
                header.vaddr = header.vaddr.wrapping_add(shift);
                header.paddr = header.paddr.wrapping_add(shift);
            }
        }
        plan.program_table = self.offset;
        let addresses = Span::new(addresses.end, addresses.end + grown);
        plan.warnings.push(Warning::TableMoved { addresses });
        Some(plan)
    }
}

/// The PT_LOAD that holds the ELF header and the table, if more of it may come from the file. PT_PHDR
/// names the table, or there is none.
fn holder(image: &Image) -> Option<&Segment> {
    let holder = image.segments.first()?;
    let table = Span::new(image.program_table.offset, image.program_table.end());
    let holds = holder.offset == 0 && holder.file().intersect(&table) == table;
    let may_grow = !holder.perms.write && holder.filesz == holder.memsz;
    let names_table = |header: &ProgramHeader| {
        header.offset == table.start
            && header.vaddr == holder.vaddr.saturating_add(table.start)
            && (header.filesz, header.memsz) == (table.len(), table.len())
    };
    let mut names = image.headers.iter().filter(|h| h.p_type == elf::PT_PHDR.0);
    (holds && may_grow && names.all(names_table)).then_some(holder)
}
