//! The names of the sides.

pub(super) const SMALL: &str = "small folios";
pub(super) const WARMED: &str = "warmed";
pub(super) const FIXED: &str = "fixed";
pub(super) const MERGED: &str = "merged";
pub(super) const AS_IT_IS: &str = "as it is";

/// The names of the sides that every comparison may have.
pub(super) const OWN_SIDES: [&str; 5] = [SMALL, WARMED, FIXED, MERGED, AS_IT_IS];
