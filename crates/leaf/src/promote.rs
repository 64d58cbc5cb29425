//! Which text of a running process to put on huge pages, and how.

use std::fmt;

use serde::Serialize;

use crate::geometry::{Leaf, LeafKind};
use crate::kernel::{Filesystem, Kernel, Topic, first_rule};
use crate::reach::{Cause, large_folio_obstacle};
use crate::segment::{Perms, Span};

/// A file as /proc/PID/maps names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// A mapping of a process (struct vm_area_struct), with what matters for replacing it.
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
    /// Why the mapping as a whole must stay what it is.
    pub obstacle: Option<Obstacle>,
    /// Whether indirect branches may land only at marked places (VmFlags bt: PROT_BTI of arm64).
    pub bti: bool,
    /// The parts that PMD leaves map already.
    pub huge: Vec<Span>,
    /// The pages that no longer are the file's: written to by the process, a debugger or a uprobe.
    pub changed: Vec<Span>,
}

/// Why a mapping must stay what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "obstacle", rename_all = "kebab-case")]
pub enum Obstacle {
    /// mseal(2) (Linux 6.10): no address of it may be mapped over.
    Sealed,
    /// Shared, so that what others write into the file shows in it.
    Shared,
    /// It is huge-page memory of its own kind already: tmpfs, hugetlbfs.
    Memory,
    /// An earlier promotion mapped a copy there.
    Promoted,
    /// The process asked for small pages there (MADV_NOHUGEPAGE).
    SmallPagesWanted,
    /// A VmFlags entry whose meaning for a replacement is not known to be none.
    Flag {
        /// As /proc/PID/smaps names it.
        name: String,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Sealed => write!(f, "sealed (mseal)"),
            Obstacle::Shared => write!(f, "a shared mapping"),
            Obstacle::Memory => write!(f, "in shared memory, not in a file"),
            Obstacle::Promoted => write!(f, "promoted already"),
            Obstacle::SmallPagesWanted => write!(f, "small pages asked for (MADV_NOHUGEPAGE)"),
            Obstacle::Flag { name } => write!(f, "special mapping (VmFlags {name})"),
        }
    }
}

/// How text gets onto huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// MADV_COLLAPSE of the file's own pages: shared, and nothing stops.
    Collapse,
    /// A copy in huge pages, mapped over the file while the process is stopped.
    Remap,
}

/// Addresses beside text that complete its first or last window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pad {
    /// Nothing is mapped there.
    Free,
    /// A part of the same file without access rights: the hole that a dynamic loader leaves between
    /// two segments.
    Hole,
}

/// A run of windows to promote in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Whole windows: both ends are multiples of the leaf.
    pub windows: Span,
    /// The text in them: all of it, but for a pad at either end.
    pub text: Span,
    /// File offset of the first byte of text.
    pub offset: u64,
    /// The file.
    pub file: FileId,
    /// Access rights of the text.
    pub perms: Perms,
    /// Whether it is mapped with PROT_BTI.
    pub bti: bool,
    /// How.
    pub method: Method,
    /// What lies between the first window's start and the text.
    pub head: Option<Pad>,
    /// What lies between the text and the last window's end.
    pub tail: Option<Pad>,
}

/// Why text is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// Mapped by PMD leaves already.
    Huge,
    /// Part of a window whose other part is in use.
    Partial,
    /// Too little text for a window of its own.
    Small,
    /// Some page of the window no longer is the file's.
    Changed,
    /// Writable.
    Writable,
    /// Not congruent, and only collapsing was asked for.
    Incongruent,
    /// The kernel does not collapse text of its file, and only collapsing was asked for.
    Uncollapsible(Cause),
    /// The whole mapping must stay.
    Mapping(Obstacle),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Huge => write!(f, "on huge pages already"),
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

/// Text that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Its addresses.
    pub text: Span,
    /// The file.
    pub file: FileId,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
}

/// What to do with the text of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Promotion {
    /// What to promote, by address.
    pub runs: Vec<Run>,
    /// What to leave, by address.
    pub left: Vec<Left>,
}

/// Which methods may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Collapse where the kernel does and mapping and file are congruent, remap elsewhere.
    Both,
    /// Collapse or leave.
    CollapseOnly,
    /// Remap everything.
    RemapOnly,
}

