//! The obstacles to text in leaves.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::condition::Condition;
use crate::filesystem::Filesystem;
use crate::geometry::Leaf;
use crate::kernel::Version;

/// Why text is not mapped by a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// Address and file offset differ modulo the leaf.
    Incongruent {
        /// (p_vaddr − p_offset) mod leaf, in bytes.
        by: u64,
    },
    /// The load bias is promised to be aligned to less than the leaf.
    Alignment {
        /// The promised alignment.
        align: Leaf,
    },
    /// The mapping is smaller than one window.
    Small,
    /// Text before the first whole window.
    Head {
        /// Its bytes.
        bytes: u64,
    },
    /// Text after the last whole window.
    Tail {
        /// Its bytes.
        bytes: u64,
    },
    /// The segment is also writable.
    Writable,
    /// The filesystem's page cache holds no folio of the leaf's order, in any known kernel.
    Filesystem {
        /// Which one.
        filesystem: Filesystem,
    },
    /// The kernel lacks an ability of a later version.
    Kernel {
        /// The first version with that ability.
        needs: Version,
    },
    /// A setting of the kernel forbids it.
    Setting {
        /// The condition that the setting breaks.
        condition: Condition,
    },
    /// Transparent huge pages are disabled for the process (prctl PR_SET_THP_DISABLE).
    ThpDisabled,
    /// The page cache holds small folios there.
    SmallFolios,
    /// The page cache holds huge folios there, but the process maps them page by page.
    SmallPages,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Incongruent { by } => {
                write!(
                    f,
                    "incongruent: address and file offset differ by {by:#x} within a window"
                )
            }
            Cause::Alignment { align } => {
                write!(
                    f,
                    "alignment too small: the load address is only {align}-aligned"
                )
            }
            Cause::Small => write!(f, "smaller than a window"),
            Cause::Head { bytes } => write!(f, "{} KiB before the first window", bytes >> 10),
            Cause::Tail { bytes } => write!(f, "{} KiB after the last window", bytes >> 10),
            Cause::Writable => write!(f, "writable"),
            Cause::Filesystem {
                filesystem: Filesystem::Overlay,
            } => {
                write!(
                    f,
                    "overlayfs: the filesystem below decides, and it cannot be seen from here"
                )
            }
            Cause::Filesystem { filesystem } => {
                write!(
                    f,
                    "the page cache of {filesystem} holds no folios of this size"
                )
            }
            Cause::Kernel { needs } => write!(f, "kernel too old: needs {needs}"),
            Cause::Setting { condition } => write!(f, "a setting forbids it: needs {condition}"),
            Cause::ThpDisabled => write!(
                f,
                "huge pages are disabled for the process (PR_SET_THP_DISABLE), by itself or who started it; only an \
                 option of its own and a restart change that"
            ),
            Cause::SmallFolios => write!(f, "the page cache holds it in small folios"),
            Cause::SmallPages => write!(f, "in huge folios, but mapped page by page"),
        }
    }
}
