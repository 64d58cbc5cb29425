//! Generates ELF files from numbers.

use proptest::prelude::*;

/// A PT_LOAD to lay out after the previous one.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Unmapped pages before it.
    pub(crate) skip: u64,
    /// The distance of its offset in the first page from the end of the previous one, bytes.
    pub(crate) gap: u64,
    /// Pages of padding in the file, beyond those that congruence needs.
    pub(crate) padding: u64,
    /// Bytes from the file.
    pub(crate) filesz: u64,
    /// Bytes of bss.
    pub(crate) bss: u64,
    /// p_flags.
    pub(crate) flags: u32,
    /// log2 of p_align.
    pub(crate) align: u32,
}

/// A whole file.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Address of the first segment of an ET_EXEC; none for ET_DYN.
    pub(crate) base: Option<u64>,
    /// PT_LOADs in order.
    pub(crate) loads: Vec<Load>,
    /// Bytes of a section that is not loaded.
    pub(crate) comment: u64,
    /// Whether the file has a section header table.
    pub(crate) sections: bool,
    /// Number of unused program headers.
    pub(crate) spare: u16,
    /// Whether bytes that no header names are set; otherwise they are zeros, as linkers leave them.
    pub(crate) payload: bool,
}

const PAGE: u64 = 4096;

/// Programs whose segments have up to `most` bytes each.
pub(crate) fn program(most: u64) -> impl Strategy<Value = Program> {
    let flags = prop_oneof![Just(4u32), Just(5), Just(6), Just(4), Just(5), Just(7)];
    let load = (
        0u64..20,
        0u64..5000,
        0u64..3,
        1..most,
        0u64..3,
        flags,
        12u32..17,
    );
    let load = load.prop_map(|(skip, gap, padding, filesz, bss, flags, align)| Load {
        skip,
        gap,
        padding,
        filesz,
        bss: bss * 3000,
        flags,
        align,
    });
    let base = prop_oneof![Just(None), Just(Some(0x40_0000)), Just(Some(0x1_1000))];
    let loads = proptest::collection::vec(load, 1..6);
    let rest = (0u64..9000, any::<bool>(), 0u16..3);
    (base, loads, rest).prop_map(|(base, loads, (comment, sections, spare))| Program {
        base,
        loads,
        // Without a header that names it, it would count as data after the image.
        comment: if sections { comment } else { 0 },
        sections,
        spare,
        payload: false,
    })
}

impl Program {
    /// The bytes of the file. Every byte that is not in a header depends on its offset, so that
    /// moved bytes differ from all others.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let headers = self.place();
        let end = headers
            .iter()
            .map(|h| h.offset + h.filesz)
            .max()
            .unwrap_or(0);
        let mut file: Vec<u8> = (0..end + self.comment).map(pattern).collect();
        let tables = self.tables();
        let behind = |header: &Placed| header.offset + header.filesz;
        for pair in headers.windows(2).filter(|_| !self.payload) {
            let gap = behind(&pair[0]) as usize..pair[1].offset as usize;
            file[gap].fill(0);
        }
        file.resize(file.len().max(tables as usize), 0);
        let symbols_at = file.len().next_multiple_of(8);
        if self.sections {
            file.resize(symbols_at, 0);
            put_symbols(&mut file, &headers);
        }
        let symbols = [
            0,
            symbols_at as u64,
            (file.len() - symbols_at.min(file.len())) as u64,
        ];
        let section_table = file.len().next_multiple_of(8) as u64;
        let section_count = headers.len() as u16 + 3;
        let (shoff, shnum) = if self.sections {
            (section_table, section_count)
        } else {
            (0, 0)
        };
        let mut start = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        put16(&mut start, &[if self.base.is_some() { 2 } else { 3 }, 62]);
        put32(&mut start, &[1]);
        put64(
            &mut start,
            &[headers.first().map_or(0, |h| h.vaddr), 64, shoff],
        );
        put32(&mut start, &[0]);
        let count = headers.len() as u16 + self.spare;
        put16(&mut start, &[64, 56, count, 64, shnum, 0]);
        for header in &headers {
            put32(&mut start, &[1, header.flags]);
            let memsz = header.filesz + header.bss;
            let (at, align) = (header.vaddr, 1 << header.align);
            put64(
                &mut start,
                &[header.offset, at, at, header.filesz, memsz, align],
            );
        }
        start.resize(tables as usize, 0);
        file[..start.len()].copy_from_slice(&start);
        if self.sections {
            file.resize(section_table as usize, 0);
            put_section(&mut file, 0, 0, [0; 3]);
            for header in &headers {
                put_section(
                    &mut file,
                    1,
                    2,
                    [header.vaddr, header.offset, header.filesz],
                );
            }
            // SHT_NOTE, which no reader finds by an offset of its own.
            put_section(&mut file, 7, 0, [0, end, self.comment]);
            put_section(&mut file, 2, 0, symbols);
        }
        file
    }

    /// Bytes of the ELF header and the program headers.
    fn tables(&self) -> u64 {
        64 + 56 * (self.loads.len() as u64 + u64::from(self.spare))
    }

    fn place(&self) -> Vec<Placed> {
        let base = self.base.unwrap_or(0);
        let mut placed: Vec<Placed> = Vec::new();
        for load in &self.loads {
            let align = 1 << load.align;
            let (vaddr, offset) = match placed.last() {
                None => (base, 0),
                Some(last) => {
                    let end = last.vaddr + last.filesz + last.bss;
                    let page =
                        (end.next_multiple_of(PAGE) + load.skip * PAGE).next_multiple_of(align);
                    let free = last.offset + last.filesz + load.gap;
                    // The lowest offset from `free` on that is congruent to an address in `page`.
                    let offset = free + load.padding * PAGE;
                    (page + offset % align, offset)
                }
            };
            let first = if placed.is_empty() { self.tables() } else { 0 };
            placed.push(Placed {
                vaddr,
                offset,
                filesz: load.filesz.max(first),
                bss: load.bss,
                flags: load.flags,
                align: load.align,
            });
        }
        placed
    }
}

struct Placed {
    vaddr: u64,
    offset: u64,
    filesz: u64,
    bss: u64,
    flags: u32,
    align: u32,
}

fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn put16(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put32(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put64(file: &mut Vec<u8>, values: &[u64]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put_section(file: &mut Vec<u8>, sh_type: u32, flags: u64, place: [u64; 3]) {
    put32(file, &[0, sh_type]);
    put64(file, &[flags]);
    put64(file, &place);
    put32(file, &[0, 0]);
    put64(file, &[1, 0]);
}

/// Symbols at the beginning, in the middle and at the end of each segment.
fn put_symbols(file: &mut Vec<u8>, headers: &[Placed]) {
    put64(file, &[0; 3]);
    for (section, header) in (1u16..).zip(headers) {
        for inside in [0, header.filesz / 2, header.filesz - 1] {
            put32(file, &[0]);
            file.extend([2, 0]);
            put16(file, &[section]);
            put64(file, &[header.vaddr + inside, 1]);
        }
    }
}
