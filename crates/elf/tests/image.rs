//! Reads this test's own executable, then damages a copy in every way that a reader must survive.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;

use std::path::Path;

use hugetext_elf::{Dependencies, Image, ImageError, ReadAt};
use hugetext_leaf::ObjectKind;
use proptest::prelude::*;

fn own_executable() -> Vec<u8> {
    fs::read("/proc/self/exe").unwrap()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// File offset of the n-th PT_LOAD's program header.
fn load_header(bytes: &[u8], n: usize) -> usize {
    let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize;
    (0..count)
        .map(|i| table + i * 56)
        .filter(|at| bytes[*at..*at + 4] == [1, 0, 0, 0])
        .nth(n)
        .unwrap()
}

fn error_after(damage: impl Fn(&mut Vec<u8>)) -> ImageError {
    let mut bytes = own_executable();
    damage(&mut bytes);
    Image::read(&bytes).unwrap_err()
}

#[test]
fn reads_its_own_executable() {
    let bytes = own_executable();
    let image = Image::read(&bytes).unwrap();
    assert_eq!(image.kind, ObjectKind::Pie);
    assert!(image.text_len() > 0);
    let dependencies = Dependencies::read(&bytes, &image).unwrap();
    assert!(
        dependencies
            .needed
            .iter()
            .any(|name| name.starts_with(b"libc.so"))
    );
    assert!(Path::new(std::str::from_utf8(&dependencies.interpreter.unwrap()).unwrap()).exists());
}

#[test]
fn damaged_headers_are_errors() {
    assert!(matches!(
        Image::read(&b"#!/bin/sh\n".to_vec()),
        Err(ImageError::NotElf)
    ));
    assert!(matches!(Image::read(&Vec::new()), Err(ImageError::NotElf)));
    assert!(matches!(error_after(|b| b[4] = 3), ImageError::Class));
    assert!(matches!(error_after(|b| b[5] = 3), ImageError::Endian));
    // Headers of another encoding than the file says.
    let error = error_after(|b| b[4] = 1).to_string();
    assert!(
        error.contains("malformed") || error.contains("not supported"),
        "{error}"
    );
    assert!(matches!(error_after(|b| b[16] = 1), ImageError::Type(1)));
    assert!(matches!(
        error_after(|b| b.truncate(80)),
        ImageError::Truncated(_)
    ));
    assert!(matches!(
        error_after(|b| b.truncate(40)),
        ImageError::Truncated(_)
    ));
    assert!(matches!(
        error_after(|b| put(b, 32, &u64::MAX.to_le_bytes())),
        ImageError::Truncated(_)
    ));
    assert!(matches!(
        error_after(|b| put(b, 54, &[1, 0])),
        ImageError::Malformed(_)
    ));
    assert!(matches!(
        error_after(|b| put(b, 56, &[0, 0])),
        ImageError::Malformed(_)
    ));
}

#[test]
fn damaged_segments_are_errors() {
    let load = |field: usize, value: u64| {
        error_after(move |b| {
            let at = load_header(b, 1) + field;
            put(b, at, &value.to_le_bytes());
        })
    };
    assert!(matches!(load(8, 1 << 50), ImageError::Truncated(_)));
    assert!(matches!(load(8, u64::MAX), ImageError::Segment(_)));
    assert!(matches!(load(16, 0), ImageError::Overlap(..)));
    assert!(matches!(load(32, u64::MAX), ImageError::Segment(_)));
    assert!(matches!(load(40, u64::MAX), ImageError::Segment(_)));
    assert!(matches!(load(48, 3), ImageError::Segment(_)));
    assert!(matches!(load(48, 6), ImageError::Segment(_)));
}

/// What loaders take is not called malformed, only because it is not read here.
#[test]
fn what_is_valid_but_not_read_is_not_malformed() {
    let after = |field: usize, value: u64| {
        let error = error_after(move |b| {
            let at = load_header(b, 1) + field;
            put(b, at, &value.to_le_bytes());
        });
        error.to_string()
    };
    // Addresses beyond 2^56, and PT_LOADs in another order.
    for said in [after(16, 1 << 60), after(16, 0)] {
        assert!(said.starts_with("not supported: "), "{said}");
    }
    assert!(after(48, 3).starts_with("malformed: "));
}

/// A file that another process truncates after its length was read and before its bytes are.
struct Shrinking(Vec<u8>);

impl ReadAt for Shrinking {
    fn len(&self) -> io::Result<u64> {
        Ok(1 << 30)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buffer)
    }
}

#[test]
fn a_file_that_shrinks_while_read_is_truncated() {
    for len in [64, 300] {
        let error = Image::read(&Shrinking(own_executable()[..len].to_vec())).unwrap_err();
        assert!(matches!(error, ImageError::Truncated(_)), "{error}");
    }
}

#[test]
fn extended_numbering_is_resolved_through_section_0() {
    let mut bytes = own_executable();
    let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap());
    let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    put(&mut bytes, sections + 44, &u32::from(count).to_le_bytes());
    let plain = Image::read(&bytes).unwrap();
    put(&mut bytes, 56, &[0xff, 0xff]);
    assert_eq!(Image::read(&bytes).unwrap(), plain);
    put(&mut bytes, 40, &[0; 8]);
    assert!(matches!(Image::read(&bytes), Err(ImageError::Malformed(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// No header content makes the reader panic, and the accepted headers keep the reader's
    /// promises.
    #[test]
    fn arbitrary_headers_do_not_panic(
        edits in prop::collection::vec((0usize..1024, any::<u8>()), 1..12), len in 0usize..4096,
    ) {
        let mut bytes = own_executable();
        for (at, value) in edits {
            bytes[at] = value;
        }
        if len < 2048 {
            bytes.truncate(len);
        }
        if let Ok(image) = Image::read(&bytes) {
            for pair in image.segments.windows(2) {
                prop_assert!(pair[0].memory().end <= pair[1].vaddr);
            }
            for segment in image.segments.iter().filter(|segment| segment.filesz > 0) {
                prop_assert!(segment.file().end <= image.file_len);
            }
            let _ = Dependencies::read(&bytes, &image);
        }
    }
}
