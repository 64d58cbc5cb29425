//! The purposes of sections that are not loaded: whether a reader may look for one by its offset.

use object::elf;

use crate::section::Section;

/// Types that linkers, debuggers and loaders read. They find them by section headers.
const KNOWN_TYPES: [elf::SectionType; 10] = [
    elf::SHT_SYMTAB,
    elf::SHT_STRTAB,
    elf::SHT_RELA,
    elf::SHT_NOTE,
    elf::SHT_REL,
    elf::SHT_GROUP,
    elf::SHT_SYMTAB_SHNDX,
    elf::SHT_GNU_ATTRIBUTES,
    elf::SHT_GNU_LIBLIST,
    elf::SHT_GNU_HASH,
];

/// Ranges of types: those of an architecture's ABI (attributes), and LLVM's own.
const KNOWN_RANGES: [std::ops::RangeInclusive<u32>; 2] =
    [0x7000_0000..=0x7fff_ffff, 0x6fff_4c00..=0x6fff_4cff];

/// Names, and beginnings of names, of SHT_PROGBITS sections whose readers find them by section
/// headers.
pub(crate) const KNOWN_NAMES: &[&[u8]] = &[
    // Debug information: gdb, elfutils, LLVM (DWARF, section names; the linkers' compressed form).
    b".debug",
    b".zdebug_",
    b".gdb_index",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".gnu_debugdata",
    b".gnu.debuglto_",
    b".stab",
    b".line",
    b".mdebug",
    b".pdr",
    b".BTF",
    b".ctf",
    b".SUNW_ctf",
    // Swift's module and autolink entries: lldb, swiftc. CUDA: cuda-gdb, cuobjdump.
    b".swift_ast",
    b".swift1_autolink_entries",
    b".nv_debug_",
    // Remarks of compilers and linkers: readelf, annocheck, cargo-audit; warnings of the linker.
    b".comment",
    b".ident",
    b".note",
    b".annobin",
    b".gnu.build.attributes",
    b".GCC.command.line",
    b".gnu.warning",
    b".gnu.glibc-stub.",
    b".dep-v0",
    b".remarks",
    // Profiles, coverage, frames, calls: llvm-profgen, llvm-cov, llvm-readobj, BOLT.
    b".pseudo_probe",
    b"__llvm_cov",
    b"__llvm_prf",
    b".stack_sizes",
    b".callgraph",
    b".bolt",
    // Remains of link-time optimisation: the linkers' plugins.
    b".gnu.lto_",
    b".gnu_object_only",
    b".llvm",
    b".rustc",
    b".rmeta",
    b".go_export",
    // prelink: the data that undoes its work, and its tables.
    b".gnu.prelink_undo",
    b".gnu.libstr",
    // Programs that find boot files or a checksum in their own file by the section headers: Racket
    // (find_section()), ClickHouse.
    b".csboot",
    b".rack",
    b".clickhouse.hash",
];

/// Whether the section may be data of the program itself, which the program may find by an offset
/// in its file: PyInstaller's `pydata`, Godot's `pck`. It is not part of the memory image, or not
/// at the address that it gives, and neither its type nor its name tells who reads it.
pub(crate) fn is_payload(section: &Section, name: &[u8], is_loaded: bool) -> bool {
    let is_known = KNOWN_TYPES.iter().any(|known| known.0 == section.sh_type)
        || KNOWN_RANGES
            .iter()
            .any(|range| range.contains(&section.sh_type))
        || KNOWN_NAMES.iter().any(|known| name.starts_with(known));
    section.file_size() > 0 && !is_loaded && !is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(sh_type: u32) -> Section {
        Section {
            sh_type,
            offset: 0x1000,
            size: 0x100,
            ..Section::default()
        }
    }

    #[test]
    fn what_toolchains_make_is_no_payload() {
        // As lab/results/files.md has them.
        let names = [
            ".BTF",
            ".GCC.command.line",
            ".annobin.notes",
            ".callgraph",
            ".comment",
            ".ctf",
            ".debug_gdb_scripts",
            ".debug_info",
            ".dep-v0",
            ".gnu.warning",
            ".gnu.warning.tmpnam",
            ".gnu_debugaltlink",
            ".gnu_debugdata",
            ".gnu_debuglink",
            ".llvmbc",
            ".llvmcmd",
            ".nv_debug_info",
            ".pseudo_probe",
            ".pseudo_probe_desc",
            ".rackboot",
            ".rackprog",
            ".stab",
            ".stabstr",
            ".stack_sizes",
            ".swift_ast",
            ".zdebug_info",
            "__llvm_covfun",
            "__llvm_covmap",
        ];
        for name in names {
            assert!(!is_payload(&section(1), name.as_bytes(), false), "{name}");
        }
        // .symtab, .rela.text of --emit-relocs, .note.stapsdt, .riscv.attributes, .llvm_addrsig
        for sh_type in [2, 4, 7, 0x7000_0003, 0x6fff_4c03] {
            assert!(!is_payload(&section(sh_type), b"", false), "{sh_type:#x}");
        }
    }

    #[test]
    fn what_nobody_knows_is() {
        for (sh_type, name) in [
            (1, "pydata"),
            (1, ".data.own"),
            // Guile maps its files itself.
            (1, ".guile.docstrs"),
            (1, ""),
            (0x6123_4567, ".x"),
        ] {
            assert!(
                is_payload(&section(sh_type), name.as_bytes(), false),
                "{name}"
            );
            assert!(
                !is_payload(&section(sh_type), name.as_bytes(), true),
                "{name}"
            );
        }
        assert!(!is_payload(&section(elf::SHT_NOBITS.0), b".x", false));
    }
}
