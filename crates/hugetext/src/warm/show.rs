//! Formats the result for a file as text.

use std::fmt::Write;

use hugetext_engine::{PlaceObstacle, PlacedText, Rung, WarmOutcome};
use hugetext_leaf::replica::NodeBytes;

use super::Arguments;
use crate::path::shown;
use crate::table::{bytes, count};

/// One file: a line with the result, the nodes of its text if it was placed, and below it the obstacles.
pub(super) fn show(file: &WarmOutcome, arguments: &Arguments) -> String {
    let mut text = show_windows(file, arguments);
    if let Some(placed) = &file.nodes {
        let _ = writeln!(text, "  {}", show_nodes(placed));
    }
    text
}

fn show_nodes(placed: &PlacedText) -> String {
    let by_node = |sum: &NodeBytes| {
        let each = sum.each();
        let each: Vec<String> = each
            .map(|(node, on)| format!("{} on {node}", bytes(on)))
            .collect();
        if each.is_empty() {
            "nothing cached".to_owned()
        } else {
            each.join(", ")
        }
    };
    let (before, after) = (by_node(&placed.before), by_node(&placed.after));
    let mut line = format!("text: {after} (before: {before})");
    if let Some(obstacle) = placed.obstacle {
        let why = match obstacle {
            PlaceObstacle::MappedByOthers => {
                "other processes map it, and moving that needs CAP_SYS_NICE (root)"
            }
            PlaceObstacle::NotMovable => {
                "the kernel did not move it: in use, or no memory there; try again"
            }
            PlaceObstacle::OnlyLooked => "nothing was changed",
        };
        let _ = write!(line, "; {} elsewhere: {why}", bytes(placed.elsewhere));
    }
    line
}

fn show_windows(file: &WarmOutcome, arguments: &Arguments) -> String {
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
