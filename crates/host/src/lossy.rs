//! Paths in JSON, which is UTF-8: bytes that are not UTF-8 become U+FFFD.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Serializes a path as text, also if its bytes are no UTF-8.
pub fn path<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// As [`path`], for a path that may be missing.
pub fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = path.as_ref().map(|path| path.to_string_lossy());
    text.serialize(serializer)
}
