//! The GNU build id of a program.

use hugetext_elf::{ByteOrder, Image, ReadAt};

const PT_NOTE: u32 = 4;
/// NT_GNU_BUILD_ID (elf.h).
const NT_GNU_BUILD_ID: u32 = 3;
/// Longer notes are not read; build ids lie in the first of a few dozen bytes.
const LONGEST: u64 = 64 << 10;

/// The build id in hexadecimal; `None` if there is none.
pub(crate) fn build_id(image: &Image, source: &(impl ReadAt + ?Sized)) -> Option<String> {
    let notes = image
        .headers
        .iter()
        .filter(|header| header.p_type == PT_NOTE);
    notes
        .filter(|header| header.filesz <= LONGEST)
        .find_map(|header| {
            let mut bytes = vec![0; usize::try_from(header.filesz).ok()?];
            source.read_exact_at(header.offset, &mut bytes).ok()?;
            in_notes(&bytes, header.align, image.encoding.order)
        })
}

/// The build id in the bytes of PT_NOTE, whose entries are aligned to 4 or 8 bytes.
fn in_notes(mut bytes: &[u8], align: u64, order: ByteOrder) -> Option<String> {
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let (name_len, rest) = number(bytes, order)?;
        let (len, rest) = number(rest, order)?;
        let (kind, rest) = number(rest, order)?;
        let name = rest.get(..name_len)?;
        // Padding counts from the note's begin, and its head has 12 bytes.
        let start = 12usize
            .checked_add(name_len)?
            .checked_next_multiple_of(align)?;
        let end = start.checked_add(len)?;
        let content = bytes.get(start..end)?;
        if name == b"GNU\0" && kind == NT_GNU_BUILD_ID as usize && (1..=64).contains(&len) {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        bytes = bytes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

fn number(bytes: &[u8], order: ByteOrder) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(order.word(*first)).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_id_is_found_behind_other_notes() {
        let mut bytes = Vec::new();
        for (name, kind, content) in [
            (&b"Go\0\0"[..], 4u32, &b"xy"[..]),
            (b"GNU\0", 3, &[0xab, 0xcd]),
        ] {
            for number in [name.len() as u32, content.len() as u32, kind] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(name);
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        assert_eq!(
            in_notes(&bytes, 4, ByteOrder::LittleEndian).as_deref(),
            Some("abcd")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = in_notes(&bytes, 4, ByteOrder::LittleEndian);
            let _ = in_notes(&bytes, 8, ByteOrder::BigEndian);
        }
    }
}
