//! Edits program headers as bytes, to make files that linkers do not make.

use std::fs;
use std::path::Path;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const PT_GNU_STACK: u32 = 0x6474_e551;

/// One entry of a 64-bit program header table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) p_type: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) filesz: u64,
    pub(crate) memsz: u64,
    pub(crate) align: u64,
}

const SIZE: usize = 56;

impl Header {
    fn read(bytes: &[u8]) -> Header {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        Header {
            p_type: half(0),
            flags: half(4),
            offset: word(8),
            vaddr: word(16),
            filesz: word(32),
            memsz: word(40),
            align: word(48),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.p_type.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        let (at, size) = (self.vaddr, self.filesz);
        let words = [self.offset, at, at, size, self.memsz, self.align];
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Edits a file together with its program headers. Their number stays the same.
pub(crate) fn edit(path: &Path, edit: impl FnOnce(&mut Vec<u8>, &mut [Header])) {
    let mut file = fs::read(path).unwrap();
    let table = u64::from_le_bytes(file[32..40].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(file[56..58].try_into().unwrap()) as usize;
    let entries = table..table + count * SIZE;
    let mut headers: Vec<Header> = file[entries.clone()]
        .chunks_exact(SIZE)
        .map(Header::read)
        .collect();
    edit(&mut file, &mut headers);
    for (place, header) in file[entries].chunks_exact_mut(SIZE).zip(&headers) {
        header.write(place);
    }
    fs::write(path, file).unwrap();
}

/// Appends bytes to a file, and turns its PT_GNU_STACK into a PT_LOAD that maps them after
/// everything else. Returns the new header.
pub(crate) fn append_load(file: &mut Vec<u8>, headers: &mut [Header], bytes: &[u8]) -> Header {
    const PAGE: u64 = 4096;
    let loads = headers.iter().filter(|header| header.p_type == PT_LOAD);
    let end = loads.map(|load| load.vaddr + load.memsz).max().unwrap();
    file.resize(file.len().next_multiple_of(PAGE as usize), 0);
    let load = Header {
        p_type: PT_LOAD,
        flags: 4,
        offset: file.len() as u64,
        vaddr: end.next_multiple_of(PAGE),
        filesz: bytes.len() as u64,
        memsz: bytes.len() as u64,
        align: PAGE,
    };
    file.extend_from_slice(bytes);
    let mut spare = headers.iter_mut();
    *spare.find(|header| header.p_type == PT_GNU_STACK).unwrap() = load;
    load
}
