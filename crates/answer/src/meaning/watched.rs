//! What the text that was seen to run means.

use std::path::Path;

use hugetext_leaf::verdict::Verdict;

use super::files::in_words;
use super::machine::in_long_runs;
use super::sentence::Meaning;
use crate::output::quoted;
use crate::path::shown;
use crate::table::{bytes, count};

/// What `learn` saw.
#[derive(Debug, Clone, Copy)]
pub struct LearnedText<'c> {
    /// The command and its arguments.
    pub argv: &'c [String],
    /// Executions of all programs.
    pub executions: u64,
    /// Files that gain.
    pub files: &'c [&'c Path],
    /// The most executions that one of these files had.
    pub gaining: u64,
    /// Bytes of text of these files that would be huge.
    pub huge: u64,
}

/// What `learn` saw, and how to run it so.
pub fn learned(seen: &LearnedText<'_>, verdict: Option<Verdict>) -> Meaning {
    let words: Vec<String> = seen.argv.iter().map(|word| quoted(word)).collect();
    if seen.files.is_empty() {
        let says = "Nothing that it runs has text for a huge page.";
        let name = words.first().map_or("", String::as_str);
        return Meaning::new(says, format!("hugetext check {name}"));
    }
    let says = format!(
        "{} with {} of text for huge pages: {} of {} map it, and would start faster.",
        in_words(seen.files.len()),
        bytes(seen.huge),
        seen.gaining.min(seen.executions),
        count(seen.executions, "execution"),
    );
    let also = seen
        .files
        .iter()
        .map(|path| format!(" --also {}", quoted(&shown(path))));
    let also: String = also.collect();
    let next = format!("hugetext run{also} -- {}", words.join(" "));
    Meaning::new(says, next).and(in_long_runs(verdict))
}

/// What the autopilot holds, or would hold.
#[derive(Debug, Clone, Copy)]
pub struct HeldFiles<'f> {
    /// Whether it only observes.
    pub only_observes: bool,
    /// Whether its daemon runs.
    pub runs: bool,
    /// Files that it holds, or would hold if it only observes.
    pub files: usize,
    /// Bytes of text of these.
    pub bytes: u64,
    /// What they save, in words.
    pub saves: &'f str,
    /// The time in which they save it, in words.
    pub within: &'f str,
    /// The file that is asked about next.
    pub first: Option<&'f Path>,
}

/// What the autopilot does for this machine.
pub fn held(held: &HeldFiles<'_>, verdict: Option<Verdict>) -> Meaning {
    let why = held
        .first
        .map(|path| format!("hugetext auto why {}", quoted(&shown(path))));
    let next = why.unwrap_or_else(|| "hugetext auto top --once".to_owned());
    let what = format!("{} ({})", in_words(held.files), bytes(held.bytes));
    let saves = format!("about {} of processor time in {}", held.saves, held.within);
    let says = match (held.runs, held.only_observes, held.files) {
        (false, _, _) => {
            format!("Its daemon does not run, so nothing is held; it held {what} last.")
        }
        (true, _, 0) => "It has seen no text that is worth holding yet.".to_owned(),
        (true, true, _) => format!("It only observes: it would hold {what}, and save {saves}."),
        (true, false, _) => format!("It holds {what}, which saves {saves}."),
    };
    Meaning::new(says, next).and(in_long_runs(verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_run_next() {
        let argv = ["make", "a b"].map(str::to_owned);
        let files = [Path::new("/usr/lib/cc1")];
        let seen = LearnedText {
            argv: &argv,
            executions: 40,
            files: &files,
            gaining: 30,
            huge: 26 << 20,
        };
        assert_eq!(
            learned(&seen, Some(Verdict::StartsOnly)).to_string(),
            "1 file with 26 MiB of text for huge pages: 30 of 40 executions map it, and would start faster. \
             No gain is expected in long runs on this host. Next: hugetext run --also /usr/lib/cc1 -- make 'a b'"
        );
        let none = LearnedText { files: &[], ..seen };
        assert!(
            learned(&none, None)
                .to_string()
                .ends_with("Next: hugetext check make")
        );
    }

    #[test]
    fn a_daemon_says_what_it_saves_or_would() {
        let some = HeldFiles {
            only_observes: true,
            runs: true,
            files: 2,
            bytes: 8 << 20,
            saves: "3.0 s",
            within: "24 h",
            first: Some(Path::new("/usr/bin/x")),
        };
        assert_eq!(
            held(&some, None).to_string(),
            "It only observes: it would hold 2 files (8 MiB), and save about 3.0 s of processor time in 24 h. \
             Next: hugetext auto why /usr/bin/x"
        );
        let acts = HeldFiles {
            only_observes: false,
            ..some
        };
        assert!(
            held(&acts, None)
                .says
                .starts_with("It holds 2 files (8 MiB), which saves about 3.0 s")
        );
        let ended = HeldFiles {
            runs: false,
            ..some
        };
        assert!(held(&ended, None).says.contains("does not run"));
        let none = HeldFiles {
            files: 0,
            first: None,
            ..some
        };
        assert!(
            held(&none, None)
                .to_string()
                .ends_with("Next: hugetext auto top --once")
        );
    }
}
