//! The names of the sides.

/// The unchanged file in small folios.
pub const SMALL: &str = "small folios";
/// The unchanged file, dropped and then started as users do, in whatever folios that leaves.
pub const AS_FOUND: &str = "as found";
/// The unchanged file in huge folios.
pub const WARMED: &str = "warmed";
/// A copy that was fixed.
pub const FIXED: &str = "fixed";
/// A copy whose read-only data and text are one mapping.
pub const MERGED: &str = "merged";
/// A file without states.
pub const AS_IT_IS: &str = "as it is";

/// The names of the sides that every comparison may have.
pub(super) const OWN_SIDES: [&str; 6] = [SMALL, AS_FOUND, WARMED, FIXED, MERGED, AS_IT_IS];
