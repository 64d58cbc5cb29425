//! The ways to warm text, cheapest first, and which of them are permitted.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::replace::Privileged;

/// What may be done to warm a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmPolicy {
    /// Nothing: the page cache is only looked at.
    LookOnly,
    /// Every method that changes no file.
    InPlace,
    /// Also a new inode in place of the file, except for files with set-id bits or capabilities.
    Replace,
    /// As `Replace`, for those files too; the new file keeps them.
    ReplacePrivileged,
}

impl WarmPolicy {
    pub(crate) fn permits(self, method: WarmMethod) -> bool {
        match method {
            WarmMethod::AlreadyHuge => true,
            WarmMethod::Collapse | WarmMethod::Reread => self != WarmPolicy::LookOnly,
            WarmMethod::Replace => self.replaces(),
        }
    }

    pub(crate) fn replaces(self) -> bool {
        matches!(self, WarmPolicy::Replace | WarmPolicy::ReplacePrivileged)
    }

    pub(crate) fn privileged(self) -> Privileged {
        if self == WarmPolicy::ReplacePrivileged {
            Privileged::Replaced
        } else {
            Privileged::Left
        }
    }
}

/// The ways to a warm file, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmMethod {
    /// The file was already warm.
    AlreadyHuge,
    /// MADV_COLLAPSE.
    Collapse,
    /// Dropped from the page cache and read again with MADV_HUGEPAGE.
    Reread,
    /// A new inode, written in windows and renamed into place.
    Replace,
}

impl WarmMethod {
    /// One word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            WarmMethod::AlreadyHuge => "already-huge",
            WarmMethod::Collapse => "collapse",
            WarmMethod::Reread => "reread",
            WarmMethod::Replace => "replace",
        }
    }
}

impl fmt::Display for WarmMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WarmMethod::AlreadyHuge => "already huge",
            WarmMethod::Collapse => "collapse",
            WarmMethod::Reread => "drop and read again",
            WarmMethod::Replace => "replace",
        })
    }
}

/// A method that left windows in small folios.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FailedMethod {
    /// The method.
    pub method: WarmMethod,
    /// The error; absent if the method met none and still did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Windows that are not huge.
    pub left: usize,
    /// Those of them that could not be dropped, because a process maps or writes one of their pages. The
    /// kernel gave the others no huge folio: its memory may be fragmented.
    pub in_use: usize,
}

impl fmt::Display for FailedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.method)?;
        match (&self.error, self.left.saturating_sub(self.in_use)) {
            (Some(error), _) => f.write_str(error),
            (None, 0) => f.write_str("all windows that are left are in use"),
            (None, small) if self.in_use == 0 => {
                write!(f, "the kernel left {small} in small folios")
            }
            (None, small) => {
                let in_use = self.in_use;
                write!(
                    f,
                    "{in_use} in use, and the kernel left {small} in small folios"
                )
            }
        }
    }
}
