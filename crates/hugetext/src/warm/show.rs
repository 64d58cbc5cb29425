//! Formats the result for a file as text.

use std::fmt::Write;

use hugetext_engine::{CachedIn, PlaceObstacle, PlacedText, TextFolios, WarmMethod, WarmOutcome};
use hugetext_leaf::replica::NodeBytes;
use hugetext_leaf::verdict::{LeafUse, LeavesDoHarm};

use super::arguments::Arguments;
use crate::path::shown;
use crate::table::{bytes, count};

/// The remedy for files in use.
const REPLACE: &str = "  --replace writes it to a new inode; running processes keep the old one\n";

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
        if let Some(folios) = &file.folios {
            let _ = writeln!(text, "  {}", show_folios(folios, file.method));
        }
        if !arguments.check {
            text.push_str(&show_obstacles(file));
            if !arguments.replace && !file.holders.is_empty() {
                text.push_str(REPLACE);
            }
        }
        return text;
    }
    if file.leaves != LeafUse::Leaves {
        return show_without_leaves(file);
    }
    let how = match file.method {
        Some(WarmMethod::AlreadyHuge) => "already warm",
        Some(WarmMethod::Collapse) => "collapsed in place",
        Some(WarmMethod::Reread) => "dropped and read again",
        Some(WarmMethod::Replace) => "replaced by a new inode",
        None => "not warm",
    };
    let (huge, leaf) = (file.huge, file.leaf);
    let windows = count(file.windows, "window");
    let _ = writeln!(text, "{how}: {huge} of {windows} of {leaf} huge ({size})");
    if file.is_warm() || arguments.check {
        return text;
    }
    for cause in &file.causes {
        let _ = writeln!(text, "  {cause}");
    }
    text.push_str(&show_obstacles(file));
    if !arguments.replace && file.causes.is_empty() {
        text.push_str(REPLACE);
    }
    text
}

/// A file with windows on a machine where leaves do harm.
fn show_without_leaves(file: &WarmOutcome) -> String {
    let (huge, leaf) = (file.huge, file.leaf);
    let windows = count(file.windows, "window");
    let mut text = format!(
        "{}: without leaves, because {LeavesDoHarm}: {huge} of {windows} of {leaf} huge\n",
        shown(&file.path)
    );
    match &file.folios {
        Some(folios) => {
            let _ = writeln!(text, "  {}", show_folios(folios, file.method));
        }
        None => text.push_str(
            "  --replace writes it in folios that no leaf maps; --leaves makes it huge all the same\n",
        ),
    }
    text.push_str(&show_obstacles(file));
    text
}

/// The folios of text that no leaf can map.
fn show_folios(folios: &TextFolios, method: Option<WarmMethod>) -> String {
    let how = match method {
        None => "is",
        Some(WarmMethod::AlreadyHuge) => "is already",
        Some(WarmMethod::Collapse | WarmMethod::Reread) => "was read again, and is",
        Some(WarmMethod::Replace) => "was written to a new inode, and is",
    };
    let mut line = match folios.now {
        CachedIn::Absent => "its text is not wholly in the page cache".to_owned(),
        CachedIn::Hidden => format!("its text {how} in folios that only root can see"),
        CachedIn::Folios(now) if folios.are_largest() => {
            format!("its text {how} in the largest folios: {now}")
        }
        CachedIn::Folios(now) => {
            let least = folios.least;
            format!("its text {how} in {now} folios; {least} could hold it")
        }
    };
    if folios.before != folios.now {
        let _ = match folios.before {
            CachedIn::Folios(before) => write!(line, " (before: {before})"),
            CachedIn::Absent | CachedIn::Hidden => write!(line, " (before: not wholly cached)"),
        };
    }
    line
}

/// What was tried without success, and who uses the file.
fn show_obstacles(file: &WarmOutcome) -> String {
    let mut text = String::new();
    for failed in &file.failed {
        let _ = writeln!(text, "  {failed}");
    }
    if !file.holders.is_empty() {
        let names: Vec<String> = file
            .holders
            .iter()
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        let _ = writeln!(text, "  in use by {}", names.join(", "));
    }
    text
}
