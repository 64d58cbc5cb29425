//! Bytes of a file that are read before a loader can ask for huge folios.

use hugetext_leaf::Span;
use object::elf;

use crate::encoding::{Encoding, FileHeader};
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;

impl Image {
    /// The ranges of the file that kernel and loader read before the loader asks for huge folios:
    /// the ELF header and the program headers, the name of the interpreter (fs/binfmt_elf.c,
    /// load_elf_binary()), and the notes that PT_GNU_PROPERTY names (glibc,
    /// _dl_executable_postprocess()). The page cache then holds small folios there.
    pub fn early_reads(&self) -> Vec<Span> {
        early_reads(self.encoding, &self.headers, &self.program_table)
    }
}

pub(crate) fn early_reads(
    encoding: Encoding,
    headers: &[ProgramHeader],
    table: &Table,
) -> Vec<Span> {
    let read = [elf::PT_INTERP.0, elf::PT_GNU_PROPERTY.0];
    let named = headers
        .iter()
        .filter(|header| read.contains(&header.p_type))
        .map(|header| Span::new(header.offset, header.offset.saturating_add(header.filesz)));
    [
        Span::new(0, encoding.size_of::<FileHeader>()),
        Span::new(table.offset, table.end()),
    ]
    .into_iter()
    .chain(named)
    .filter(|span| !span.is_empty())
    .collect()
}
