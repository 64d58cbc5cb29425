//! Text that a process generates while it runs: anonymous executable memory, as JIT compilers of V8, the
//! JVM, LuaJIT and PHP make it.

use std::io;

use hugetext_host::{Advice, Pid, advise_process, text_mappings, while_busy};
use hugetext_leaf::{Leaf, Span};
use hugetext_promote::{Refusal, SwapError, Target};

use super::outcome::{GeneratedText, PromotedProcess};

/// How many times the collapse of one window is repeated that failed temporarily.
pub(super) const COLLAPSE_ATTEMPTS: u32 = 20;

/// Collapses every whole window of generated text (process_madvise(2) with MADV_COLLAPSE). No thread
/// is stopped: the kernel gathers the pages under the runtime's own locks of its mappings, so the
/// runtime may change rights and give back memory at the same time.
pub(super) fn collapse_generated(
    target: &Target,
    leaf: Leaf,
    dry_run: bool,
    process: &mut PromotedProcess,
) -> Result<(), SwapError> {
    let mut pieces = Pieces::default();
    for (addresses, huge) in generated(target.pid())? {
        let whole = windows(addresses, leaf);
        if whole.is_empty() {
            pieces.add(addresses);
            continue;
        }
        let mut text = GeneratedText {
            addresses,
            windows: whole.len(),
            before: huge,
            after: huge,
            unbacked: 0,
            error: None,
        };
        for start in (whole.start..whole.end).step_by(leaf.bytes() as usize) {
            if dry_run {
                break;
            }
            let window = Span::new(start, start + leaf.bytes());
            let advise = || advise_process(target.pidfd(), &[window], Advice::Collapse);
            match while_busy(COLLAPSE_ATTEMPTS, advise) {
                Ok(_) => {}
                // mm/khugepaged.c, madvise_collapse_errno(): no page table, or no page in it.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    text.unbacked += window.len();
                }
                Err(error) => text.error = Some(crate::error::plain(&error)),
            }
        }
        process.generated.push(text);
    }
    process.notes.extend(pieces.in_words(leaf));
    for (addresses, huge) in generated(target.pid()).unwrap_or_default() {
        let same = |text: &&mut GeneratedText| text.addresses == addresses;
        if let Some(text) = process.generated.iter_mut().find(same) {
            text.after = huge;
        }
    }
    Ok(())
}

/// Mappings of generated text that hold no whole window. V8 of Node 20 keeps its code in pieces of 256K, each with other
/// rights around it.
#[derive(Debug, Default)]
struct Pieces {
    count: usize,
    bytes: u64,
}

impl Pieces {
    fn add(&mut self, addresses: Span) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(addresses.len());
    }

    fn in_words(&self, leaf: Leaf) -> Option<String> {
        let (count, kib) = (self.count, self.bytes >> 10);
        (count > 0).then(|| {
            format!(
                "generated text in pieces of which none holds a whole window of {leaf}: {count}, {kib} KiB in all"
            )
        })
    }
}

/// The mappings of generated text, each with its bytes by PMD leaves.
fn generated(pid: Pid) -> Result<Vec<(Span, u64)>, SwapError> {
    let mappings = text_mappings(pid).map_err(Refusal::from)?;
    let anonymous = mappings.iter().filter(|text| text.file.is_none());
    Ok(anonymous
        .map(|text| (text.addresses, text.pmd_mapped))
        .collect())
}

fn windows(addresses: Span, leaf: Leaf) -> Span {
    let (start, end) = (
        leaf.align_up(addresses.start),
        leaf.align_down(addresses.end),
    );
    Span::new(start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_without_a_window_are_told() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.in_words(Leaf::M2), None);
        pieces.add(Span::new(0x3000, 0x3f000));
        pieces.add(Span::new(0x43000, 0x7f000));
        let words = pieces.in_words(Leaf::M2).unwrap();
        assert!(words.ends_with(": 2, 480 KiB in all"), "{words}");
    }

    #[test]
    fn windows_are_whole() {
        assert!(windows(Span::new(0x1000, 0x3f_f000), Leaf::M2).is_empty());
        let whole = windows(Span::new(0x20_0000, 0x60_1000), Leaf::M2);
        assert_eq!(whole, Span::new(0x20_0000, 0x60_0000));
    }
}
