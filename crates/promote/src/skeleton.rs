//! What of an ELF file a copy of its text needs so that tools find symbols in it: headers, symbols,
//! unwind tables and notes. Pure.
//!
//! A copy that is not shifted has the same build-id as its file, and every offset means the same. A
//! shifted copy has tables of its own and another build-id, because profilers keep the symbols of a
//! build-id for all files with it, and offsets in this one differ.

use std::mem::size_of;

use hugetext_leaf::{COPY_TABLES, Span};
use object::elf::{
    FileHeader64, PF_X, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD, PT_NOTE, PT_PHDR, ProgramHeader64,
    SHF_ALLOC, SHN_UNDEF, SHT_DYNAMIC, SHT_DYNSYM, SHT_NOBITS, SHT_NOTE, SHT_NULL, SHT_STRTAB,
    SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionHeader64,
};
use object::{NativeEndian, U16, U32, U64, pod};

type Header = FileHeader64<NativeEndian>;
type Program = ProgramHeader64<NativeEndian>;
type Section = SectionHeader64<NativeEndian>;

/// Bytes of a copy apart from its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset in the copy.
    pub(crate) at: u64,
    /// The bytes.
    pub(crate) bytes: Bytes,
}

impl Part {
    /// The offset behind it.
    pub(crate) fn end(&self) -> u64 {
        let len = match &self.bytes {
            Bytes::OfFile(span) => span.len(),
            Bytes::Changed(bytes) => bytes.len() as u64,
        };
        self.at.saturating_add(len)
    }
}

/// Where the bytes of a part come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// From these offsets of the file.
    OfFile(Span),
    /// They are changed.
    Changed(Vec<u8>),
}

/// Sections beside symbols and notes that tools look for, by name.
const WANTED: [&[u8]; 6] = [
    b".eh_frame",
    b".eh_frame_hdr",
    b".gnu_debugdata",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".rela.plt",
];

/// The most that sections without an address may take, in bytes. Symbols of larger programs are left
/// out: the copy is memory.
const MOST: u64 = 64 << 20;

/// The most that notes may take, in bytes. The largest seen have a few hundred.
const MOST_NOTES: u64 = 1 << 16;

/// What is mapped of a copy, in offsets of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// All that is mapped.
    pub(crate) mapped: Span,
    /// The text in it. What is mapped around it need not be what the file has there.
    pub(crate) text: Span,
}

