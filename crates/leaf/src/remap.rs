//! Decides which text of a running process goes on huge pages, and by which method.

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
    /// The text in it. The rest is read-only data at either end.
    pub text: Span,
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
            Reason::Writable => write!(f, "writable"),
            Reason::Incongruent => write!(f, "address and file offset are not congruent"),
            Reason::Uncollapsible(cause) => write!(f, "cannot be collapsed: {cause}"),
            Reason::Mapping(obstacle) => obstacle.fmt(f),
        }
    }
}

/// Text that stays unchanged.
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

/// The plan for the text of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Promotion {
    /// The runs to promote, by address.
    pub runs: Vec<Run>,
    /// The text to leave unchanged, by address.
    pub left: Vec<Left>,
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

/// The smallest part of a window with a pad that must be text. With less text, the memory is not
/// worth it.
const LEAST_PART: u64 = 4;

/// Decides for every window of file-backed text in `vmas` (all mappings of the process, by
/// address). `obstacle` tells why the kernel does not collapse text of a file, if it does not (see
/// [`collapse()`](crate::collapse)).
pub fn promotion(
    vmas: &[ProcessVma],
    policy: PromotionPolicy,
    obstacle: impl Fn(FileId) -> Option<Cause>,
) -> Promotion {
    let mut promotion = Promotion::default();
    for vma in vmas.iter().filter(|vma| vma.perms.exec) {
        let Some(file) = vma.file else { continue };
        let whole = match &vma.obstacle {
            Some(obstacle) => Some(Reason::Mapping(obstacle.clone())),
            None => vma.perms.write.then_some(Reason::Writable),
        };
        if let Some(reason) = whole {
            promotion.leave(vma.addresses, file, reason);
            continue;
        }
        let (first, end) = (vma.addresses.start, vma.addresses.end);
        let obstacle = obstacle(file);
        let text = Text { vmas, vma, file };
        for start in (policy.leaf.align_down(first)..end).step_by(policy.leaf.bytes() as usize) {
            let window = Span::new(start, start + policy.leaf.bytes());
            match text.window_run(window, policy, obstacle) {
                Ok(run) => promotion.take(run),
                Err(reason) => promotion.leave(window.intersect(&vma.addresses), file, reason),
            }
        }
    }
    promotion
}

/// A mapping of text among the mappings of its process.
struct Text<'v> {
    vmas: &'v [ProcessVma],
    vma: &'v ProcessVma,
    file: FileId,
}

