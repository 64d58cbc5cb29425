//! A change of one process: what is asked for, and what came of it.

use std::path::PathBuf;
use std::time::Duration;

use hugetext_leaf::verdict::{LeafUse, LeavesDoHarm};
use hugetext_leaf::{Backend, Cause, Completion, Kernel, Leaf, Span};
use hugetext_promote::{Mappings, Pause, SwapError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::plain;
use hugetext_host::Pid;

/// The change to make in every process.
#[derive(Debug, Clone, Copy)]
pub struct PromoteRequest {
    /// The kernel, for its rules.
    pub kernel: Kernel,
    /// The leaf that is to map text.
    pub leaf: Leaf,
    /// The methods that are permitted.
    pub backend: Backend,
    /// What may complete a window of text.
    pub completion: Completion,
    /// Whether the change is only planned.
    pub dry_run: bool,
    /// Whether the original files are mapped again.
    pub revert: bool,
    /// Whether text that the process generates is collapsed, and nothing else is done.
    pub generated: bool,
    /// How long each stop may last; a change that would take longer is given up and undone.
    pub max_pause: Option<Duration>,
    /// How text is to be mapped. By leaves, unless nobody asked for them and they do harm here.
    pub leaves: LeafUse,
}

/// Why a process was left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    /// The process may not be changed, or an error occurred.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// Only collapsing was asked for, and the kernel cannot collapse any of the text.
    #[error("none of its text can be collapsed: {0}")]
    Uncollapsible(Cause),
    /// Nobody named a method, and leaves do harm on this machine.
    #[error("{0}")]
    Harmful(LeavesDoHarm),
}

/// Bytes of text of a process.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct TextBytes {
    /// Mapped from files.
    pub mapped: u64,
    /// Mapped by PMD leaves.
    pub pmd_mapped: u64,
}

/// The result for one process.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PromotedProcess {
    /// Its id.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// Its text before.
    pub before: TextBytes,
    /// Its text now.
    pub after: TextBytes,
    /// Text whose own pages were collapsed.
    pub collapsed: Vec<Span>,
    /// Text that a copy was mapped over, or, with --revert, the file again.
    pub remapped: Vec<Span>,
    /// Text that stays unchanged.
    pub left: Vec<UnchangedText>,
    /// Text that the process generates, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generated: Vec<GeneratedText>,
    /// Bytes of memory that the copies take.
    pub copied: u64,
    /// Bytes of memory of copies that other processes share and that were made before.
    pub shared: u64,
    /// Bytes of read-only data that became, or would become, executable with the text.
    pub data: u64,
    /// The times during which its threads were stopped.
    pub pauses: Vec<Pause>,
    /// What the user should know beyond the figures, in one sentence each.
    pub notes: Vec<String>,
    /// How long the whole change took.
    #[serde(rename = "took_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// Copies that the process mapped before.
    #[serde(skip)]
    pub copies: usize,
}

/// A mapping of generated text.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct GeneratedText {
    /// Its addresses.
    pub addresses: Span,
    /// Bytes of whole windows in it.
    pub windows: u64,
    /// Bytes by PMD leaves before.
    pub before: u64,
    /// Bytes by PMD leaves now.
    pub after: u64,
    /// Windows that have no page yet: reserved for text that is not generated yet.
    pub unbacked: u64,
    /// The kernel's last error for another window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl GeneratedText {
    /// Bytes that PMD leaves map now and did not before.
    pub fn gained(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Text that stays unchanged.
#[derive(Debug, JsonSchema, Serialize)]
pub struct UnchangedText {
    /// Its addresses.
    pub text: Span,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "hugetext_host::lossy::optional_path")]
    #[schemars(with = "Option<String>")]
    pub path: Option<PathBuf>,
    /// The reason.
    pub reason: String,
}

impl UnchangedText {
    pub(super) fn new(mappings: &Mappings, text: Span, reason: String) -> UnchangedText {
        let path = mappings.at(text.start).and_then(|(_, path)| path);
        UnchangedText {
            text,
            path: path.map(PathBuf::from),
            reason: plain(reason),
        }
    }
}

impl PromotedProcess {
    /// A process of which nothing was changed yet.
    pub fn new(pid: Pid, name: String, before: TextBytes) -> PromotedProcess {
        PromotedProcess {
            pid,
            name,
            before,
            after: before,
            collapsed: Vec::new(),
            remapped: Vec::new(),
            left: Vec::new(),
            generated: Vec::new(),
            copied: 0,
            shared: 0,
            data: 0,
            pauses: Vec::new(),
            notes: Vec::new(),
            took: Duration::ZERO,
            copies: 0,
        }
    }

    /// Bytes of text that were, or would be, changed.
    pub fn changed(&self) -> u64 {
        let both = self.collapsed.iter().chain(&self.remapped);
        let generated = self.generated.iter().map(GeneratedText::gained);
        both.map(Span::len).sum::<u64>() + generated.sum::<u64>()
    }

    /// Whether something was done now or before.
    pub fn is_on_huge_pages(&self) -> bool {
        self.changed() > 0 || self.after.pmd_mapped > 0
    }

    /// The longest time that the process was stopped.
    pub fn longest_pause(&self) -> Option<&Pause> {
        self.pauses.iter().max_by_key(|pause| pause.total)
    }
}
