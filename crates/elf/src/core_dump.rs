//! Which files ran, as a core dump tells: their paths (NT_FILE), and the first bytes of each in the memory of the program.
//! By its headers, which lie there, a debugger knows whether a file is the one that ran.

use object::elf;

use crate::encoding::{Dynamic, Encoding, Entry, Fields};
use crate::error::ImageError;
use crate::headers::{ProgramHeader, Tables, read_file_header, read_program_headers, read_tables};
use crate::source::{ReadAt, read_range};

/// Types of notes (include/uapi/linux/elf.h).
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
/// include/uapi/linux/auxvec.h.
const AT_PHDR: u64 = 3;
/// Longer notes are refused. A process has 65,530 mappings at most where nobody raised the limit.
const MAX_NOTES: u64 = 64 << 20;
/// How much of a file is compared: headers and, mostly, the build-id.
const HEAD: u64 = 4096;

/// The program of a core dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreDump {
    /// The path under which it ran, as bytes.
    pub path: Vec<u8>,
    /// The first bytes of its file, as they lay in its memory.
    pub head: Vec<u8>,
}

/// Why a core dump does not tell which file ran.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// It is something else.
    #[error("not a core dump")]
    NotACore,
    /// Its headers or notes cannot be read.
    #[error(transparent)]
    Headers(#[from] ImageError),
    /// The kernel writes NT_AUXV and NT_FILE.
    #[error("a core dump without a note of the kernel: {0}")]
    NoNote(&'static str),
    /// The program was mapped from no file, or the note is damaged.
    #[error("a core dump that names no file at its program headers")]
    NoProgram,
    /// See core(5), coredump_filter.
    #[error("a core dump without the headers of its program (bit 4 of coredump_filter)")]
    NoHead,
}

/// A number as wide as the class.
#[derive(Clone, Copy, Default)]
struct Wide(u64);

impl Entry for Wide {
    const SIZES: [u64; 2] = [4, 8];

    fn visit(&mut self, fields: &mut impl Fields) {
        fields.wide(&mut self.0);
    }
}

/// A number of 32 bits.
#[derive(Clone, Copy, Default)]
struct Word(u32);

impl Entry for Word {
    const SIZES: [u64; 2] = [4, 4];

    fn visit(&mut self, fields: &mut impl Fields) {
        fields.word(&mut self.0);
    }
}

/// A mapping of a file.
struct Mapped<'n> {
    start: u64,
    end: u64,
    path: &'n [u8],
}

impl CoreDump {
    /// Reads headers and notes, and the first page of the program.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<CoreDump, CoreError> {
        let (encoding, header) = match read_file_header(source) {
            Err(ImageError::NotElf) => return Err(CoreError::NotACore),
            read => read?,
        };
        if header.e_type != elf::ET_CORE.0 {
            return Err(CoreError::NotACore);
        }
        let file_len = source.len().map_err(ImageError::Read)?;
        let Tables { programs, .. } = read_tables(source, encoding, &header, file_len)?;
        let headers = read_program_headers(source, encoding, &programs, file_len)?;
        let (mut notes, mut left) = (Vec::new(), MAX_NOTES);
        for header in headers.iter().filter(|h| h.p_type == elf::PT_NOTE.0) {
            let rest = left.checked_sub(header.filesz);
            left = rest.ok_or(ImageError::Unsupported("notes of more than 64 MiB"))?;
            let bytes = read_range(source, header.offset, header.filesz, file_len, "the notes")?;
            notes.push(bytes);
        }
        let note = |wanted, name| {
            let mut found = notes
                .iter()
                .filter_map(|notes| note(encoding, notes, wanted));
            found.next().ok_or(CoreError::NoNote(name))
        };
        let vector: Vec<Dynamic> = encoding.decode_all(note(NT_AUXV, "NT_AUXV")?);
        let at = vector.iter().find(|entry| entry.d_tag == AT_PHDR);
        let at = at.ok_or(CoreError::NoProgram)?.d_val;
        let files = mapped_files(encoding, note(NT_FILE, "NT_FILE")?);
        let mut files = files.into_iter();
        let program = files.find(|file| (file.start..file.end).contains(&at));
        let program = program.ok_or(CoreError::NoProgram)?;
        Ok(CoreDump {
            path: program.path.to_vec(),
            head: memory(source, &headers, program.start, file_len)?,
        })
    }
}

/// The content of the first note of a type.
fn note(encoding: Encoding, notes: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut left = notes;
    loop {
        let fields: Vec<Word> = encoding.decode_all(left.get(..12)?);
        let [Word(name), Word(content), Word(kind)] = fields.as_slice() else {
            return None;
        };
        let name = usize::try_from(*name).ok()?.checked_next_multiple_of(4)?;
        let begin = name.checked_add(12)?;
        let content = usize::try_from(*content).ok()?;
        let end = begin.checked_add(content)?;
        if *kind == wanted {
            return left.get(begin..end);
        }
        left = left.get(begin.checked_add(content.checked_next_multiple_of(4)?)?..)?;
    }
}

/// The mappings of NT_FILE: their number, the size of a page, begin, end and offset of each, and then their paths
/// (fill_files_note() of fs/binfmt_elf.c). One that is cut off is left out.
fn mapped_files(encoding: Encoding, note: &[u8]) -> Vec<Mapped<'_>> {
    let width = encoding.size_of::<Wide>() as usize;
    let count = encoding.decode(note).map_or(0, |Wide(count)| count);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let table = count.saturating_mul(3).saturating_add(2);
    let Some((table, paths)) = note.split_at_checked(table.saturating_mul(width)) else {
        return Vec::new();
    };
    let numbers: Vec<Wide> = encoding.decode_all(table);
    let places = numbers.get(2..).unwrap_or_default().chunks_exact(3);
    let mapped = places.zip(paths.split(|byte| *byte == 0));
    mapped
        .filter_map(|(place, path)| match place {
            [Wide(start), Wide(end), _] => Some(Mapped {
                start: *start,
                end: *end,
                path,
            }),
            _ => None,
        })
        .collect()
}