/// The parts of a copy whose text is shifted by `shift` bytes and that shows `shown`. `read` reads that many bytes at an
/// offset of the file, which has `file_len` bytes; `None` if it ends before. `None` if the file is not an ELF file that
/// can be shown so; its copy has text alone. Any user may have made the file, so no part lies beyond its end.
pub(crate) fn skeleton(
    read: impl Fn(u64, u64) -> Option<Vec<u8>>,
    file_len: u64,
    shift: u64,
    shown: Shown,
) -> Option<Vec<Part>> {
    let mut header: Header = one(&read(0, size_of::<Header>() as u64)?)?;
    if header.e_ident.magic != object::elf::ELFMAG
        || header.e_ident.class != object::elf::ELFCLASS64
        || usize::from(header.e_phentsize.get(NativeEndian)) != size_of::<Program>()
    {
        return None;
    }
    let count = u64::from(header.e_phnum.get(NativeEndian));
    let at = header.e_phoff.get(NativeEndian);
    let mut programs: Vec<Program> = many(&read(at, count * size_of::<Program>() as u64)?)?;
    let count = u64::from(header.e_shnum.get(NativeEndian));
    let at = header.e_shoff.get(NativeEndian);
    let sections = read(at, count * size_of::<Section>() as u64);
    let mut sections: Vec<Section> = sections.and_then(|bytes| many(&bytes)).unwrap_or_default();

    let mut parts = keep_sections(&mut sections, &header, &read, file_len, shift);
    let mut notes_left = MOST_NOTES;
    for program in programs.iter_mut() {
        let (start, len) = (
            program.p_offset.get(NativeEndian),
            program.p_filesz.get(NativeEndian),
        );
        if program.p_type.get(NativeEndian) == PT_NOTE && len <= notes_left {
            notes_left -= len;
            let mut notes = read(start, len)?;
            if shift != 0 {
                change_build_id(&mut notes, shift);
            }
            parts.push(Part {
                at: start.checked_add(shift)?,
                bytes: Bytes::Changed(notes),
            });
        }
        program.p_offset = U64::new(NativeEndian, start.checked_add(shift)?);
    }

    load_mapped_first(&mut programs, shown);

    // Without a shift, the tables stay where they are. Otherwise they follow the header.
    let mut end = size_of::<Header>() as u64;
    let mut place = |there: u64, len: usize| match shift {
        0 => there,
        _ => {
            let here = end.next_multiple_of(8);
            end = here + len as u64;
            here
        }
    };
    let (program_bytes, section_bytes) = (
        pod::bytes_of_slice(&programs).to_vec(),
        pod::bytes_of_slice(&sections).to_vec(),
    );
    let programs_at = place(header.e_phoff.get(NativeEndian), program_bytes.len());
    let sections_at = place(header.e_shoff.get(NativeEndian), section_bytes.len());
    if shift != 0 && end > COPY_TABLES {
        return None;
    }
    header.e_phoff = U64::new(NativeEndian, programs_at);
    header.e_shoff = U64::new(NativeEndian, sections_at);
    if sections.is_empty() {
        header.e_shoff = U64::new(NativeEndian, 0);
        header.e_shnum = U16::new(NativeEndian, 0);
        header.e_shstrndx = U16::new(NativeEndian, SHN_UNDEF);
    }
    let tables = [
        (0, pod::bytes_of(&header).to_vec()),
        (programs_at, program_bytes),
        (sections_at, section_bytes),
    ];
    // A table without entries may be said to lie anywhere.
    let tables = tables.into_iter().filter(|(_, bytes)| !bytes.is_empty());
    parts.extend(tables.map(|(at, bytes)| Part {
        at,
        bytes: Bytes::Changed(bytes),
    }));
    Some(parts)
}

/// Makes what is mapped the first segment that is loaded. libdwfl takes the first one for what
/// the first mapping of a file shows. The new entry takes the place of one that only the loader
/// reads.
fn load_mapped_first(programs: &mut [Program], shown: Shown) {
    let mapped = shown.mapped;
    let holds = |program: &&Program| {
        let (start, len) = (
            program.p_offset.get(NativeEndian),
            program.p_filesz.get(NativeEndian),
        );
        let segment = Span::new(start, start.saturating_add(len));
        program.p_type.get(NativeEndian) == PT_LOAD
            && program.p_flags.get(NativeEndian).contains(PF_X)
            && segment.overlaps(&shown.text)
    };
    let spare = |program: &Program| {
        let kind = program.p_type.get(NativeEndian);
        [PT_PHDR, PT_GNU_STACK, PT_GNU_RELRO].contains(&kind)
    };
    let Some(text) = programs.iter().find(holds).copied() else {
        return;
    };
    let Some(place) = programs.iter().position(spare) else {
        return;
    };
    let distance = mapped.start.wrapping_sub(text.p_offset.get(NativeEndian));
    let address = text.p_vaddr.get(NativeEndian).wrapping_add(distance);
    let mut first = text;
    first.p_offset = U64::new(NativeEndian, mapped.start);
    first.p_vaddr = U64::new(NativeEndian, address);
    first.p_paddr = first.p_vaddr;
    first.p_filesz = U64::new(NativeEndian, mapped.len());
    first.p_memsz = first.p_filesz;
    // Segments are loaded in the order of the table.
    if let Some(before) = programs.get_mut(..=place) {
        before.rotate_right(1);
        if let Some(entry) = before.first_mut() {
            *entry = first;
        }
    }
}

