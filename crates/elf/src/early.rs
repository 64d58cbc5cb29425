//! Bytes of a file that are read before a loader can ask for huge folios.

use hugetext_leaf::{EarlyBytes, EarlyRead, Span};
use object::elf;

use crate::encoding::{Encoding, FileHeader};
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;

impl Image {
    /// What kernel and loader read of the file before the loader asks for huge folios:
    /// the ELF header and the program headers, the name of the interpreter (fs/binfmt_elf.c,
    /// load_elf_binary()), and the notes that PT_GNU_PROPERTY names (glibc,
    /// _dl_executable_postprocess()). The page cache then holds small folios there.
    pub fn early_reads(&self) -> Vec<EarlyRead> {
        early_reads(self.encoding, &self.headers, &self.program_table)
    }
}

pub(crate) fn early_reads(
    encoding: Encoding,
    headers: &[ProgramHeader],
    table: &Table,
) -> Vec<EarlyRead> {
    let read = |what, offset: u64, len: u64| EarlyRead {
        what,
        file: Span::new(offset, offset.saturating_add(len)),
    };
    let header = encoding.size_of::<FileHeader>();
    let mut found = vec![
        read(EarlyBytes::ElfHeader, 0, header),
        read(EarlyBytes::ProgramHeaders, table.offset, table.len()),
    ];
    found.extend(headers.iter().filter_map(|named| {
        let what = match named.p_type {
            p_type if p_type == elf::PT_INTERP.0 => EarlyBytes::Interpreter,
            p_type if p_type == elf::PT_GNU_PROPERTY.0 => EarlyBytes::GnuProperty,
            _ => return None,
        };
        Some(read(what, named.offset, named.filesz))
    }));
    found.retain(|read| !read.file.is_empty());
    found
}
