//! The headers of a file from which a process maps text alone.

use hugetext_leaf::Leaf;
use object::elf;

use crate::encoding::Overflow;
use crate::headers::ProgramHeader;
use crate::image::Image;

/// The program headers of a copy of which a process maps the text and nothing else, and where they lie in the file. Text is its
/// first segment, at the place of a page. libdwfl knows no more of a mapped file than its lowest address, and takes that for
/// the beginning of the first segment (dwfl_linux_proc_report()): with the headers of the whole program it would name other
/// functions. Such a file cannot be executed.
///
/// # Errors
/// Never, in a file whose headers were read: no number grows.
pub fn text_alone(image: &Image, page: Leaf) -> Result<(u64, Vec<u8>), Overflow> {
    let mut table = Vec::new();
    for header in &image.headers {
        table.extend(image.encoding.encode(&shown(header, page))?);
    }
    Ok((image.program_table.offset, table))
}

fn shown(header: &ProgramHeader, page: Leaf) -> ProgramHeader {
    match elf::ProgramType(header.p_type) {
        elf::PT_LOAD if header.perms().exec => ProgramHeader {
            align: page.bytes(),
            ..*header
        },
        elf::PT_LOAD | elf::PT_PHDR => ProgramHeader {
            p_type: elf::PT_NULL.0,
            ..*header
        },
        _ => *header,
    }
}
