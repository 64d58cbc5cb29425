//! What a rewrite is asked for.

use hugetext_leaf::Leaf;
use serde::Serialize;

/// How far a rewrite may go, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Raise p_align of text that is congruent already: a header edit.
    Align,
    /// Insert holes so that text becomes congruent, and move what follows in the file.
    Shift,
    /// As `Shift`, and join read-only neighbours with text in one mapping (R+X).
    Merge,
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The leaf that is to map the text.
    pub leaf: Leaf,
    /// The smallest base page the file is to run with.
    pub page: Leaf,
    /// Extend text to a whole window where the addresses after it are free.
    pub extend_tail: bool,
}
