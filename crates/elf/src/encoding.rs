//! How a file writes numbers, and the one place that knows it: everything else works on values of 64 bits.
//!
//! An [`Entry`] names its fields once, in their order in the file. A reader and a writer visit them.

use hugetext_leaf::Class;
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ImageError;

/// The order of the bytes of a number (EI_DATA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByteOrder {
    /// ELFDATA2LSB.
    LittleEndian,
    /// ELFDATA2MSB.
    BigEndian,
}

impl ByteOrder {
    /// That of this command, and so of the kernel that it runs on.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") {
        ByteOrder::BigEndian
    } else {
        ByteOrder::LittleEndian
    };

    /// A number of 32 bits.
    pub const fn word(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::LittleEndian => u32::from_le_bytes(bytes),
            ByteOrder::BigEndian => u32::from_be_bytes(bytes),
        }
    }
}

/// How a file writes numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
pub struct Encoding {
    /// The width of addresses and offsets.
    pub class: Class,
    /// The order of the bytes.
    pub order: ByteOrder,
}

impl Encoding {
    /// From EI_CLASS and EI_DATA.
    pub(crate) fn from_ident(class: u8, data: u8) -> Result<Encoding, ImageError> {
        let class = match elf::FileClass(class) {
            elf::ELFCLASS32 => Class::Bits32,
            elf::ELFCLASS64 => Class::Bits64,
            _ => return Err(ImageError::Class),
        };
        let order = match elf::DataEncoding(data) {
            elf::ELFDATA2LSB => ByteOrder::LittleEndian,
            elf::ELFDATA2MSB => ByteOrder::BigEndian,
            _ => return Err(ImageError::Endian),
        };
        Ok(Encoding { class, order })
    }

    /// The most that an address, an offset or a size of a file can be, bytes.
    pub const fn largest(self) -> u64 {
        match self.class {
            Class::Bits32 => u32::MAX as u64,
            Class::Bits64 => u64::MAX,
        }
    }

    /// Bytes of one entry.
    pub(crate) const fn size_of<E: Entry>(self) -> u64 {
        let [narrow, wide] = E::SIZES;
        match self.class {
            Class::Bits32 => narrow,
            Class::Bits64 => wide,
        }
    }

    /// The first entry in these bytes; `None` if they end before it does.
    pub(crate) fn decode<E: Entry>(self, bytes: &[u8]) -> Option<E> {
        let size = usize::try_from(self.size_of::<E>()).ok()?;
        let left = bytes.get(..size)?;
        let mut entry = E::default();
        match (self.class, self.order) {
            (Class::Bits32, ByteOrder::LittleEndian) => {
                entry.visit(&mut Reader::<false, false> { left });
            }
            (Class::Bits32, ByteOrder::BigEndian) => {
                entry.visit(&mut Reader::<false, true> { left });
            }
            (Class::Bits64, ByteOrder::LittleEndian) => {
                entry.visit(&mut Reader::<true, false> { left });
            }
            (Class::Bits64, ByteOrder::BigEndian) => {
                entry.visit(&mut Reader::<true, true> { left });
            }
        }
        Some(entry)
    }

    /// All whole entries in these bytes.
    pub(crate) fn decode_all<E: Entry>(self, bytes: &[u8]) -> Vec<E> {
        let entries = bytes.chunks_exact(self.size_of::<E>() as usize);
        let mut decoded = Vec::with_capacity(entries.len());
        decoded.extend(entries.filter_map(|entry| self.decode::<E>(entry)));
        decoded
    }

    /// The bytes of an entry.
    pub(crate) fn encode<E: Entry>(self, entry: &E) -> Result<Vec<u8>, Overflow> {
        let mut writer = Writer {
            encoding: self,
            bytes: Vec::with_capacity(self.size_of::<E>() as usize),
            overflow: false,
        };
        let mut entry = *entry;
        entry.visit(&mut writer);
        if writer.overflow {
            return Err(Overflow);
        }
        Ok(writer.bytes)
    }
}

/// A value that the file's class cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address or offset would not fit 32 bits")]
pub struct Overflow;

/// A header, or an entry of a table.
pub(crate) trait Entry: Copy + Default {
    /// Bytes in files of 32 and of 64 bits.
    const SIZES: [u64; 2];

    /// Visits the fields, in the order of the file.
    fn visit(&mut self, fields: &mut impl Fields);
}

/// What is done with each field.
pub(crate) trait Fields {
    /// The class of the file.
    fn class(&self) -> Class;

    /// A number of this many bytes.
    fn number(&mut self, value: &mut u64, width: usize);

    /// A byte.
    #[inline]
    fn byte(&mut self, value: &mut u8) {
        let mut number = u64::from(*value);
        self.number(&mut number, 1);
        *value = number as u8;
    }

    /// Elf32_Half, Elf64_Half: 16 bits.
    #[inline]
    fn half(&mut self, value: &mut u16) {
        let mut number = u64::from(*value);
        self.number(&mut number, 2);
        *value = number as u16;
    }

    /// Elf32_Word, Elf64_Word: 32 bits.
    #[inline]
    fn word(&mut self, value: &mut u32) {
        let mut number = u64::from(*value);
        self.number(&mut number, 4);
        *value = number as u32;
    }