impl Text<'_> {
    fn window_run(
        &self,
        window: Span,
        policy: PromotionPolicy,
        obstacle: Option<Cause>,
    ) -> Result<Run, Reason> {
        let vma = self.vma;
        let text = window.intersect(&vma.addresses);
        if vma
            .huge
            .iter()
            .any(|huge| huge.intersect(&window) == window)
        {
            return Err(Reason::Huge);
        }
        if vma.changed.iter().any(|changed| changed.overlaps(&window)) {
            return Err(Reason::Changed);
        }
        // A mapping without room for a window is small at any address, as for any other command.
        let shared = if vma.addresses.len() < window.len() {
            Reason::Small
        } else {
            Reason::Partial
        };
        let congruent = policy
            .leaf
            .is_aligned(vma.addresses.start.wrapping_sub(vma.offset));
        let method = match (policy.backend, obstacle) {
            (Backend::Both, None) if congruent && text == window => Method::Collapse,
            (Backend::Both | Backend::RemapOnly, _) => Method::Remap,
            (Backend::CollapseOnly, _) if !congruent => return Err(Reason::Incongruent),
            (Backend::CollapseOnly, _) if text != window => return Err(shared),
            (Backend::CollapseOnly, Some(cause)) => return Err(Reason::Uncollapsible(cause)),
            (Backend::CollapseOnly, None) => Method::Collapse,
        };
        let content = match policy.completion {
            Completion::Unused => text,
            Completion::ReadOnlyData => self.with_data(text, window),
        };
        let pad = |span: Span| {
            if span.is_empty() {
                Ok(None)
            } else {
                pad_kind(self.vmas, self.file, span)
                    .map(Some)
                    .ok_or_else(|| shared.clone())
            }
        };
        let head = pad(Span::new(window.start, content.start))?;
        let tail = pad(Span::new(content.end, window.end))?;
        if text.len() < window.len() / LEAST_PART {
            return Err(Reason::Small);
        }
        Ok(Run {
            windows: window,
            content,
            text,
            offset: self.offset_of(content.start),
            file: self.file,
            perms: vma.perms,
            bti: vma.bti,
            method,
            head,
            tail,
        })
    }

    /// The file offset that the file's layout gives to an address.
    fn offset_of(&self, address: u64) -> u64 {
        let vma = self.vma;
        vma.offset
            .wrapping_add(address.wrapping_sub(vma.addresses.start))
    }

    /// The text of a window with the read-only data on both sides of it that belongs to the window.
    fn with_data(&self, text: Span, window: Span) -> Span {
        let mut content = text;
        while content.start > window.start
            && let Some(data) = self.data_at(content.start - 1, window)
        {
            content.start = data.start;
        }
        while content.end < window.end
            && let Some(data) = self.data_at(content.end, window)
        {
            content.end = data.end;
        }
        content
    }

    /// The part in `window` of the mapping at an address, if it is data that may join the text:
    /// read-only, unchanged, of the same file, and placed as in the file.
    fn data_at(&self, address: u64, window: Span) -> Option<Span> {
        let there = self
            .vmas
            .iter()
            .find(|vma| vma.addresses.contains(address))?;
        let part = there.addresses.intersect(&window);
        let read_only = Perms {
            read: true,
            write: false,
            exec: false,
        };
        let joins = there.file == Some(self.file)
            && there.perms == read_only
            && there.obstacle.is_none()
            && there.offset == self.offset_of(there.addresses.start)
            && !there.changed.iter().any(|changed| changed.overlaps(&part));
        joins.then_some(part)
    }
}

/// The kind of pad that `span` is, if it may become part of a promoted window.
fn pad_kind(vmas: &[ProcessVma], file: FileId, span: Span) -> Option<Pad> {
    let mut there = vmas.iter().filter(|vma| vma.addresses.overlaps(&span));
    let Some(vma) = there.next() else {
        return Some(Pad::Free);
    };
    let hole = vma.file == Some(file)
        && vma.perms == Perms::default()
        && vma.obstacle.is_none()
        && vma.changed.is_empty()
        && vma.addresses.intersect(&span) == span;
    hole.then_some(Pad::Hole)
}

impl Promotion {
    /// Bytes of text that the plan changes.
    pub fn promoted(&self) -> u64 {
        self.runs.iter().map(|run| run.text.len()).sum()
    }

    fn take(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if last.joins(&run) => {
                last.windows.end = run.windows.end;
                last.content.end = run.content.end;
                last.text.end = run.text.end;
                last.tail = run.tail;
            }
            _ => self.runs.push(run),
        }
    }

    fn leave(&mut self, text: Span, file: FileId, reason: Reason) {
        match self.left.last_mut() {
            Some(last)
                if last.file == file && last.reason == reason && last.text.end == text.start =>
            {
                last.text.end = text.end;
            }
            _ => self.left.push(Left { text, file, reason }),
        }
    }
}

impl Run {
    /// Bytes from the start of the first window to the content.
    pub fn pad_before(&self) -> u64 {
        self.content.start - self.windows.start
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
    fn joins(&self, next: &Run) -> bool {
        self.content.end == next.content.start
            && self.text.end == next.text.start
            && self.file == next.file
            && self.method == next.method
            && (self.perms, self.bti) == (next.perms, next.bti)
            && self.offset + self.content.len() == next.offset
    }
}

#[cfg(test)]
#[path = "remap_tests.rs"]
mod tests;
