//! Compares bytes that no header names by their offset, since a reader can know nothing else.

use hugetext_leaf::{Leaf, Span};
use object::elf;

use super::bytes::Comparer;
use super::difference::Difference;
use crate::error::ImageError;
use crate::headers::ProgramHeader;
use crate::image::Image;
use crate::source::{ReadAt, not_zero, read_range};

/// Types of program headers that say what their bytes are for.
const TOLD: [elf::ProgramType; 10] = [
    elf::PT_LOAD,
    elf::PT_DYNAMIC,
    elf::PT_INTERP,
    elf::PT_NOTE,
    elf::PT_PHDR,
    elf::PT_TLS,
    elf::PT_GNU_EH_FRAME,
    elf::PT_GNU_RELRO,
    elf::PT_GNU_PROPERTY,
    elf::PT_GNU_SFRAME,
];

/// The words that stop a processor, with which linkers fill the rest of a page of text, as a file has them.
const STOPS: [u32; 7] = [
    0xcccc_cccc,
    0xd4d4_d4d4,
    0x0707_0707,
    0x7fe0_0008,
    0x0800_e07f,
    0x0417_0001,
    0x0100_1704,
];

/// The largest base page.
const LARGEST_PAGE: Leaf = Leaf::K64;

/// Bytes read at a time.
const CHUNK: u64 = 1 << 18;

/// Bytes that no header names in one file are at the same offset in the other.
pub(super) fn compare<O, N>(comparer: &mut Comparer<'_, O, N>) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    let old = told(comparer.old_image);
    for gap in gaps(&old, comparer.old_image) {
        let found = meant(comparer.old, comparer.old_image, gap).map_err(Difference::Old)?;
        stays(comparer, "old", found)?;
    }
    let new = told(comparer.new_image);
    for gap in gaps(&new, comparer.new_image) {
        let found = meant(comparer.new, comparer.new_image, gap).map_err(Difference::New)?;
        stays(comparer, "new", found)?;
    }
    Ok(())
}

fn stays<O, N>(
    comparer: &mut Comparer<'_, O, N>,
    file: &'static str,
    found: Option<Span>,
) -> Result<(), Difference>
where
    O: ReadAt + ?Sized,
    N: ReadAt + ?Sized,
{
    match found {
        Some(range) if !comparer.alike(range)? => Err(Difference::Unnamed { file, range }),
        _ => Ok(()),
    }
}

/// The ranges of a file that its tables take and name, in ascending order and apart.
fn told(image: &Image) -> Vec<Span> {
    let range = |at: u64, len: u64| Span::new(at, at.saturating_add(len));
    let says = |header: &&ProgramHeader| TOLD.iter().any(|told| told.0 == header.p_type);
    let headers = image.headers.iter().filter(says);
    let mut spans: Vec<Span> = headers.map(|h| range(h.offset, h.filesz)).collect();
    spans.push(image.file_header());
    spans.extend([image.program_table, image.section_table].map(|t| range(t.offset, t.len())));
    for (_, section) in image.sections.iter() {
        spans.push(range(section.offset, section.file_size()));
    }
    Span::joined(spans.into_iter().filter(|span| !span.is_empty()))
}

/// What lies between, up to the data behind the image, which is compared as a whole.
fn gaps(told: &[Span], image: &Image) -> Vec<Span> {
    let end = image.file_len.saturating_sub(image.appended);
    let starts = told.iter().map(|span| span.end);
    let ends = told.iter().skip(1).map(|span| span.start).chain([end]);
    let between = starts
        .zip(ends)
        .map(|(start, next)| Span::new(start, next.min(end)));
    between.filter(|gap| !gap.is_empty()).collect()
}

/// The bytes of a gap from the first to the last that are not zero; none if the whole gap is what a linker leaves
/// behind text.
fn meant(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    gap: Span,
) -> Result<Option<Span>, ImageError> {
    let mut found: Option<Span> = None;
    let mut at = gap.start;
    while at < gap.end {
        let len = CHUNK.min(gap.end - at);
        let bytes = read_range(
            source,
            at,
            len,
            image.file_len,
            "bytes that no header names",
        )?;
        if let Some(here) = not_zero(&bytes) {
            let start = found.map_or(at.saturating_add(here.start), |found| found.start);
            found = Some(Span::new(start, at.saturating_add(here.end)));
        }
        at += len;
    }
    if found.is_some() && is_rest_of_text(source, image, gap)? {
        return Ok(None);
    }
    Ok(found)
}

/// Whether the gap is a part of the last page of a PT_LOAD with text, and one word over and over.
fn is_rest_of_text(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    gap: Span,
) -> Result<bool, ImageError> {
    let is_behind = image.segments.iter().any(|segment| {
        let end = segment.file().end;
        segment.is_text() && end <= gap.start && gap.end <= LARGEST_PAGE.align_up(end)
    });
    if !is_behind {
        return Ok(false);
    }
    let bytes = read_range(
        source,
        gap.start,
        gap.len(),
        image.file_len,
        "the rest of a page",
    )?;
    let is_filled_with = |stop: &u32| {
        let word = stop.to_be_bytes();
        let mut pairs = (gap.start..).zip(&bytes);
        pairs.all(|(at, byte)| word.get((at % 4) as usize) == Some(byte))
    };
    Ok(STOPS.iter().any(is_filled_with))
}
