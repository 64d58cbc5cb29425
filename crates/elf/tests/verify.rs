//! The differences that verification accepts and rejects: one small file against changed copies.

#![allow(clippy::expect_used, reason = "test code outside of test functions")]

use hugetext_elf::{Difference, Verified, verify};

/// Addresses and offsets in [`file`].
const PHDRS: usize = 64;
const TEXT: usize = 0x1000;
const COMMENT: usize = 0x3800;
const NAMES: usize = 0x3900;
const SECTIONS: usize = 0x3940;
const END: usize = SECTIONS + 5 * 64;

/// The program headers of [`file`], by index.
const READ_ONLY: usize = 0;
const CODE: usize = 1;
const DATA: usize = 2;
const NOTE: usize = 3;
const STACK: usize = 4;

/// Offsets of fields in a program header.
const TYPE: usize = 0;
const FLAGS: usize = 4;
const OFFSET: usize = 8;
const VADDR: usize = 16;
const PADDR: usize = 24;
const FILESZ: usize = 32;
const MEMSZ: usize = 40;
const ALIGN: usize = 48;

/// A shared object: read-only data with the headers and a note in it, text, data with bss, and
/// then the sections .comment, .shstrtab and the section headers.
fn file() -> Vec<u8> {
    let mut file: Vec<u8> = (0..END).map(|at| (at * 7 + at / 251) as u8 | 1).collect();
    let ident = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file[..16].copy_from_slice(&ident);
    file[NAMES + 12..NAMES + 21].copy_from_slice(b".comment\0");
    put(&mut file, 16, &[3, 62], 2);
    put(&mut file, 20, &[1], 4);
    put(
        &mut file,
        24,
        &[TEXT as u64, PHDRS as u64, SECTIONS as u64],
        8,
    );
    put(&mut file, 48, &[0], 4);
    put(&mut file, 52, &[64, 56, 5, 64, 5, 4], 2);
    let headers: [[u64; 7]; 5] = [
        [1, 4, 0, 0, 0x1000, 0x1000, 0x1000],
        [1, 5, 0x1000, 0x1000, 0x2000, 0x2000, 0x1000],
        [1, 6, 0x3000, 0x4000, 0x800, 0x1800, 0x1000],
        [4, 4, 0x200, 0x200, 0x20, 0x20, 4],
        [0x6474_e551, 6, 0, 0, 0, 0, 16],
    ];
    for (index, [kind, flags, offset, vaddr, filesz, memsz, align]) in headers.iter().enumerate() {
        let at = PHDRS + index * 56;
        put(&mut file, at, &[*kind, *flags], 4);
        let words = [*offset, *vaddr, *vaddr, *filesz, *memsz, *align];
        put(&mut file, at + 8, &words, 8);
    }
    let sections: [[u64; 6]; 5] = [
        [0, 0, 0, 0, 0, 0],
        [1, 1, 6, 0x1000, 0x1000, 0x2000],
        [7, 8, 3, 0x4800, 0x3800, 0x1000],
        [12, 1, 0, 0, COMMENT as u64, 0x100],
        [21, 3, 0, 0, NAMES as u64, 0x40],
    ];
    for (index, [name, kind, flags, addr, offset, size]) in sections.iter().enumerate() {
        let at = SECTIONS + index * 64;
        put(&mut file, at, &[*name, *kind], 4);
        put(&mut file, at + 8, &[*flags, *addr, *offset, *size], 8);
        put(&mut file, at + 40, &[0, 0], 4);
        put(&mut file, at + 48, &[1, 0], 8);
    }
    file
}