/// The first page from an address on, as far as the dump has it.
fn memory(
    source: &(impl ReadAt + ?Sized),
    headers: &[ProgramHeader],
    start: u64,
    file_len: u64,
) -> Result<Vec<u8>, CoreError> {
    let left = |header: &ProgramHeader| {
        let skipped = start.checked_sub(header.vaddr)?;
        let left = header
            .filesz
            .checked_sub(skipped)
            .filter(|left| *left > 0)?;
        Some((header.offset.checked_add(skipped)?, left.min(HEAD)))
    };
    let loads = headers.iter().filter(|h| h.p_type == elf::PT_LOAD.0);
    let (offset, len) = loads.filter_map(left).next().ok_or(CoreError::NoHead)?;
    let head = read_range(source, offset, len, file_len, "its memory")?;
    match read_file_header(head.as_slice()) {
        Ok(_) => Ok(head),
        Err(_) => Err(CoreError::NoHead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 8;
    const AT: u64 = 0x40_0000;

    fn header(p_type: u32, offset: u64, len: u64, vaddr: u64) -> Vec<u8> {
        let encoding = Encoding::from_ident(2, 1).unwrap();
        let header = ProgramHeader {
            p_type,
            offset,
            filesz: len,
            memsz: len,
            vaddr,
            ..ProgramHeader::default()
        };
        encoding.encode(&header).unwrap()
    }

    fn note(kind: u32, content: &[u8]) -> Vec<u8> {
        let lengths = [5, content.len() as u32, kind].map(u32::to_le_bytes);
        let mut note = [lengths.as_flattened(), b"CORE\0\0\0\0", content].concat();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A core dump of 64 bits with two files; the first is the program.
    fn dump(kinds: [u32; 2]) -> Vec<u8> {
        let head = [&b"\x7fELF\x02\x01\x01"[..], &[7; 100]].concat();
        let vector = words(&[6, 4096, AT_PHDR, AT + 64, 0, 0]);
        let files = words(&[2, 4096, AT, AT + 4096, 0, AT + 8192, AT + 12288, 0]);
        let files = [&files[..], b"/bin/one\0/lib/two\0"].concat();
        let notes = [note(kinds[0], &vector), note(kinds[1], &files)].concat();
        let mut core = b"\x7fELF\x02\x01\x01".to_vec();
        core.resize(16, 0);
        core.extend([4, 0, 62, 0, 1, 0, 0, 0]);
        core.extend(words(&[0, 64, 0]));
        core.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let at = 64 + 2 * 56;
        core.extend(header(elf::PT_NOTE.0, at, notes.len() as u64, 0));
        let loaded = at + notes.len() as u64;
        core.extend(header(elf::PT_LOAD.0, loaded, head.len() as u64, AT));
        [core, notes, head].concat()
    }

    #[test]
    fn the_program_is_the_file_at_its_headers() {
        let found = CoreDump::read(&dump([NT_AUXV, NT_FILE])).unwrap();
        assert_eq!(found.path, b"/bin/one");
        assert_eq!((found.head.len(), found.head[7]), (107, 7));
    }

    /// Each header may name the same bytes.
    #[test]
    fn notes_are_bounded_in_all() {
        let mut core = dump([NT_AUXV, NT_FILE]);
        let len = 2 * MAX_NOTES / 3;
        core.resize(len as usize + 64 + 2 * 56, 0);
        for at in [64, 64 + 56] {
            let note = header(elf::PT_NOTE.0, 64 + 2 * 56, len, 0);
            core[at..at + 56].copy_from_slice(&note);
        }
        let error = CoreDump::read(&core).unwrap_err();
        assert!(error.to_string().contains("64 MiB"), "{error}");
    }

    #[test]
    fn what_is_missing_has_a_name() {
        let read = |bytes: &[u8]| CoreDump::read(bytes).unwrap_err();
        assert!(matches!(read(b"text"), CoreError::NotACore));
        let without = dump([NT_AUXV, 1]);
        assert!(matches!(read(&without), CoreError::NoNote("NT_FILE")));
        let without = dump([1, NT_FILE]);
        assert!(matches!(read(&without), CoreError::NoNote("NT_AUXV")));
        let mut program = dump([NT_AUXV, NT_FILE]);
        program[16] = 3;
        assert!(matches!(read(&program), CoreError::NotACore));
        let whole = dump([NT_AUXV, NT_FILE]);
        let cut = whole.get(..whole.len() - 1).unwrap();
        assert!(matches!(
            read(cut),
            CoreError::Headers(ImageError::Truncated(_))
        ));
        let mut other = whole.clone();
        *other.get_mut(whole.len() - 107).unwrap() = 0;
        assert!(matches!(read(&other), CoreError::NoHead));
    }

    /// Lengths and numbers of any value lead to an error or a result.
    #[test]
    fn damage_does_no_harm() {
        let whole = dump([NT_AUXV, NT_FILE]);
        for end in 0..whole.len() {
            let _ = CoreDump::read(whole.get(..end).unwrap());
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[end] = value;
                let _ = CoreDump::read(&damaged);
                let last = (end + WIDTH).min(whole.len());
                damaged[end..last].fill(value);
                let _ = CoreDump::read(&damaged);
            }
        }
    }
}
