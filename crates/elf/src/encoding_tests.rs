//! Layouts are those of `object`, which knows them from the same documents.

use object::elf::{FileHeader32, FileHeader64};
use object::pod::{Pod, bytes_of, from_bytes};
use object::read::elf::{
    Dyn as _, FileHeader as ObjectHeader, ProgramHeader as _, SectionHeader as _, Sym as _,
};
use object::{BigEndian, LittleEndian};

use super::*;
use crate::headers::ProgramHeader;
use crate::section::Section;

const fn encoding(class: Class, order: ByteOrder) -> Encoding {
    Encoding { class, order }
}

const NARROW_LITTLE: Encoding = encoding(Class::Bits32, ByteOrder::LittleEndian);
const NARROW_BIG: Encoding = encoding(Class::Bits32, ByteOrder::BigEndian);
const WIDE_LITTLE: Encoding = encoding(Class::Bits64, ByteOrder::LittleEndian);
const WIDE_BIG: Encoding = encoding(Class::Bits64, ByteOrder::BigEndian);

/// Bytes that all differ, so that no two fields can be mistaken for each other, read here and by `object`.
fn read<E: Entry, O: Pod>(encoding: Encoding) -> (E, O) {
    let bytes: Vec<u8> = (1..=size_of::<O>() as u8).collect();
    assert_eq!(encoding.size_of::<E>(), size_of::<O>() as u64);
    let entry: E = encoding.decode(&bytes).unwrap();
    assert_eq!(encoding.encode(&entry).unwrap(), bytes, "{encoding:?}");
    assert!(encoding.decode::<E>(&bytes[1..]).is_none());
    (entry, *from_bytes::<O>(&bytes).unwrap().0)
}

fn agrees<H: ObjectHeader>(encoding: Encoding, endian: H::Endian) {
    let (own, other) = read::<FileHeader, H>(encoding);
    assert_eq!(own.e_ident, bytes_of(&other)[..16]);
    assert_eq!(own.e_type, other.e_type(endian).0);
    assert_eq!(own.e_machine, other.e_machine(endian).0);
    assert_eq!(own.e_version, other.e_version(endian));
    assert_eq!(own.e_entry, other.e_entry(endian).into());
    assert_eq!(own.e_phoff, other.e_phoff(endian).into());
    assert_eq!(own.e_shoff, other.e_shoff(endian).into());
    assert_eq!(own.e_flags, other.e_flags(endian).0);
    assert_eq!(own.e_ehsize, other.e_ehsize(endian));
    assert_eq!(own.e_phentsize, other.e_phentsize(endian));
    assert_eq!(own.e_phnum, other.e_phnum(endian));
    assert_eq!(own.e_shentsize, other.e_shentsize(endian));
    assert_eq!(own.e_shnum, other.e_shnum(endian));
    assert_eq!(own.e_shstrndx, other.e_shstrndx(endian).0);

    let (own, other) = read::<ProgramHeader, H::ProgramHeader>(encoding);
    assert_eq!(own.p_type, other.p_type(endian).0);
    assert_eq!(own.flags, other.p_flags(endian).0);
    assert_eq!(own.offset, other.p_offset(endian).into());
    assert_eq!(own.vaddr, other.p_vaddr(endian).into());
    assert_eq!(own.paddr, other.p_paddr(endian).into());
    assert_eq!(own.filesz, other.p_filesz(endian).into());
    assert_eq!(own.memsz, other.p_memsz(endian).into());
    assert_eq!(own.align, other.p_align(endian).into());

    let (own, other) = read::<Section, H::SectionHeader>(encoding);
    assert_eq!(own.name, other.sh_name(endian));
    assert_eq!(own.sh_type, other.sh_type(endian).0);
    assert_eq!(own.flags, other.sh_flags(endian).0);
    assert_eq!(own.addr, other.sh_addr(endian).into());
    assert_eq!(own.offset, other.sh_offset(endian).into());
    assert_eq!(own.size, other.sh_size(endian).into());
    assert_eq!(own.link, other.sh_link(endian));
    assert_eq!(own.info, other.sh_info(endian));
    assert_eq!(own.align, other.sh_addralign(endian).into());
    assert_eq!(own.entry_size, other.sh_entsize(endian).into());

    let (own, other) = read::<Dynamic, H::Dyn>(encoding);
    assert_eq!(own.tag(encoding), other.d_tag(endian).0);
    assert_eq!(own.d_val, other.d_val(endian).into());

    let (own, other) = read::<Symbol, H::Sym>(encoding);
    assert_eq!(own.st_name, other.st_name(endian));
    assert_eq!(own.st_info, other.st_info().0);
    assert_eq!(own.st_other, other.st_other().0);
    assert_eq!(own.st_shndx, other.st_shndx(endian).0);
    assert_eq!(own.st_value, other.st_value(endian).into());
    assert_eq!(own.st_size, other.st_size(endian).into());
}

#[test]
fn every_field_of_every_entry_is_where_object_finds_it() {
    agrees::<FileHeader32<LittleEndian>>(NARROW_LITTLE, LittleEndian);
    agrees::<FileHeader32<BigEndian>>(NARROW_BIG, BigEndian);
    agrees::<FileHeader64<LittleEndian>>(WIDE_LITTLE, LittleEndian);
    agrees::<FileHeader64<BigEndian>>(WIDE_BIG, BigEndian);
}

#[test]
fn what_does_not_fit_32_bits_is_not_written() {
    let with = |offset| ProgramHeader {
        offset,
        ..ProgramHeader::default()
    };
    let most = u64::from(u32::MAX);
    assert!(NARROW_BIG.encode(&with(most)).is_ok());
    assert_eq!(NARROW_BIG.encode(&with(most + 1)), Err(Overflow));
    assert!(WIDE_BIG.encode(&with(u64::MAX)).is_ok());
}

/// Tags of an operating system or a processor are negative if they are as wide as the class.
#[test]
fn tags_are_signed() {
    let tag = |encoding: Encoding, byte| {
        let bytes = [byte; 16];
        let entry: Dynamic = encoding.decode(&bytes).unwrap();
        entry.tag(encoding)
    };
    assert_eq!(tag(NARROW_LITTLE, 0xff), -1);
    assert_eq!(tag(WIDE_BIG, 0xff), -1);
}