/// Keeps the sections that tools look for, and returns them. The others are shifted; those without an address lose
/// their content.
fn keep_sections(
    sections: &mut [Section],
    header: &Header,
    read: &impl Fn(u64, u64) -> Option<Vec<u8>>,
    file_len: u64,
    shift: u64,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let names = sections
        .get(usize::from(header.e_shstrndx.get(NativeEndian).0))
        .map(place_of)
        .filter(|names| names.len() <= 1 << 20)
        .and_then(|names| read(names.start, names.len()))
        .unwrap_or_default();
    let mut left = MOST;
    for section in sections {
        let kind = section.sh_type.get(NativeEndian);
        if kind == SHT_NULL {
            continue;
        }
        let place = place_of(section);
        let by_kind = [
            SHT_SYMTAB,
            SHT_DYNSYM,
            SHT_STRTAB,
            SHT_SYMTAB_SHNDX,
            SHT_NOTE,
            SHT_DYNAMIC,
        ];
        let wanted = by_kind.contains(&kind)
            || kind != SHT_NOBITS && WANTED.contains(&name_of(section, &names));
        if wanted && place.len() <= left && place.end <= file_len {
            left -= place.len();
            if kind != SHT_NOTE {
                parts.push(Part {
                    at: place.start.saturating_add(shift),
                    bytes: Bytes::OfFile(place),
                });
            }
        } else if !section.sh_flags.get(NativeEndian).contains(SHF_ALLOC) {
            section.sh_type = U32::new(NativeEndian, SHT_NOBITS);
        }
        section.sh_offset = U64::new(NativeEndian, place.start.saturating_add(shift));
    }
    parts
}

fn place_of(section: &Section) -> Span {
    let start = section.sh_offset.get(NativeEndian);
    Span::new(
        start,
        start.saturating_add(section.sh_size.get(NativeEndian)),
    )
}

