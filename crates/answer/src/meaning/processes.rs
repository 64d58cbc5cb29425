//! What the text of running processes means.

use hugetext_host::Pid;
use hugetext_leaf::Leaf;
use hugetext_leaf::verdict::Verdict;

use super::machine::while_it_runs;
use super::sentence::Meaning;
use crate::output::quoted;
use crate::table::{bytes, count, percent};

/// The text of some processes, in bytes.
#[derive(Debug, Clone, Default)]
pub struct ProcessesText {
    /// Their ids; the first has most text that is not on huge pages.
    pub pids: Vec<Pid>,
    /// In memory.
    pub resident: u64,
    /// By PMD leaves.
    pub huge: u64,
    /// What leaves could map where it lies; `None` if that was not looked at.
    pub reached: Option<u64>,
}

/// The most processes that a next command names.
const MOST: usize = 8;

/// What the text of processes means.
pub fn processes(text: &ProcessesText, leaf: Leaf, verdict: Option<Verdict>) -> Meaning {
    let whose = if text.pids.len() == 1 { "Its" } else { "Their" };
    let named = named(&text.pids);
    let Some(named) = named else {
        return Meaning::new("No process to look at.", "hugetext auto top --once");
    };
    let share = percent(text.huge, text.resident);
    let sizes = format!("{} of {}", bytes(text.huge), bytes(text.resident));
    if text.resident < leaf.bytes() {
        let says = format!("{whose} text is smaller than a huge page, so leaves cannot help.");
        return Meaning::new(says, "hugetext stat --all");
    }
    // Heads and tails of mappings stay small.
    if text.huge >= text.resident / 10 * 9
        || text
            .reached
            .is_some_and(|reached| reached > 0 && text.huge >= reached)
    {
        let says = format!("{whose} text is on huge pages: {sizes} ({share}).");
        return Meaning::new(says, format!("hugetext report -o text.html {named}"))
            .and(while_it_runs(verdict));
    }
    let says = format!("{whose} text could be on more huge pages: {sizes} ({share}) is.");
    let next = match (verdict, text.reached) {
        (_, None) => format!("hugetext check {}", checked(&text.pids)),
        (Some(Verdict::StartsOnly | Verdict::Harmful), _) => "hugetext host".to_owned(),
        _ => format!("hugetext promote --dry-run {named}"),
    };
    Meaning::new(says, next).and(while_it_runs(verdict))
}

/// What the text of all programs that run means. `most` is the program that has most text that is not on huge pages.
pub fn programs(text: u64, huge: u64, most: Option<&str>, verdict: Option<Verdict>) -> Meaning {
    let says = format!(
        "{} of {} of text on huge pages ({}).",
        bytes(huge),
        bytes(text),
        percent(huge, text)
    );
    let next = match most {
        Some(program) => format!("hugetext check {}", quoted(program)),
        None => "hugetext host".to_owned(),
    };
    Meaning::new(says, next).and(while_it_runs(verdict))
}

/// Why no process was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchanged {
    /// Their text cannot be collapsed, and nothing else was permitted.
    Uncollapsible,
    /// Leaves do harm on this machine, and nobody asked for them all the same.
    Harmful,
    /// They have no text to move, or they are not to be changed.
    Other,
}

/// What it means that none of these processes was changed.
pub fn unchanged(pids: &[Pid], why: Unchanged) -> Meaning {
    match (why, named(pids)) {
        (Unchanged::Uncollapsible, Some(named)) => Meaning::new(
            "Nothing was changed, because the kernel cannot collapse this text; a copy can take its place.",
            format!("hugetext promote --backend remap {named}"),
        ),
        (Unchanged::Harmful, _) => Meaning::new(
            "Nothing was changed, because programs of many system calls lose by leaves on this host.",
            "hugetext host",
        ),
        (Unchanged::Uncollapsible | Unchanged::Other, _) => {
            Meaning::new("Nothing was changed.", "hugetext auto top --once")
        }
    }
}

