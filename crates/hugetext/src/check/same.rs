//! `hugetext check --same`: whether two files are the same program.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use hugetext_elf::{Difference, PermissionChange, verify_unshared};
use hugetext_host::SharedExtents;
use hugetext_leaf::Span;
use serde::Serialize;

use crate::Verdict;
use crate::failure::Failure;
use crate::fix::known_by;
use crate::output::Output;
use crate::path::{lossy, shown};
use crate::program::Program;
use crate::table::bytes;

/// The result of a comparison.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(serialize_with = "lossy::path")]
    old: PathBuf,
    #[serde(serialize_with = "lossy::path")]
    new: PathBuf,
    same: bool,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    /// Read-only addresses that become executable.
    permissions: Vec<PermissionChange>,
    /// Addresses that only the new file maps; they hold zeros.
    added: Vec<Span>,
}

/// Compares two files from the view of loaders, linkers and debuggers.
pub(super) fn run(old: &Path, new: &Path, output: &Output) -> Result<Verdict, Failure> {
    let (before, after) = (Program::open(old)?, Program::open(new)?);
    let mut report = Report {
        old: old.to_owned(),
        new: new.to_owned(),
        same: false,
        difference: None,
        permissions: Vec::new(),
        added: Vec::new(),
    };
    let extents =
        SharedExtents::of(&before.file, &after.file).map_err(|error| Failure::io(new, &error))?;
    match verify_unshared(&before.file, &after.file, known_by(&extents)) {
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
    output.result("check", &report, text)?;
    Ok(if report.same {
        Verdict::Done
    } else {
        Verdict::No
    })
}

fn text(report: &Report) -> String {
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
