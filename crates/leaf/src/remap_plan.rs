//! The plan of what a running process remaps: what becomes of each window of its text. Pure.

use serde::Serialize;

use crate::cause::Cause;
use crate::file_id::FileId;
use crate::geometry::Leaf;
use crate::remap::{
    Backend, Completion, Left, Method, Pad, ProcessVma, PromotionPolicy, Reason, Run,
};
use crate::segment::{Perms, Span};

/// The plan for the text of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Promotion {
    /// The runs to promote, by address.
    pub runs: Vec<Run>,
    /// The text to leave unchanged, by address.
    pub left: Vec<Left>,
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
        let starts = (policy.leaf.align_down(first)..end).step_by(policy.leaf.bytes() as usize);
        let decide = |start| {
            let window = Span::new(start, start + policy.leaf.bytes());
            (window, text.window_run(window, policy, obstacle))
        };
        let mut decided: Vec<_> = starts.map(decide).collect();
        text.copy_all_behind_a_copy(&mut decided, policy);
        for (window, run) in decided {
            match run {
                Ok(run) => promotion.take(run),
                Err(reason) => promotion.leave(window.intersect(&vma.addresses), file, reason),
            }
        }
        promotion.take_rest(vma, policy.leaf);
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
    /// What becomes of a window, by itself. `obstacle` tells why the kernel does not collapse text of the file.
    fn window_run(
        &self,
        window: Span,
        policy: PromotionPolicy,
        obstacle: Option<Cause>,
    ) -> Result<Run, Reason> {
        let vma = self.vma;
        let text = window.intersect(&vma.addresses);
        if vma.changed.iter().any(|changed| changed.overlaps(&window)) {
            return Err(Reason::Changed);
        }
        if vma
            .huge
            .iter()
            .any(|huge| huge.intersect(&window) == window)
        {
            return Err(Reason::Huge);
        }
        let congruent = policy
            .leaf
            .is_aligned(vma.addresses.start.wrapping_sub(vma.offset));
        let method = match (policy.backend, obstacle) {
            (Backend::Both, None) if congruent && text == window => Method::Collapse,
            (Backend::Both | Backend::RemapOnly, _) => Method::Remap,
            (Backend::CollapseOnly, _) if !congruent => return Err(Reason::Incongruent),
            (Backend::CollapseOnly, _) if text != window => return Err(self.shared(window)),
            (Backend::CollapseOnly, Some(cause)) => return Err(Reason::Uncollapsible(cause)),
            (Backend::CollapseOnly, None) => Method::Collapse,
        };
        self.run_of(window, method, policy)
    }

    /// Why a window that other memory shares is left. A mapping without room for a window is small at any address, as
    /// for any other command.
    fn shared(&self, window: Span) -> Reason {
        if self.vma.addresses.len() < window.len() {
            Reason::Small
        } else {
            Reason::Partial
        }
    }

    /// A run of one window without a changed page by this method.
    fn run_of(&self, window: Span, method: Method, policy: PromotionPolicy) -> Result<Run, Reason> {
        let vma = self.vma;
        let text = window.intersect(&vma.addresses);
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
                    .ok_or_else(|| self.shared(window))
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
            rest: Span::new(window.end, window.end),
            offset: self.offset_of(content.start),
            file: self.file,
            perms: vma.perms,
            bti: vma.bti,
            method,
            head,
            tail,
        })
    }

    /// Text of a mapping behind a copy comes from a copy too ([`Run::rest`] has the reason). So where windows stay, because
    /// they are or become huge without one, they are copied, or no window before them is: what costs less.
    fn copy_all_behind_a_copy(
        &self,
        decided: &mut [(Span, Result<Run, Reason>)],
        policy: PromotionPolicy,
    ) {
        let stays = |run: &Result<Run, Reason>| match run {
            Ok(run) => run.method == Method::Collapse,
            Err(reason) => *reason == Reason::Huge,
        };
        let is_copied =
            |run: &Result<Run, Reason>| run.as_ref().is_ok_and(|run| run.method == Method::Remap);
        let first = decided.iter().position(|(_, run)| is_copied(run));
        let last = decided.iter().rposition(|(_, run)| stays(run));
        let between = first
            .zip(last)
            .and_then(|(first, last)| decided.get_mut(first..=last));
        let Some(between) = between else { return };
        let copied = between.iter().filter(|(_, run)| is_copied(run)).count();
        let staying = between.iter().filter(|(_, run)| stays(run)).count();
        for (window, run) in between {
            if staying < copied && stays(run) {
                *run = self.run_of(*window, Method::Remap, policy);
            } else if staying >= copied && is_copied(run) {
                *run = Err(Reason::BeforeHuge);
            }
        }
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
                last.rest = run.rest;
                last.tail = run.tail;
            }
            _ => self.runs.push(run),
        }
    }

    /// Adds the text of `vma` behind the last copied window to the copy. The window may be of the mapping before, if
    /// that shows the file up to this one.
    fn take_rest(&mut self, vma: &ProcessVma, leaf: Leaf) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        let end = run.windows.end;
        let rest = Span::new(end, vma.addresses.end.max(end));
        let continues = vma.file == Some(run.file)
            && (vma.perms, vma.bti) == (run.perms, run.bti)
            && vma.addresses.start <= end
            && vma.offset.checked_add(end - vma.addresses.start) == Some(run.offset_of(end));
        let changed = vma.changed.iter().any(|changed| changed.overlaps(&rest));
        if run.method == Method::Remap
            && run.text.end == end
            && continues
            && !changed
            && rest.len() < leaf.bytes()
        {
            run.rest = rest;
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

#[cfg(test)]
#[path = "remap_plan_tests.rs"]
mod tests;
