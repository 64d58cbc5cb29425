//! `hugetext check --same`: whether two files are the same program.

use std::fmt::Write;
use std::path::Path;

use hugetext_elf::Difference;
use hugetext_engine::{Program, compare_files};

use crate::documents::check::SameReport;
use crate::failure::Failure;
use crate::output::Output;
use crate::path::shown;
use crate::table::bytes;
use crate::verdict::Verdict;

/// Compares two files from the view of loaders, linkers and debuggers.
pub(super) fn run(old: &Path, new: &Path, output: &Output) -> Result<Verdict, Failure> {
    let (before, after) = (Program::open(old)?, Program::open(new)?);
    let mut report = SameReport {
        old: old.to_owned(),
        new: new.to_owned(),
        same: false,
        difference: None,
        permissions: Vec::new(),
        added: Vec::new(),
    };
    let compared = compare_files(&before.file, &after.file);
    match compared.map_err(|error| Failure::io(new, &error))? {
        Ok(verified) => {
            report.same = true;
            report.permissions = verified.permissions;
            report.added = verified.added;
        }
        Err(Difference::Read(error)) => return Err(Failure::io(new, &error)),
        Err(Difference::Old(error)) => return Err(Failure::image(old, &error)),
        Err(Difference::New(error)) => return Err(Failure::image(new, &error)),
        Err(difference) => report.difference = Some(difference.to_string()),
    }
    output.result("check --same", &report, text)?;
    Ok(Verdict::no_if(!report.same))
}

fn text(report: &SameReport) -> String {
    let new = shown(&report.new);
    if let Some(difference) = &report.difference {
        return format!("{new}: not the same program: {difference}");
    }
    let mut text = format!("{new}: the same program as {}\n", shown(&report.old));
    for change in &report.permissions {
        let (size, at) = (bytes(change.addresses.len()), change.addresses.start);
        let (from, to) = (change.from, change.to);
        let _ = writeln!(text, "  {size} at {at:#x}: {from} becomes {to}");
    }
    for added in &report.added {
        let (size, at) = (bytes(added.len()), added.start);
        let _ = writeln!(
            text,
            "  {size} at {at:#x}: mapped in the new file only, zeros"
        );
    }
    text
}
