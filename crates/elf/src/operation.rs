//! The steps that write a new file.

use hugetext_leaf::Span;
use schemars::JsonSchema;
use serde::Serialize;

/// One step that turns an empty file into the new one. Later steps overwrite earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "operation", rename_all = "kebab-case")]
pub enum Operation {
    /// Sets the length. A range that no other operation fills reads as zeros and takes no disk.
    SetLen {
        /// Length in bytes.
        len: u64,
    },
    /// Copies a range of the old file. Its holes may stay holes.
    Copy {
        /// File offsets in the old file, not empty.
        from: Span,
        /// File offset in the new file.
        to: u64,
    },
    /// Writes bytes.
    Write {
        /// File offset in the new file.
        at: u64,
        /// The bytes.
        #[serde(skip)]
        bytes: Vec<u8>,
    },
}