/// What a promotion means for the processes, of which at least one was or would be changed.
pub fn promoted(
    pids: &[Pid],
    changed: u64,
    dry_run: bool,
    revert: bool,
    verdict: Option<Verdict>,
) -> Meaning {
    let Some(named) = named(pids).filter(|_| changed > 0) else {
        return unchanged(pids, Unchanged::Other);
    };
    let (size, whose) = (bytes(changed), count(pids.len(), "process"));
    match (dry_run, revert) {
        (true, false) => {
            let says = format!("{size} of text of {whose} would move onto huge pages.");
            Meaning::new(says, format!("hugetext promote {named}")).and(while_it_runs(verdict))
        }
        (true, true) => {
            let says = format!("{size} of text of {whose} would be mapped from its files again.");
            Meaning::new(says, format!("hugetext promote --revert {named}"))
        }
        (false, true) => {
            let says = format!("{size} of text of {whose} is mapped from its files again.");
            Meaning::new(says, format!("hugetext stat {named}"))
        }
        (false, false) => {
            let says = format!("{size} of text of {whose} moved onto huge pages.");
            let next = match verdict {
                Some(Verdict::Harmful) => format!("hugetext promote --revert {named}"),
                _ => format!("hugetext stat {named}"),
            };
            Meaning::new(says, next).and(while_it_runs(verdict))
        }
    }
}

/// The ids as words; `None` if there are none.
fn named(pids: &[Pid]) -> Option<String> {
    let words: Vec<String> = pids.iter().take(MOST).map(Pid::to_string).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn checked(pids: &[Pid]) -> String {
    let words: Vec<String> = pids
        .iter()
        .take(MOST)
        .map(|pid| format!("--pid {pid}"))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn told(resident: u64, huge: u64, reached: Option<u64>, verdict: Option<Verdict>) -> String {
        let text = ProcessesText {
            pids: vec![Pid::from_raw(7).unwrap()],
            resident,
            huge,
            reached,
        };
        processes(&text, Leaf::M2, verdict).to_string()
    }

    #[test]
    fn small_huge_and_other_text_lead_elsewhere() {
        assert!(told(M, 0, None, None).starts_with("Its text is smaller than a huge page"));
        assert_eq!(
            told(100 * M, 96 * M, None, Some(Verdict::WorthIt)),
            "Its text is on huge pages: 96 MiB of 100 MiB (96%). On this host, text that runs gains by them. \
             Next: hugetext report -o text.html 7"
        );
        assert!(told(100 * M, 10 * M, None, None).ends_with("Next: hugetext check --pid 7"));
        assert!(
            told(100 * M, 10 * M, Some(90 * M), None)
                .ends_with("Next: hugetext promote --dry-run 7")
        );
        // What runs already does not gain on this host, so nobody is sent to promote it.
        assert_eq!(
            told(100 * M, 10 * M, Some(90 * M), Some(Verdict::StartsOnly)),
            "Its text could be on more huge pages: 10 MiB of 100 MiB (10%) is. \
             On this host only starts gain by them; what runs already does not. Next: hugetext host"
        );
    }

    #[test]
    fn what_was_not_changed_leads_on() {
        let pids = [Pid::from_raw(7).unwrap()];
        let told = |why| unchanged(&pids, why).to_string();
        assert!(
            told(Unchanged::Uncollapsible).ends_with("Next: hugetext promote --backend remap 7")
        );
        assert!(told(Unchanged::Harmful).ends_with("on this host. Next: hugetext host"));
        assert!(told(Unchanged::Other).starts_with("Nothing was changed. Next: "));
    }

    #[test]
    fn a_promotion_that_harms_leads_back() {
        let pids = [Pid::from_raw(7).unwrap()];
        let told = |verdict| promoted(&pids, 4 * M, false, false, verdict).to_string();
        assert!(told(None).ends_with("Next: hugetext stat 7"));
        assert!(told(Some(Verdict::Harmful)).ends_with("Next: hugetext promote --revert 7"));
    }
}
