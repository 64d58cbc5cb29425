//! The text of a program as the page cache holds it.

use hugetext_host::FileMapping;
use hugetext_leaf::Span;

use crate::error::Error;
use crate::on_host::ProgramOnHost;

/// A mapping of `text` that only reads.
pub(crate) fn map(program: &ProgramOnHost<'_>, text: Span) -> Result<FileMapping, Error> {
    let mapped = FileMapping::readable(&program.program.file, text, program.host.leaf);
    mapped.map_err(Error::io(&program.program.path))
}

/// A mapping of `text` whose pages are in the page tables as far as they are cached.
pub(crate) fn map_cached(program: &ProgramOnHost<'_>, text: Span) -> Result<FileMapping, Error> {
    let failed = Error::io(&program.program.path);
    let page = program.host.page.bytes();
    let mapping = map(program, text)?;
    // With this advice, faults read nothing ahead.
    mapping.expect_random().map_err(&failed)?;
    let resident = mapping.resident(text).map_err(&failed)?;
    let starts = (text.start..text.end).step_by(page as usize);
    for (start, _) in starts.zip(resident).filter(|(_, cached)| *cached) {
        // A page that was dropped meanwhile is read again, or is beyond the end of a file that was cut.
        let _ = mapping.touch(Span::new(start, start + page));
    }
    Ok(mapping)
}