    /// A number as wide as the class.
    #[inline]
    fn wide(&mut self, value: &mut u64) {
        match self.class() {
            Class::Bits32 => self.number(value, 4),
            Class::Bits64 => self.number(value, 8),
        }
    }
}

/// Reads the fields of one encoding. Scans decode millions of them, so each encoding has code of its own.
struct Reader<'a, const WIDE: bool, const BIG: bool> {
    left: &'a [u8],
}

impl<const WIDE: bool, const BIG: bool> Fields for Reader<'_, WIDE, BIG> {
    #[inline]
    fn class(&self) -> Class {
        if WIDE { Class::Bits64 } else { Class::Bits32 }
    }

    #[inline]
    fn number(&mut self, value: &mut u64, width: usize) {
        *value = match width {
            1 => u64::from(u8::from_le_bytes(self.take())),
            2 if BIG => u64::from(u16::from_be_bytes(self.take())),
            2 => u64::from(u16::from_le_bytes(self.take())),
            4 if BIG => u64::from(u32::from_be_bytes(self.take())),
            4 => u64::from(u32::from_le_bytes(self.take())),
            _ if BIG => u64::from_be_bytes(self.take()),
            _ => u64::from_le_bytes(self.take()),
        };
    }
}

impl<const WIDE: bool, const BIG: bool> Reader<'_, WIDE, BIG> {
    /// The next bytes. Those that are missing read as zeros; [`Encoding::decode`] ensures that there are
    /// enough.
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((bytes, left)) = self.left.split_first_chunk::<N>() else {
            return [0; N];
        };
        self.left = left;
        *bytes
    }
}

struct Writer {
    encoding: Encoding,
    bytes: Vec<u8>,
    overflow: bool,
}

impl Fields for Writer {
    fn class(&self) -> Class {
        self.encoding.class
    }

    fn number(&mut self, value: &mut u64, width: usize) {
        let bytes = value.to_le_bytes();
        let (low, high) = bytes.split_at_checked(width).unwrap_or((&bytes, &[]));
        self.overflow |= high.iter().any(|byte| *byte != 0);
        match self.encoding.order {
            ByteOrder::LittleEndian => self.bytes.extend(low),
            ByteOrder::BigEndian => self.bytes.extend(low.iter().rev()),
        }
    }
}

/// The ELF header (gABI, ELF header).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileHeader {
    pub(crate) e_ident: [u8; 16],
    pub(crate) e_type: u16,
    pub(crate) e_machine: u16,
    pub(crate) e_version: u32,
    pub(crate) e_entry: u64,
    pub(crate) e_phoff: u64,
    pub(crate) e_shoff: u64,
    pub(crate) e_flags: u32,
    pub(crate) e_ehsize: u16,
    pub(crate) e_phentsize: u16,
    pub(crate) e_phnum: u16,
    pub(crate) e_shentsize: u16,
    pub(crate) e_shnum: u16,
    pub(crate) e_shstrndx: u16,
}

impl Entry for FileHeader {
    const SIZES: [u64; 2] = [52, 64];

    fn visit(&mut self, fields: &mut impl Fields) {
        for byte in &mut self.e_ident {
            fields.byte(byte);
        }
        fields.half(&mut self.e_type);
        fields.half(&mut self.e_machine);
        fields.word(&mut self.e_version);
        fields.wide(&mut self.e_entry);
        fields.wide(&mut self.e_phoff);
        fields.wide(&mut self.e_shoff);
        fields.word(&mut self.e_flags);
        fields.half(&mut self.e_ehsize);
        fields.half(&mut self.e_phentsize);
        fields.half(&mut self.e_phnum);
        fields.half(&mut self.e_shentsize);
        fields.half(&mut self.e_shnum);
        fields.half(&mut self.e_shstrndx);
    }
}

/// An entry of PT_DYNAMIC (gABI, dynamic section).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Dynamic {
    pub(crate) d_tag: u64,
    pub(crate) d_val: u64,
}

impl Dynamic {
    /// d_tag, which is signed in both classes.
    pub(crate) fn tag(&self, encoding: Encoding) -> i64 {
        match encoding.class {
            Class::Bits32 => i64::from(self.d_tag as i32),
            Class::Bits64 => self.d_tag as i64,
        }
    }
}

impl Entry for Dynamic {
    const SIZES: [u64; 2] = [8, 16];

    fn visit(&mut self, fields: &mut impl Fields) {
        fields.wide(&mut self.d_tag);
        fields.wide(&mut self.d_val);
    }
}

/// A symbol (gABI, symbol table).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Symbol {
    pub(crate) st_name: u32,
    pub(crate) st_info: u8,
    pub(crate) st_other: u8,
    pub(crate) st_shndx: u16,
    pub(crate) st_value: u64,
    pub(crate) st_size: u64,
}

impl Entry for Symbol {
    const SIZES: [u64; 2] = [16, 24];

    fn visit(&mut self, fields: &mut impl Fields) {
        let class = fields.class();
        fields.word(&mut self.st_name);
        if class == Class::Bits32 {
            fields.wide(&mut self.st_value);
            fields.wide(&mut self.st_size);
        }
        fields.byte(&mut self.st_info);
        fields.byte(&mut self.st_other);
        fields.half(&mut self.st_shndx);
        if class == Class::Bits64 {
            fields.wide(&mut self.st_value);
            fields.wide(&mut self.st_size);
        }
    }
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
