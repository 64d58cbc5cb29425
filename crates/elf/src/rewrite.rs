//! Turns a plan into an ordered list of operations on files, which the caller carries out.

use object::elf;

use crate::encoding::Overflow;
use crate::headers::read_file_header;
use crate::image::Image;
use crate::layout::Move;
use crate::operation::Operation;
use crate::plan::{Plan, PlanError};
use crate::section_headers::section_headers;
use crate::source::ReadAt;
use crate::symbols::symbols;
use crate::unnamed::check_gaps;

/// The operations of `plan`. The plan was made for `image`, which was read from `source`.
pub fn rewrite(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Vec<Operation>, PlanError> {
    let tables = [program_headers(plan)?, file_header(source, image, plan)?];
    check_gaps(source, image, plan)?;
    let mut operations = vec![Operation::SetLen { len: plan.file_len }];
    let copies = plan.moves.iter().filter(|piece| !piece.from.is_empty());
    operations.extend(copies.map(|Move { from, to }| Operation::Copy {
        from: *from,
        to: *to,
    }));
    operations.extend(section_headers(image, plan)?);
    operations.extend(symbols(source, image, plan)?);
    operations.extend(tables);
    Ok(operations)
}

fn file_header(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: &Plan,
) -> Result<Operation, PlanError> {
    let (_, mut header) = read_file_header(source)?;
    header.e_phoff = plan.program_table;
    header.e_shoff = plan.section_table;
    // Counts that the header does not hold never change.
    if plan.headers.len() != image.headers.len() {
        header.e_phnum = u16::try_from(plan.headers.len()).unwrap_or(elf::PN_XNUM);
    }
    let sections = image.section_table.count + plan.sections_cut.len() as u64;
    if !plan.sections_cut.is_empty() {
        header.e_shnum = u16::try_from(sections).unwrap_or(0);
    }
    Ok(Operation::Write {
        at: 0,
        bytes: image.encoding.encode(&header)?,
    })
}

/// The new table.
fn program_headers(plan: &Plan) -> Result<Operation, Overflow> {
    let mut bytes = Vec::new();
    for header in &plan.headers {
        bytes.extend(plan.encoding.encode(header)?);
    }
    Ok(Operation::Write {
        at: plan.program_table,
        bytes,
    })
}
