//! The text of a program as the page cache holds it.

use std::io;

use hugetext_host::FileMapping;
use hugetext_leaf::Span;

use crate::on_host::ProgramOnHost;

/// A mapping of `text` that only reads.
pub(crate) fn map(program: &ProgramOnHost<'_>, text: Span) -> io::Result<FileMapping> {
    FileMapping::readable(&program.program.file, text, program.host.leaf)
}

/// A mapping of `text` whose pages are in the page tables as far as they are cached.
pub(crate) fn map_cached(program: &ProgramOnHost<'_>, text: Span) -> io::Result<FileMapping> {
    let page = program.host.page.bytes();
    let mapping = map(program, text)?;
    // With this advice, faults read nothing ahead.
    mapping.expect_random()?;
    let resident = mapping.resident(text)?;
    let starts = (text.start..text.end).step_by(page as usize);
    for (start, _) in starts.zip(resident).filter(|(_, cached)| *cached) {
        // A page that was dropped meanwhile is read again, or is beyond the end of a file that was cut.
        let _ = mapping.touch(Span::new(start, start + page));
    }
    Ok(mapping)
}
