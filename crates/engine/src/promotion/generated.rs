//! Text that a process generates while it runs: anonymous executable memory, as JIT compilers of V8, the
//! JVM, LuaJIT and PHP make it.

use std::io;

use hugetext_host::{Advice, Pid, advise_process, text_mappings, while_busy};
use hugetext_leaf::{Leaf, Span};
use hugetext_promote::{Refusal, SwapError, Target};
use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::PromotedProcess;
use super::process::COLLAPSE_ATTEMPTS;

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

/// Collapses every whole window of generated text (process_madvise(2) with MADV_COLLAPSE). No thread
/// is stopped: the kernel gathers the pages under the runtime's own locks of its mappings, so the
/// runtime may change rights and give back memory at the same time.
pub(super) fn collapse_generated(
    target: &Target,
    leaf: Leaf,
    dry_run: bool,
    process: &mut PromotedProcess,
) -> Result<(), SwapError> {
    for addresses in generated(target.pid())? {
        let whole = windows(addresses.0, leaf);
        let mut text = GeneratedText {
            addresses: addresses.0,
            windows: whole.len(),
            before: addresses.1,
            after: addresses.1,
            unbacked: 0,
            error: None,
        };
        if whole.is_empty() {
            continue;
        }
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
    for (addresses, huge) in generated(target.pid()).unwrap_or_default() {
        let same = |text: &&mut GeneratedText| text.addresses == addresses;
        if let Some(text) = process.generated.iter_mut().find(same) {
            text.after = huge;
        }
    }
    Ok(())
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