fn name_of<'n>(section: &Section, names: &'n [u8]) -> &'n [u8] {
    let at = section.sh_name.get(NativeEndian) as usize;
    let rest = names.get(at..).unwrap_or_default();
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Makes another build-id of the one in `notes`: the same for the same shift.
fn change_build_id(notes: &mut [u8], shift: u64) {
    /// NT_GNU_BUILD_ID, and the note's name.
    const KIND: u32 = 3;
    const NAME: &[u8] = b"GNU\0";
    let mut at = 0usize;
    loop {
        let word = |index: usize| {
            let start = at.checked_add(4 * index)?;
            let bytes = notes.get(start..start.checked_add(4)?)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let (Some(name_len), Some(len), Some(kind)) = (word(0), word(1), word(2)) else {
            return;
        };
        let name = at.saturating_add(12);
        let start = name.saturating_add((name_len as usize).next_multiple_of(4));
        let is_id = kind == KIND && notes.get(name..).is_some_and(|rest| rest.starts_with(NAME));
        let end = start.saturating_add(len as usize);
        if is_id && let Some(id) = notes.get_mut(start..end) {
            for (byte, change) in id.iter_mut().zip(shift.to_le_bytes().iter().cycle()) {
                *byte ^= *change;
            }
        }
        at = start.saturating_add((len as usize).next_multiple_of(4));
    }
}

fn one<T: pod::Pod>(bytes: &[u8]) -> Option<T> {
    pod::from_bytes(bytes).ok().map(|(value, _)| *value)
}

fn many<T: pod::Pod>(bytes: &[u8]) -> Option<Vec<T>> {
    let count = bytes.len().checked_div(size_of::<T>())?;
    let (values, _) = pod::slice_from_bytes(bytes, count).ok()?;
    Some(values.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn part_of(file: &[u8]) -> impl Fn(u64, u64) -> Option<Vec<u8>> {
        |at, len| {
            let range = usize::try_from(at).ok()?..usize::try_from(at.checked_add(len)?).ok()?;
            file.get(range).map(<[u8]>::to_vec)
        }
    }

    fn all(mapped: Span) -> Shown {
        let text = mapped;
        Shown { mapped, text }
    }

    /// The copy that the parts make, with all text.
    fn built(file: &[u8], shift: u64) -> Vec<u8> {
        let shown = all(Span::new(shift, shift));
        let parts = skeleton(part_of(file), file.len() as u64, shift, shown).unwrap();
        let mut copy = vec![0; file.len() + shift as usize];
        for part in parts {
            let bytes = match part.bytes {
                Bytes::OfFile(span) => file[span.start as usize..span.end as usize].to_vec(),
                Bytes::Changed(bytes) => bytes,
            };
            copy[part.at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        copy
    }

    #[test]
    fn symbols_are_found_at_the_same_addresses_and_shifted_offsets() {
        use object::{Object, ObjectSegment, ObjectSymbol};
        let file = own();
        let original = object::File::parse(&file[..]).unwrap();
        let symbols = |file: &object::File<'_>| {
            let symbol = |symbol: object::Symbol<'_, '_>| {
                (symbol.address(), symbol.name().unwrap_or("").to_owned())
            };
            file.symbols().map(symbol).collect::<Vec<_>>()
        };
        for shift in [0, 0x1f_3000] {
            let copy = built(&file, shift);
            let copy = object::File::parse(&copy[..]).unwrap();
            assert_eq!(symbols(&copy), symbols(&original));
            let id = |file: &object::File<'_>| file.build_id().unwrap().map(<[u8]>::to_vec);
            assert_eq!(
                id(&copy) == id(&original),
                shift == 0 || id(&original).is_none()
            );
            for (one, other) in copy.segments().zip(original.segments()) {
                assert_eq!(one.address(), other.address());
                assert_eq!(one.file_range().0, other.file_range().0 + shift);
            }
        }
    }

    #[test]
    fn the_first_segment_is_what_is_mapped() {
        use object::{Object, ObjectSection, ObjectSegment};
        let file = own();
        let original = object::File::parse(&file[..]).unwrap();
        let text = original.section_by_name(".text").unwrap();
        let (offset, len) = text.file_range().unwrap();
        let windows = Span::new(offset + 0x1000, offset + len);
        let parts = skeleton(part_of(&file), file.len() as u64, 0, all(windows)).unwrap();
        let mut copy = file.clone();
        for part in parts {
            if let Bytes::Changed(bytes) = part.bytes {
                copy[part.at as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        let copy = object::File::parse(&copy[..]).unwrap();
        let first = copy.segments().next().unwrap();
        assert_eq!(first.address(), text.address() + 0x1000);
        assert_eq!(first.file_range().0, windows.start);
        assert_eq!(copy.segments().count(), original.segments().count() + 1);
    }

    /// Any user may run the file, so no byte of it may cause a panic.
    #[test]
    fn no_header_is_trusted() {
        let file = own();
        assert_eq!(
            skeleton(part_of(b"#!/bin/sh\n"), 10, 0, all(Span::new(0, 0))),
            None
        );
        let mut seed = 1u64;
        for _ in 0..2000 {
            let mut wrong = file[..8192].to_vec();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let at = (seed >> 33) as usize % 1024;
                wrong[at] = (seed >> 25) as u8;
            }
            let shown = all(Span::new(0x2000, 0x40_0000));
            let parts = skeleton(part_of(&wrong), wrong.len() as u64, 0x1000, shown);
            let ends = parts.iter().flatten().map(Part::end);
            assert!(ends.max().unwrap_or(0) <= wrong.len() as u64 + 0x1000);
        }
    }

    /// Memory that a copy takes is root's.
    #[test]
    fn a_file_of_many_notes_makes_no_large_copy() {
        let mut file = own();
        let program = size_of::<Program>();
        let count = u16::MAX as usize;
        let at = file.len().next_multiple_of(8);
        file.resize(at + count * program, 0);
        file[32..40].copy_from_slice(&(at as u64).to_ne_bytes());
        file[56..58].copy_from_slice(&u16::MAX.to_ne_bytes());
        for entry in file[at..].chunks_exact_mut(program) {
            entry[..4].copy_from_slice(&PT_NOTE.0.to_ne_bytes());
            entry[32..40].copy_from_slice(&0x8000u64.to_ne_bytes());
        }
        let shown = all(Span::new(0x1000, 0x2000));
        let parts = skeleton(part_of(&file), file.len() as u64, 0, shown).unwrap();
        let changed = parts.iter().map(|part| match &part.bytes {
            Bytes::Changed(bytes) => bytes.len(),
            Bytes::OfFile(_) => 0,
        });
        let tables = count * program + (1 << 20);
        assert!(changed.sum::<usize>() < tables + MOST_NOTES as usize);
    }
}
