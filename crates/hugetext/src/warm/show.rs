//! Formats the result for a file as text.

use std::fmt::Write;

use hugetext_engine::{Rung, WarmOutcome};

use super::Arguments;
use crate::path::shown;
use crate::table::{bytes, count};

/// One file: a line with the result, and below it the obstacles.
pub(super) fn show(file: &WarmOutcome, arguments: &Arguments) -> String {
    let mut text = format!("{}: ", shown(&file.path));
    let size = bytes(file.windows as u64 * file.leaf.bytes());
    if file.windows == 0 {
        let causes: Vec<String> = file.causes.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "no window to warm: {}", causes.join("; "));
        return text;
    }
    let how = match file.rung {
        Some(Rung::AlreadyHuge) => "already warm",
        Some(Rung::Collapse) => "collapsed in place",
        Some(Rung::Reread) => "dropped and read again",
        Some(Rung::Replace) => "replaced by a new inode",
        None => "not warm",
    };
    let (huge, leaf) = (file.huge, file.leaf);
    let windows = count(file.windows, "window");
    let _ = writeln!(text, "{how}: {huge} of {windows} of {leaf} huge ({size})");
    if file.is_warm() || arguments.check {
        return text;
    }
    for failed in &file.failed {
        let _ = writeln!(text, "  {failed}");
    }
    for cause in &file.causes {
        let _ = writeln!(text, "  {cause}");
    }
    if !file.holders.is_empty() {
        let names: Vec<String> = file
            .holders
            .iter()
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        let _ = writeln!(text, "  in use by {}", names.join(", "));
    }
    if !arguments.replace && file.causes.is_empty() {
        let _ = writeln!(
            text,
            "  --replace writes it to a new inode; running processes keep the old one"
        );
    }
    text
}
