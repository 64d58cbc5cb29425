//! The options of a rewrite.

use std::fmt;

use hugetext_leaf::Leaf;
use schemars::JsonSchema;
use serde::Serialize;

/// The changes that a rewrite may make, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Raise p_align of text that is already congruent: a header edit.
    Align,
    /// Insert holes so that text becomes congruent, and move the bytes after them in the file.
    Shift,
    /// As `Shift`, and join read-only neighbours with text in one mapping (R+X).
    Merge,
}

impl Strategy {
    /// All strategies, weakest first.
    pub const ALL: [Strategy; 3] = [Strategy::Align, Strategy::Shift, Strategy::Merge];

    /// The name on the command line, in documents and in the names of copies.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Align => "align",
            Strategy::Shift => "shift",
            Strategy::Merge => "merge",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The goal of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The leaf that is to map the text.
    pub leaf: Leaf,
    /// The smallest base page the file is to run with.
    pub page: Leaf,
    /// Extend text to a whole window where the addresses after it are free.
    pub extend_tail: bool,
    /// Where in the file text moves to.
    pub moved: MovedText,
}

/// Where in the new file text goes that has to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedText {
    /// As near as possible, for files of which nobody has a profile yet.
    Nearest,
    /// Behind every offset at which the old file maps anything. Profilers name a sample by build-id and file offset, long
    /// after it was taken, and both files have one build-id. An offset of one file then means nothing in the
    /// other: a sample that meets the wrong file has no name, instead of that of another function. It costs
    /// a hole in the file of the size of what is mapped.
    BehindOld,
}
