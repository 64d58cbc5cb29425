//! Which sections may lie elsewhere in the new file.
//!
//! The proof has rules of its own: it reads no table of those who plan. What neither knows stays where it is.

use hugetext_leaf::Span;
use object::elf;

use crate::image::Image;
use crate::section::Section;

/// Beginnings of the names under which compilers, linkers and debuggers keep what programs do not load. Whoever
/// reads it looks for the name, or for the type of the section, in the section header table.
const FOUND_BY_NAME: &[&str] = &[
    // DWARF, also compressed by GNU, and what gdb adds to it.
    ".debug",
    ".zdebug_",
    ".gdb_index",
    ".gnu_debug",
    ".gnu.debuglto_",
    // Other debug information: stabs, ECOFF in MIPS, CTF, BTF, that of Swift and of CUDA.
    ".stab",
    ".line",
    ".mdebug",
    ".pdr",
    ".ctf",
    ".SUNW_",
    ".BTF",
    ".swift",
    ".nv",
    // Who compiled it and how; what packages it was built from.
    ".comment",
    ".ident",
    ".note",
    ".annobin",
    ".gnu.build.attributes",
    ".GCC.command.line",
    ".dep-v0",
    // Words of the linker about symbols.
    ".gnu.warning",
    ".gnu.glibc-stub.",
    // Profiles, coverage, sizes of stack frames, graphs of calls, remarks.
    ".pseudo_probe",
    ".stack_sizes",
    ".callgraph",
    "__llvm_",
    ".remarks",
    ".gcc_compiled_",
    ".bolt",
    // For linking once more.
    ".gnu.lto_",
    ".gnu_object_only",
    ".llvm",
    ".rustc",
    ".rmeta",
    ".go_export",
    // prelink.
    ".gnu.prelink_undo",
    ".gnu.libstr",
    // Programs that look for the name in their own file: Racket, AppImage, ClickHouse.
    ".csboot",
    ".rack",
    ".upd_info",
    ".sha256_sig",
    ".sig_key",
    ".digest_md5",
    ".clickhouse.hash",
];

/// Whether the section of this name must stay at its offset: it has bytes, they are not where its address says, and
/// it does not tell who reads them.
pub(super) fn must_stay(section: &Section, name: &[u8], image: &Image) -> bool {
    let is_found_by_type = match section.sh_type {
        // The types of the gABI. SHT_PROGBITS and SHT_SHLIB have no meaning of their own.
        2..=4 | 6..=9 | 11 | 14..=19 => true,
        // LLVM's, GNU's, and those of processors.
        0x6fff_4c00..=0x6fff_4cff | 0x6fff_fff5..=0x6fff_fff7 | 0x7000_0000..=0x7fff_ffff => true,
        _ => false,
    };
    let is_found_by_name = FOUND_BY_NAME
        .iter()
        .any(|known| name.starts_with(known.as_bytes()));
    let is_found = is_found_by_type || is_found_by_name || is_mapped(section, image);
    section.file_size() > 0 && !is_found
}

/// Whether the bytes of the section are in memory at its address.
pub(super) fn is_mapped(section: &Section, image: &Image) -> bool {
    let Some(end) = section.addr.checked_add(section.file_size()) else {
        return false;
    };
    let mut at = section.addr;
    for segment in &image.segments {
        let Span { start, end } = segment.file_backed();
        let distance = segment.vaddr.wrapping_sub(segment.offset);
        if start <= at && at < end && distance == section.addr.wrapping_sub(section.offset) {
            at = end;
        }
    }
    section.flags & elf::SHF_ALLOC.0 != 0 && section.addr < at && end <= at
}

#[cfg(test)]
mod tests {
    use super::FOUND_BY_NAME;
    use crate::purpose::KNOWN_NAMES;

    /// Otherwise a fix would be promised and then refused.
    #[test]
    fn what_the_plan_moves_by_its_name_the_proof_lets_move() {
        for name in KNOWN_NAMES {
            let known = |known: &&&str| name.starts_with(known.as_bytes());
            let found = FOUND_BY_NAME.iter().find(known);
            assert!(found.is_some(), "{}", String::from_utf8_lossy(name));
        }
    }
}
