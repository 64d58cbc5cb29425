//! The steps of a promotion and of mapping back: which addresses map what before and after. Pure.

use hugetext_leaf::{CopyName, FileId, Original, Pad, Perms, ProcessVma, Run, Span};

use crate::content::{Content, Join, Step};
use crate::target::Mappings;

/// How much text is changed by one call, and in one stop, in bytes, so that no pause grows with the
/// program. For a MiB of base pages,
/// the kernel takes about 20 us to check that no page was changed, and 50 us to free their page
/// table. It is at least a window of any leaf that promotion knows.
pub(super) const AT_ONCE: u64 = 32 << 20;

/// Cuts addresses where stops may end; windows stay whole.
pub(super) fn parts(addresses: Span) -> impl Iterator<Item = Span> {
    let first = addresses.start - addresses.start % AT_ONCE;
    let starts = (first..addresses.end).step_by(AT_ONCE as usize);
    starts.map(move |start| Span::new(start, start + AT_ONCE).intersect(&addresses))
}

/// The same of all that a run maps. The rest of the text is changed with the last windows.
pub(super) fn parts_of(run: &Run) -> impl Iterator<Item = Span> {
    let (last, end) = (run.windows.end, run.mapped().end);
    parts(run.windows).map(move |part| {
        let end = if part.end == last { end } else { part.end };
        Span::new(part.start, end)
    })
}

/// The addresses at which a mapping of a copy from `offset` shows the program file, and the file offset
/// of the first.
pub(super) fn content_part(addresses: Span, offset: u64, name: &CopyName) -> (Span, u64) {
    let content = shown_part(addresses, offset, name.content());
    let in_copy = offset + (content.start - addresses.start);
    (content, in_copy.saturating_sub(name.shift()))
}

/// The addresses at which a mapping of a copy from `offset` shows text of the program file.
pub(super) fn text_part(addresses: Span, offset: u64, name: &CopyName) -> Span {
    shown_part(addresses, offset, name.text())
}

/// The addresses at which a mapping from `offset` shows `part` of the copy.
fn shown_part(addresses: Span, offset: u64, part: Span) -> Span {
    let shown = part.intersect(&Span::new(offset, offset + addresses.len()));
    if shown.is_empty() {
        return Span::new(addresses.start, addresses.start);
    }
    let start = addresses.start + (shown.start - offset);
    Span::new(start, start + shown.len())
}

/// The changes for one part of what a run maps, and the windows to join afterwards. The program is file 0 of the
/// steps and the copy is file 1.
pub(super) fn promotion_steps(
    mappings: &Mappings,
    run: &Run,
    part: Span,
    (copy, first_window): (FileId, u64),
) -> (Vec<Step>, Option<Join>) {
    let file = |file, id, offset, perms| Content::File {
        file,
        id,
        offset,
        perms,
        bti: run.bti && perms == run.perms,
    };
    let in_copy = |at: u64| file(1, copy, at - run.windows.start + first_window, run.perms);
    let pad = |span: Span, pad: Option<Pad>| {
        let hole = |vma: &ProcessVma| vma.offset + (span.start - vma.addresses.start);
        let before = match pad.filter(|_| !span.is_empty())? {
            Pad::Free => Content::Nothing,
            Pad::Hole => {
                let (vma, _) = mappings.at(span.start)?;
                file(0, run.file, hole(vma), Perms::default())
            }
        };
        Some(Step {
            addresses: span,
            before,
            after: in_copy(span.start),
        })
    };
    let shown = |span: Span, perms| {
        let addresses = span.intersect(&part);
        (!addresses.is_empty()).then(|| Step {
            addresses,
            before: file(0, run.file, run.offset_of(addresses.start), perms),
            after: in_copy(addresses.start),
        })
    };
    let content = run.shown().intersect(&part);
    let steps = [
        pad(Span::new(part.start, content.start), run.head),
        pad(Span::new(content.end, part.end), run.tail),
        shown(Span::new(run.content.start, run.text.start), READ_ONLY),
        shown(Span::new(run.text.end, run.content.end), READ_ONLY),
        shown(run.shown_text(), run.perms),
    ];
    let steps: Vec<Step> = steps.into_iter().flatten().collect();
    let join = (steps.len() > 1).then(|| Join {
        addresses: part,
        content: in_copy(part.start),
    });
    (steps, join)
}

/// The rights of read-only data.
const READ_ONLY: Perms = Perms {
    read: true,
    write: false,
    exec: false,
};

/// Maps the file again beside what `steps` map back, as it is mapped there: the kernel joins mappings of one
/// open file and the same rights, and the one beside is of another. Without this, three mappings would remain of
/// one.
pub(super) fn neighbours(mappings: &Mappings, steps: &[Step], file: FileId) -> Vec<Step> {
    let joins = |step: &Step, vma: &ProcessVma| {
        let (ours, theirs) = (step.addresses, vma.addresses);
        let touches = theirs.end == ours.start || theirs.start == ours.end;
        touches && matches!(step.after, Content::File { perms, .. } if perms == vma.perms)
    };
    let beside = |vma: &&ProcessVma| {
        vma.file == Some(file)
            && !vma.perms.write
            && vma.obstacle.is_none()
            && vma.changed.is_empty()
            && vma.addresses.len() <= AT_ONCE
            && steps.iter().any(|step| joins(step, vma))
    };
    let again = |vma: &ProcessVma| {
        let same = Content::File {
            file: 0,
            id: file,
            offset: vma.offset,
            perms: vma.perms,
            bti: vma.bti,
        };
        Step {
            addresses: vma.addresses,
            before: same,
            after: same,
        }
    };
    mappings.vmas.iter().filter(beside).map(again).collect()
}

pub(super) fn reversion_steps(addresses: Span, now: Content, name: &CopyName) -> Vec<Step> {
    let Content::File {
        id,
        offset,
        perms,
        bti,
        ..
    } = now
    else {
        return Vec::new();
    };
    let parts = name.originals(Span::new(offset, offset + addresses.len()));
    let step = |(span, original): (Span, Original)| {
        let start = addresses.start + (span.start - offset);
        let of_file = |offset, perms, bti| Content::File {
            file: 0,
            id: name.file,
            offset,
            perms,
            bti,
        };
        let after = match original {
            Original::Text(offset) => of_file(offset, perms, bti),
            Original::Data(offset) => of_file(offset, READ_ONLY, false),
            Original::Beside(Pad::Free) => Content::Nothing,
            // A reservation keeps other mappings away, as the loader's hole did.
            Original::Beside(Pad::Hole) => Content::Reserved,
        };
        Step {
            addresses: Span::new(start, start + span.len()),
            before: Content::File {
                file: 1,
                id,
                offset: span.start,
                perms,
                bti,
            },
            after,
        }
    };
    parts.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Leaf;

    use super::*;

    #[test]
    fn parts_cover_the_addresses_and_cut_no_window() {
        let mib = |start: u64, end: u64| Span::new(start << 20, end << 20);
        let of = |addresses| parts(addresses).collect::<Vec<Span>>();
        assert_eq!(of(mib(34, 36)), [mib(34, 36)]);
        assert_eq!(
            of(mib(30, 98)),
            [mib(30, 32), mib(32, 64), mib(64, 96), mib(96, 98)]
        );
        assert!(AT_ONCE.is_multiple_of(Leaf::M2.bytes()) && AT_ONCE >= Leaf::M32.bytes());
    }
}
