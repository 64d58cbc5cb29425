//! The options of a rewrite.

use hugetext_leaf::Leaf;
use serde::Serialize;

/// The changes that a rewrite may make, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Raise p_align of text that is already congruent: a header edit.
    Align,
    /// Insert holes so that text becomes congruent, and move the bytes after them in the file.
    Shift,
    /// As `Shift`, and join read-only neighbours with text in one mapping (R+X).
    Merge,
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
}