/// Writes numbers of `width` bytes each, one after the other.
fn put(file: &mut [u8], at: usize, values: &[u64], width: usize) {
    for (index, value) in values.iter().enumerate() {
        let at = at + index * width;
        file[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

fn header(file: &mut [u8], index: usize, field: usize, value: u64) {
    let width = if field < OFFSET { 4 } else { 8 };
    put(file, PHDRS + index * 56 + field, &[value], width);
}

/// The result of verifying the file after an edit.
fn verdict(edit: impl FnOnce(&mut Vec<u8>)) -> Result<Verified, Difference> {
    let (old, mut new) = (file(), file());
    edit(&mut new);
    verify(&old, &new)
}

/// A change that must be noticed, with its message.
type Change = (fn(&mut Vec<u8>), &'static str);

fn are_noticed(changes: &[Change]) {
    for (edit, says) in changes {
        let found = verdict(edit).expect_err(says).to_string();
        assert!(found.contains(says), "{found}, not {says}");
    }
}

#[test]
fn a_file_is_the_same_as_itself() {
    assert_eq!(verdict(|_| ()).unwrap(), Verified::default());
}

#[test]
fn changes_of_the_file_header() {
    are_noticed(&[
        (|file| file[7] = 3, "e_ident"),
        (|file| file[9] = 1, "e_ident"),
        (|file| put(file, 16, &[2], 2), "e_type"),
        (|file| put(file, 18, &[183], 2), "e_machine"),
        (|file| put(file, 24, &[0x1010], 8), "e_entry"),
        (|file| put(file, 48, &[1], 4), "e_flags"),
        (|file| put(file, 60, &[4], 2), "e_shnum"),
        (|file| put(file, 62, &[3], 2), "e_shstrndx"),
    ]);
}

#[test]
fn changes_of_what_is_loaded() {
    are_noticed(&[
        (
            |file| file[TEXT + 0x800] ^= 1,
            "a segment differs at offset 0x1800",
        ),
        (
            |file| file[0x3000] ^= 1,
            "a segment differs at offset 0x3000",
        ),
        (|file| header(file, CODE, VADDR, 0x1000_0000), "overlap"),
        (
            |file| header(file, DATA, VADDR, 0x5000),
            "does not begin where an old one did",
        ),
        (|file| header(file, CODE, OFFSET, 0), "differs"),
        (
            |file| header(file, CODE, FILESZ, 0x1000),
            "0x2000 is no longer mapped",
        ),
        (
            |file| header(file, DATA, MEMSZ, 0x1000),
            "0x5000 is no longer mapped",
        ),
        (
            |file| header(file, DATA, FILESZ, 0x900),
            "0x4800 should be zero",
        ),
        (
            |file| header(file, CODE, PADDR, 0),
            "another physical address",
        ),
        (
            |file| header(file, CODE, ALIGN, 0x800),
            "has a smaller alignment",
        ),
        (
            |file| header(file, DATA, ALIGN, 0x10000),
            "not congruent to its alignment",
        ),
        (
            |file| header(file, CODE, FLAGS, 0x10_0005),
            "has other flags",
        ),
        (
            |file| header(file, CODE, TYPE, 0),
            "0x1000 is no longer mapped",
        ),
    ]);
}

/// The loaded program would no longer find the table.
#[test]
fn a_header_table_that_is_seen_elsewhere() {
    are_noticed(&[(
        |file| {
            file.copy_within(PHDRS..PHDRS + 5 * 56, 0x400);
            put(file, 32, &[0x400], 8);
        },
        "the program header table is loaded at another address",
    )]);
}

#[test]
fn rights_may_only_be_added_to_read_only_data_and_are_listed() {
    are_noticed(&[
        (
            |file| header(file, CODE, FLAGS, 7),
            "changes from r-x to rwx",
        ),
        (
            |file| header(file, CODE, FLAGS, 4),
            "changes from r-x to r--",
        ),
        (
            |file| header(file, DATA, FLAGS, 7),
            "changes from rw- to rwx",
        ),
        (
            |file| header(file, READ_ONLY, FLAGS, 6),
            "changes from r-- to rw-",
        ),
    ]);
    let executable = verdict(|file| header(file, READ_ONLY, FLAGS, 5)).unwrap();
    let [change] = executable.permissions.as_slice() else {
        panic!("{executable:?}");
    };
    assert_eq!((change.addresses.start, change.addresses.end), (0, 0x1000));
}

#[test]
fn added_addresses_hold_zeros_and_are_listed() {
    let longer = verdict(|file| header(file, DATA, MEMSZ, 0x2800)).unwrap();
    let [added] = longer.added.as_slice() else {
        panic!("{longer:?}");
    };
    assert_eq!((added.start, added.end), (0x5800, 0x6800));
}

#[test]
fn changes_of_other_program_headers() {
    are_noticed(&[
        (
            |file| header(file, STACK, FLAGS, 7),
            "a field other than its offset",
        ),
        (
            |file| header(file, NOTE, MEMSZ, 0x10),
            "a field other than its offset",
        ),
        (
            |file| header(file, NOTE, TYPE, 7),
            "a field other than its offset",
        ),
        (
            |file| header(file, NOTE, OFFSET, 0x300),
            "the content of a program header",
        ),
        (|file| file[0x210] ^= 1, "the content of a program header"),
    ]);
}

#[test]
fn changes_of_sections() {
    const TEXT_HEADER: usize = SECTIONS + 64;
    const BSS_HEADER: usize = SECTIONS + 2 * 64;
    const COMMENT_HEADER: usize = SECTIONS + 3 * 64;
    are_noticed(&[
        (
            |file| file[COMMENT + 5] ^= 1,
            "a section differs at offset 0x3805",
        ),
        (
            |file| file[NAMES + 5] ^= 1,
            "a section differs at offset 0x3905",
        ),
        (|file| put(file, TEXT_HEADER, &[2], 4), "section 1 differs"),
        (
            |file| put(file, TEXT_HEADER + 8, &[2], 8),
            "section 1 differs",
        ),
        (
            |file| put(file, TEXT_HEADER + 16, &[0x1010], 8),
            "section 1 differs",
        ),
        (
            |file| put(file, COMMENT_HEADER + 32, &[0x80], 8),
            "section 3 differs",
        ),
        (
            |file| put(file, COMMENT_HEADER + 24, &[0x3801], 8),
            "a section differs",
        ),
        (
            |file| put(file, COMMENT_HEADER + 40, &[1], 4),
            "section 3 differs",
        ),
        (
            |file| put(file, COMMENT_HEADER + 56, &[8], 8),
            "section 3 differs",
        ),
        // Sections that have no bytes: that at index 0, and .bss.
        (
            |file| put(file, SECTIONS + 24, &[0x10], 8),
            "section 0 differs in its offset",
        ),
        (
            |file| put(file, BSS_HEADER + 24, &[0x3810], 8),
            "section 2 differs in its offset",
        ),
    ]);
}

/// The program may look for the section at the offset that its header had when the program was
/// made.
#[test]
fn a_section_of_unknown_purpose_that_moves() {
    const COMMENT_HEADER: usize = SECTIONS + 3 * 64;
    let unknown = || {
        let mut file = file();
        file[NAMES + 12..NAMES + 21].copy_from_slice(b".payload\0");
        file[COMMENT..COMMENT + 0x100].fill(7);
        file
    };
    let mut moved = unknown();
    put(&mut moved, COMMENT_HEADER + 24, &[COMMENT as u64 + 1], 8);
    put(&mut moved, COMMENT_HEADER + 32, &[0xff], 8);
    let mut shorter = unknown();
    put(&mut shorter, COMMENT_HEADER + 32, &[0xff], 8);
    let found = verify(&shorter, &moved).unwrap_err().to_string();
    assert!(found.contains("section 3 differs in its offset"), "{found}");
    assert_eq!(verify(&unknown(), &unknown()).unwrap(), Verified::default());
}

/// The program may look for the bytes by a known offset.
#[test]
fn bytes_that_no_header_names() {
    const COMMENT_HEADER: usize = SECTIONS + 3 * 64;
    let unnamed = |at: usize, byte: u8| {
        let mut file = file();
        put(&mut file, COMMENT_HEADER + 32, &[0x40], 8);
        file[COMMENT + 0x40..COMMENT + 0x100].fill(0);
        file[at] = byte;
        file
    };
    let (here, there) = (COMMENT + 0x50, COMMENT + 0x60);
    let same = verify(&unnamed(here, 1), &unnamed(here, 1)).unwrap();
    assert_eq!(same, Verified::default());
    for new in [unnamed(there, 1), unnamed(here, 2), unnamed(here, 0)] {
        for (old, new) in [(unnamed(here, 1), new.clone()), (new, unnamed(here, 1))] {
            let found = verify(&old, &new).unwrap_err();
            assert!(matches!(found, Difference::Unnamed { .. }), "{found}");
        }
    }
}

/// Programs find such data by its offset.
#[test]
fn data_after_the_image_stays_where_it_is() {
    let with = |last: u8| {
        let mut file = file();
        file.extend_from_slice(&[1; 99]);
        file.push(last);
        file
    };
    assert_eq!(verify(&with(1), &with(1)).unwrap(), Verified::default());
    let found = verify(&with(1), &with(2)).unwrap_err().to_string();
    assert!(
        found.contains("data after the ELF image differs"),
        "{found}"
    );
    for (old, new) in [(file(), with(1)), (with(1), file())] {
        assert!(matches!(verify(&old, &new), Err(Difference::Appended)));
    }
}

/// Whatever can be executed at a random address is placed by PT_PHDR, also a library.
#[test]
fn the_header_that_a_loader_places_by_stays() {
    const PT_NULL: u64 = 0;
    const PT_PHDR: u64 = 6;
    let mut old = file();
    header(&mut old, NOTE, TYPE, PT_PHDR);
    let mut new = old.clone();
    header(&mut new, NOTE, TYPE, PT_NULL);
    let found = verify(&old, &new).expect_err("it has an entry");
    assert!(found.to_string().contains("presence"), "{found}");
}

/// Nobody here knows what such a flag asks for, so it must neither spread to other addresses nor be lost.
#[test]
fn flags_of_unknown_meaning_stay_where_they_are() {
    const PT_NULL: u64 = 0;
    const UNKNOWN: u64 = 1 << 20;
    for (first, second, merged) in [(UNKNOWN, 0, UNKNOWN), (0, UNKNOWN, 0)] {
        let mut old = file();
        header(&mut old, READ_ONLY, FLAGS, 5 | first);
        header(&mut old, CODE, FLAGS, 5 | second);
        let mut new = old.clone();
        header(&mut new, READ_ONLY, FLAGS, 5 | merged);
        header(&mut new, READ_ONLY, FILESZ, 0x3000);
        header(&mut new, READ_ONLY, MEMSZ, 0x3000);
        header(&mut new, CODE, TYPE, PT_NULL);
        let found = verify(&old, &new).expect_err("a flag is spread or lost");
        assert!(found.to_string().contains("has other flags"), "{found}");
    }
}
