//! The width of a program's addresses.

use schemars::JsonSchema;
use serde::Serialize;

/// The width of a program's addresses (EI_CLASS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// ELFCLASS32.
    #[serde(rename = "32-bit")]
    Bits32,
    /// ELFCLASS64.
    #[serde(rename = "64-bit")]
    Bits64,
}
