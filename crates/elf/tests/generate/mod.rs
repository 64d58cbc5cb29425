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
    /// How its numbers are written.
    pub(crate) encoding: Encoding,
}

/// How a file writes numbers. The crate's own is not used, so that both must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// ELFCLASS64.
    pub(crate) wide: bool,
    /// ELFDATA2MSB.
    pub(crate) big: bool,
}

impl Encoding {
    fn file_header(self) -> u64 {
        if self.wide { 64 } else { 52 }
    }

    /// Bytes of a program header.
    pub(crate) fn program_header(self) -> u64 {
        if self.wide { 56 } else { 32 }
    }

    fn section_header(self) -> u64 {
        if self.wide { 64 } else { 40 }
    }
}

/// Bytes that numbers are written to.
struct Out {
    bytes: Vec<u8>,
    encoding: Encoding,
}

impl Out {
    fn new(encoding: Encoding) -> Out {
        Out {
            bytes: Vec::new(),
            encoding,
        }
    }

    fn put(&mut self, value: u64, width: usize) {
        let at = self.bytes.len();
        self.bytes.extend(&value.to_le_bytes()[..width]);
        if self.encoding.big {
            self.bytes[at..].reverse();
        }
    }

    fn halves(&mut self, values: &[u16]) {
        values
            .iter()
            .for_each(|value| self.put(u64::from(*value), 2));
    }

    fn words(&mut self, values: &[u32]) {
        values
            .iter()
            .for_each(|value| self.put(u64::from(*value), 4));
    }

    /// Addresses, offsets and sizes.
    fn longs(&mut self, values: &[u64]) {
        let width = if self.encoding.wide { 8 } else { 4 };
        values.iter().for_each(|value| self.put(*value, width));
    }

    fn program_header(&mut self, header: &Placed) {
        let memsz = header.filesz + header.bss;
        let (at, align) = (header.vaddr, 1 << header.align);
        self.words(&[1]);
        if self.encoding.wide {
            self.words(&[header.flags]);
        }
        self.longs(&[header.offset, at, at, header.filesz, memsz]);
        if !self.encoding.wide {
            self.words(&[header.flags]);
        }
        self.longs(&[align]);
    }

    fn section(&mut self, sh_type: u32, flags: u64, place: [u64; 3]) {
        self.words(&[0, sh_type]);
        self.longs(&[flags]);
        self.longs(&place);
        self.words(&[0, 0]);
        self.longs(&[1, 0]);
    }

    fn symbol(&mut self, section: u16, value: u64, size: u64) {
        self.words(&[0]);
        if !self.encoding.wide {
            self.longs(&[value, size]);
        }
        let kind = if section == 0 { 0 } else { 2 };
        self.bytes.extend([kind, 0]);
        self.halves(&[section]);
        if self.encoding.wide {
            self.longs(&[value, size]);
        }
    }
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
    let encoding = (any::<bool>(), any::<bool>()).prop_map(|(wide, big)| Encoding { wide, big });
    let parts = (base, loads, rest, encoding);
    parts.prop_map(
        |(base, loads, (comment, sections, spare), encoding)| Program {
            base,
            loads,
            // Without a header that names it, it would count as data after the image.
            comment: if sections { comment } else { 0 },
            sections,
            spare,
            payload: false,
            encoding,
        },
    )
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
            file.extend(symbols(self.encoding, &headers));
        }
        let symbols = [
            0,
            symbols_at as u64,
            (file.len() - symbols_at.min(file.len())) as u64,
        ];
        let section_table = file.len().next_multiple_of(8) as u64;
        let start = self.start(&headers, section_table);
        file[..start.len()].copy_from_slice(&start);
        if self.sections {
            file.resize(section_table as usize, 0);
            let mut table = Out::new(self.encoding);
            table.section(0, 0, [0; 3]);
            for header in &headers {
                // Of names there are none, so that read-only data, which a cut may divide, has the flag of
                // code too.
                let flags = if header.flags & 2 == 0 { 2 | 4 } else { 2 };
                table.section(1, flags, [header.vaddr, header.offset, header.filesz]);
            }
            // SHT_NOTE, which no reader finds by an offset of its own.
            table.section(7, 0, [0, end, self.comment]);
            table.section(2, 0, symbols);
            file.extend(table.bytes);
        }
        file
    }

    /// The ELF header and the program headers.
    fn start(&self, headers: &[Placed], section_table: u64) -> Vec<u8> {
        let Encoding { wide, big } = self.encoding;
        let (shoff, shnum) = if self.sections {
            (section_table, headers.len() as u16 + 3)
        } else {
            (0, 0)
        };
        let mut start = Out::new(self.encoding);
        start.bytes.extend([0x7f, b'E', b'L', b'F']);
        start
            .bytes
            .extend([1 + u8::from(wide), 1 + u8::from(big), 1]);
        start.bytes.resize(16, 0);
        start.halves(&[if self.base.is_some() { 2 } else { 3 }, 62]);
        start.words(&[1]);
        let entry = headers.first().map_or(0, |h| h.vaddr);
        start.longs(&[entry, self.encoding.file_header(), shoff]);
        start.words(&[0]);
        let count = headers.len() as u16 + self.spare;
        let sizes = [
            self.encoding.file_header(),
            self.encoding.program_header(),
            self.encoding.section_header(),
        ];
        let [file, program, section] = sizes.map(|size| size as u16);
        start.halves(&[file, program, count, section, shnum, 0]);
        headers
            .iter()
            .for_each(|header| start.program_header(header));
        start.bytes.resize(self.tables() as usize, 0);
        start.bytes
    }

    /// Bytes of the ELF header and the program headers.
    fn tables(&self) -> u64 {
        let count = self.loads.len() as u64 + u64::from(self.spare);
        self.encoding.file_header() + self.encoding.program_header() * count
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

/// Symbols at the beginning, in the middle and at the end of each segment.
fn symbols(encoding: Encoding, headers: &[Placed]) -> Vec<u8> {
    let mut out = Out::new(encoding);
    out.symbol(0, 0, 0);
    for (section, header) in (1u16..).zip(headers) {
        for inside in [0, header.filesz / 2, header.filesz - 1] {
            out.symbol(section, header.vaddr + inside, 1);
        }
    }
    out.bytes
}