/// Why MADV_COLLAPSE gathers no text of `filesystem` under `kernel` into folios of a leaf's order;
/// `None` if it does, or if only trying can tell: on an overlay whose layers cannot be seen.
pub fn collapse_obstacle(filesystem: Filesystem, kernel: Kernel, leaf: Leaf) -> Option<Cause> {
    if kernel.collapses_read_only_files() {
        return None;
    }
    let rule = first_rule(Topic::Collapse, filesystem).filter(|rule| leaf <= rule.largest);
    let Some(rule) = rule else {
        return Some(Cause::Filesystem { filesystem });
    };
    // The rule for all filesystems is about those that hold folios of that order anyway.
    let general = rule.filesystem.is_none() && filesystem != Filesystem::Overlay;
    match large_folio_obstacle(filesystem, kernel, LeafKind::Pmd, leaf) {
        never @ Some(Cause::Filesystem { .. }) if general => never,
        _ => (rule.since > kernel.version).then_some(Cause::Kernel { needs: rule.since }),
    }
}

/// Text in a window with a pad has to be at least this part of the window, or the memory spent is
/// out of proportion.
const LEAST_PART: u64 = 4;

/// Decides for every window of file-backed text in `vmas` (all mappings of the process, by
/// address), with PMD leaves of `leaf`. `obstacle` says why the kernel does not collapse text of a
/// file, if it does not (see [`collapse_obstacle`]).
pub fn promotion(
    vmas: &[ProcessVma],
    leaf: Leaf,
    backend: Backend,
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
        for start in (leaf.align_down(first)..end).step_by(leaf.bytes() as usize) {
            let window = Span::new(start, start + leaf.bytes());
            match window_run(vmas, vma, file, window, leaf, (backend, obstacle)) {
                Ok(run) => promotion.take(run),
                Err(reason) => promotion.leave(window.intersect(&vma.addresses), file, reason),
            }
        }
    }
    promotion
}

fn window_run(
    vmas: &[ProcessVma],
    vma: &ProcessVma,
    file: FileId,
    window: Span,
    leaf: Leaf,
    (backend, obstacle): (Backend, Option<Cause>),
) -> Result<Run, Reason> {
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
    // A mapping without room for a window is small wherever it lies, as for any other command.
    let shared = match vma.addresses.len() < window.len() {
        true => Reason::Small,
        false => Reason::Partial,
    };
    let congruent = leaf.is_aligned(vma.addresses.start.wrapping_sub(vma.offset));
    let method = match (backend, obstacle) {
        (Backend::Both, None) if congruent && text == window => Method::Collapse,
        (Backend::Both | Backend::RemapOnly, _) => Method::Remap,
        (Backend::CollapseOnly, _) if !congruent => return Err(Reason::Incongruent),
        (Backend::CollapseOnly, _) if text != window => return Err(shared),
        (Backend::CollapseOnly, Some(cause)) => return Err(Reason::Uncollapsible(cause)),
        (Backend::CollapseOnly, None) => Method::Collapse,
    };
    let pad = |span: Span| match span.is_empty() {
        true => Ok(None),
        false => pad_kind(vmas, file, span)
            .map(Some)
            .ok_or_else(|| shared.clone()),
    };
    let head = pad(Span::new(window.start, text.start))?;
    let tail = pad(Span::new(text.end, window.end))?;
    if text.len() < window.len() / LEAST_PART {
        return Err(Reason::Small);
    }
    Ok(Run {
        windows: window,
        text,
        offset: vma.offset + (text.start - vma.addresses.start),
        file,
        perms: vma.perms,
        bti: vma.bti,
        method,
        head,
        tail,
    })
}

/// What `span` is, if it may become part of a promoted window.
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
    /// Bytes of text that are to change.
    pub fn promoted(&self) -> u64 {
        self.runs.iter().map(|run| run.text.len()).sum()
    }

    fn take(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if last.joins(&run) => {
                last.windows.end = run.windows.end;
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
    /// Bytes from the start of the first window to the text.
    pub fn pad_before(&self) -> u64 {
        self.text.start - self.windows.start
    }

    /// Whether `next` continues this run.
    fn joins(&self, next: &Run) -> bool {
        self.text.end == next.text.start
            && self.file == next.file
            && self.method == next.method
            && (self.perms, self.bti) == (next.perms, next.bti)
            && self.offset + self.text.len() == next.offset
    }
}

#[cfg(test)]
#[path = "promote_tests.rs"]
mod tests;
