//! The terms of a promotion: what a process maps, and what becomes of it.

use std::fmt;

use serde::Serialize;

use crate::cause::Cause;
use crate::file_id::FileId;
use crate::geometry::Leaf;
use crate::segment::{Perms, Span};

/// A mapping of a process (struct vm_area_struct), with the facts that decide its replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessVma {
    /// Its addresses, page-aligned.
    pub addresses: Span,
    /// File offset of the first address.
    pub offset: u64,
    /// Access rights.
    pub perms: Perms,
    /// The file; `None` for memory without one.
    pub file: Option<FileId>,
    /// Why the whole mapping must stay unchanged.
    pub obstacle: Option<Obstacle>,
    /// Whether indirect branches may land only at marked places (VmFlags bt: PROT_BTI of arm64).
    pub bti: bool,
    /// The parts that PMD leaves already map.
    pub huge: Vec<Span>,
    /// The pages that differ from the file: the process, a debugger or a uprobe wrote to them.
    pub changed: Vec<Span>,
}

/// Why a mapping must stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "obstacle", rename_all = "kebab-case")]
pub enum Obstacle {
    /// mseal(2) (Linux 6.10): no address of it can be mapped over.
    Sealed,
    /// A shared mapping: it must show what others write into the file.
    Shared,
    /// Memory with huge pages of its own kind: tmpfs or hugetlbfs.
    Memory,
    /// A copy that an earlier promotion mapped.
    Promoted,
    /// The process asked for small pages (MADV_NOHUGEPAGE).
    SmallPagesWanted,
    /// A VmFlags entry that may matter for a replacement.
    Flag {
        /// The entry, as /proc/PID/smaps names it.
        name: String,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Sealed => write!(f, "sealed (mseal)"),
            Obstacle::Shared => write!(f, "a shared mapping"),
            Obstacle::Memory => write!(f, "in shared memory, not in a file"),
            Obstacle::Promoted => write!(f, "already promoted"),
            Obstacle::SmallPagesWanted => write!(f, "small pages asked for (MADV_NOHUGEPAGE)"),
            Obstacle::Flag { name } => write!(f, "special mapping (VmFlags {name})"),
        }
    }
}

/// The method that puts text on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// MADV_COLLAPSE of the file's own pages: they stay shared, and the process is not stopped.
    Collapse,
    /// A copy in huge pages, mapped over the file while the process is stopped.
    Remap,
}

/// Addresses next to text that complete its first or last window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pad {
    /// Nothing is mapped there.
    Free,
    /// A part of the same file without access rights: the hole that a dynamic loader leaves between
    /// two segments.
    Hole,
}

/// A run of windows to promote at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Whole windows: both ends are multiples of the leaf.
    pub windows: Span,
    /// What they show of the file: everything except a pad at either end.
    pub content: Span,
    /// The text in it. What else it has is read-only data at either end.
    pub text: Span,
    /// The text of the same mapping behind the windows, less than a window; empty if there is none. The
    /// copy maps it too, by small pages: libdwfl takes a mapping of a file behind that of another one
    /// for the start of the file, and would find names of other functions there.
    pub rest: Span,
    /// File offset of the first byte of content.
    pub offset: u64,
    /// The file.
    pub file: FileId,
    /// Access rights of the text.
    pub perms: Perms,
    /// Whether it is mapped with PROT_BTI.
    pub bti: bool,
    /// The method.
    pub method: Method,
    /// The addresses between the first window's start and the content.
    pub head: Option<Pad>,
    /// The addresses between the content and the last window's end.
    pub tail: Option<Pad>,
}

/// Why text stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// PMD leaves already map it.
    Huge,
    /// A part of a window whose other part is in use.
    Partial,
    /// Too little text for a window of its own.
    Small,
    /// Some page of the window differs from the file.
    Changed,
    /// More text behind it in its mapping is huge without a copy, and would lie behind one ([`Run::rest`]).
    BeforeHuge,
    /// Writable.
    Writable,
    /// Not congruent, and the user permitted only collapsing.
    Incongruent,
    /// The kernel does not collapse text of its file, and the user permitted only collapsing.
    Uncollapsible(Cause),
    /// The whole mapping must stay unchanged.
    Mapping(Obstacle),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Huge => write!(f, "already on huge pages"),
            Reason::Partial => write!(f, "part of a window that other memory shares"),
            Reason::Small => write!(f, "too little text for a window of its own"),
            Reason::Changed => write!(f, "changed in memory (breakpoint, probe or patch)"),
            Reason::BeforeHuge => write!(
                f,
                "a copy here would hide the names of the text behind it, which is huge without one"
            ),
            Reason::Writable => write!(f, "writable"),
            Reason::Incongruent => write!(f, "address and file offset are not congruent"),
            Reason::Uncollapsible(cause) => write!(f, "cannot be collapsed: {cause}"),
            Reason::Mapping(obstacle) => obstacle.fmt(f),
        }
    }
}

/// Text that gets no huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Its addresses.
    pub text: Span,
    /// The file.
    pub file: FileId,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
}

/// The methods that are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Collapse where the kernel can and the mapping is congruent to the file; remap elsewhere.
    Both,
    /// Collapse only.
    CollapseOnly,
    /// Remap all text.
    RemapOnly,
}

/// What may complete the first and the last window of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// Only addresses that nobody reads (see [`Pad`]).
    #[default]
    Unused,
    /// Read-only data of the same file too. One leaf has one set of rights, so the data becomes
    /// executable.
    ReadOnlyData,
}

/// How to promote text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromotionPolicy {
    /// The PMD leaf.
    pub leaf: Leaf,
    /// The methods that are permitted.
    pub backend: Backend,
    /// What may complete a window.
    pub completion: Completion,
}

impl Run {
    /// Bytes from the start of the first window to the content.
    pub fn pad_before(&self) -> u64 {
        self.content.start - self.windows.start
    }

    /// The same without the rest.
    pub fn without_rest(self) -> Run {
        let rest = Span::new(self.windows.end, self.windows.end);
        Run { rest, ..self }
    }

    /// All addresses that a copy is mapped at: the windows and the rest.
    pub fn mapped(&self) -> Span {
        Span::new(self.windows.start, self.rest.end)
    }

    /// All addresses at which a copy shows the file: the content and the rest.
    pub fn shown(&self) -> Span {
        if self.rest.is_empty() {
            self.content
        } else {
            Span::new(self.content.start, self.rest.end)
        }
    }

    /// The text that a copy shows: that of the windows and the rest.
    pub fn shown_text(&self) -> Span {
        let end = if self.rest.is_empty() {
            self.text.end
        } else {
            self.rest.end
        };
        Span::new(self.text.start, end)
    }

    /// Bytes of read-only data that become executable.
    pub fn data(&self) -> u64 {
        self.content.len() - self.text.len()
    }

    /// The file offset of an address in the content.
    pub fn offset_of(&self, address: u64) -> u64 {
        self.offset + (address - self.content.start)
    }

    /// Whether `next` continues this run.
    pub(crate) fn joins(&self, next: &Run) -> bool {
        self.content.end == next.content.start
            && self.text.end == next.text.start
            && self.file == next.file
            && self.method == next.method
            && (self.perms, self.bti) == (next.perms, next.bti)
            && self.offset + self.content.len() == next.offset
    }
}
