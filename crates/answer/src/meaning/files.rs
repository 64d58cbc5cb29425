//! What a check, a fix or a warming of files means.

use std::path::Path;

use hugetext_engine::{Assessment, TextIn};
use hugetext_leaf::ObjectKind;
use hugetext_leaf::verdict::{LeafUse, Verdict};

use super::machine::in_long_runs;
use super::sentence::Meaning;
use crate::output::quoted;
use crate::path::shown;
use crate::table::{bytes, count, percent};

fn named(path: &Path) -> String {
    quoted(&shown(path))
}

/// One file that was checked.
pub fn check(file: &Assessment, elsewhere: Option<&TextIn>) -> Meaning {
    if let Some(library) = elsewhere {
        let says = format!(
            "Most of the text that it maps is in {}: {}.",
            shown(&library.path),
            bytes(library.text)
        );
        return Meaning::new(says, format!("hugetext check {}", named(&library.path)));
    }
    let name = named(&file.path);
    if file.text == 0 {
        return Meaning::last("It has no text, so there is nothing to do.");
    }
    let best = file.reached.max(file.after_fix).max(file.after_merge);
    if best == 0 && file.is_forbidden() {
        let says = "Leaves cannot map it from this filesystem; a copy in memory can be.";
        return Meaning::new(says, format!("hugetext run {name}"));
    }
    if best == 0 {
        let says = "It is too small for a leaf; larger folios make its starts 1 to 8 % faster where they help.";
        return Meaning::new(says, format!("hugetext warm {name}"));
    }
    if file.after_fix > file.reached {
        let share = percent(file.after_fix, file.text);
        let says =
            format!("A fix, or a copy that run makes, brings {share} of its text within reach.");
        let next = match file.kind {
            ObjectKind::SharedObject => format!("hugetext fix --dry-run {name}"),
            _ => format!("hugetext run {name}"),
        };
        return Meaning::new(says, next);
    }
    let cache = file.cache.as_ref();
    if cache.is_some_and(|cache| cache.huge > 0 && cache.huge == cache.total()) {
        return measure(
            "All that leaves can map of it is huge now.",
            &file.path,
            file.kind,
        );
    }
    let says = match cache.filter(|cache| cache.huge > 0) {
        Some(cache) => format!(
            "Its layout is right, but only {} of {} are in huge folios.",
            cache.huge,
            count(cache.total(), "window")
        ),
        None => "Its layout is right, but its text is not in huge folios.".to_owned(),
    };
    Meaning::new(says, format!("hugetext warm {name}"))
}

/// What was brought onto huge pages is measured next; a library is held, because it does not start.
fn measure(says: impl Into<String>, path: &Path, kind: ObjectKind) -> Meaning {
    let name = named(path);
    let next = match kind {
        ObjectKind::SharedObject => format!("hugetext keep add {name}"),
        _ => format!("hugetext bench exec -- {name} --version"),
    };
    Meaning::new(says, next)
}

/// Several files that were checked. `worst` is the one that gains most by a fix.
pub fn many(text: u64, reached: u64, after_fix: u64, worst: Option<&Path>) -> Meaning {
    let (now, after) = (percent(reached, text), percent(after_fix, text));
    match worst {
        Some(worst) => Meaning::new(
            format!("Leaves reach {now} of this text now, and {after} after a fix."),
            format!("hugetext check {}", named(worst)),
        ),
        None if reached > 0 => Meaning::new(
            format!("Leaves reach {now} of this text, and a fix adds nothing."),
            "hugetext host",
        ),
        None if text == 0 => Meaning::last("No program with text is there."),
        None => Meaning::new(
            "No text here is large enough for a leaf.",
            "hugetext auto top --once",
        ),
    }
}

/// A file that was warmed.
#[derive(Debug, Clone, Copy)]
pub struct WarmedText<'f> {
    /// Its path.
    pub path: &'f Path,
    /// Bytes of its windows.
    pub windows: u64,
    /// Bytes of these that are huge.
    pub huge: u64,
    /// Whether text without a window is in the largest folios.
    pub is_in_largest_folios: bool,
    /// Whether it was only looked at.
    pub only_looked: bool,
    /// How its windows are to be mapped here.
    pub leaves: LeafUse,
}

/// What warming means for those who run the files.
pub fn warmed(files: &[WarmedText<'_>], verdict: Option<Verdict>) -> Meaning {
    let (huge, windows) = files.iter().fold((0u64, 0u64), |(huge, windows), file| {
        (
            huge.saturating_add(file.huge),
            windows.saturating_add(file.windows),
        )
    });
    let Some(first) = files.first() else {
        return Meaning::new("Nothing was warmed.", "hugetext check --help");
    };
    let name = named(first.path);
    let is_library = first.path.to_string_lossy().contains(".so");
    match first.leaves {
        LeafUse::Tables if first.is_in_largest_folios => {
            let says = "Processes that start from now on map it in large folios without leaves: starts gain most of what leaves give, \
                        and programs of many system calls lose nothing.";
            return Meaning::new(says, format!("hugetext bench exec -- {name} --version"));
        }
        LeafUse::Leaves => {}
        LeafUse::Tables | LeafUse::AsItIs if first.huge == 0 => {
            let says = "It stays as it is, because programs of many system calls lose by leaves on this host; run gives a start \
                        the same folios without leaves.";
            let next = if is_library {
                "hugetext host".to_owned()
            } else {
                format!("hugetext run {name}")
            };
            return Meaning::new(says, next);
        }
        LeafUse::Tables | LeafUse::AsItIs => {}
    }
    if huge > 0 {
        let part = if huge < windows {
            format!(", of {} in windows", bytes(windows))
        } else {
            String::new()
        };
        let says = format!(
            "Processes that start from now on map {} of text by huge pages{part}, and start faster.",
            bytes(huge)
        );
        let next = format!("hugetext bench exec -- {name} --version");
        let next = if is_library {
            format!("hugetext keep add {name}")
        } else {
            next
        };
        return Meaning::new(says, next).and(in_long_runs(verdict));
    }
    if windows == 0 {
        return if first.is_in_largest_folios {
            // A check would lead back here.
            Meaning::last(
                "It is too small for a huge page; its text is in the largest folios that it fills, so its starts are a little \
                 faster.",
            )
        } else {
            let says = "It is too small for a huge page.";
            Meaning::new(says, format!("hugetext check {name}"))
        };
    }
    let (says, next) = if first.only_looked {
        (
            "Nothing of it is huge, so starts gain nothing.",
            format!("hugetext warm {name}"),
        )
    } else {
        (
            "Nothing of it became huge, so starts gain nothing; run uses a copy.",
            format!("hugetext run {name}"),
        )
    };
    Meaning::new(says, next)
}

/// What became of a file that was fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixedFile {
    /// It was not changed, for a reason.
    Refused,
    /// It needs no fix.
    Done,
    /// Only what would be done was shown.
    Planned,
    /// The new file stands.
    Written,
}

/// What a fix means. `path` is the new file, or the old one where there is none.
pub fn fixed(
    path: &Path,
    what: FixedFile,
    text: u64,
    after: u64,
    verdict: Option<Verdict>,
) -> Meaning {
    let name = named(path);
    let share = percent(after, text);
    match what {
        FixedFile::Refused => {
            Meaning::new("The file stays as it is.", format!("hugetext warm {name}"))
        }
        FixedFile::Done => Meaning::new(
            format!("Leaves reach {share} of its text without a fix; it has to be warm."),
            format!("hugetext warm {name}"),
        ),
        FixedFile::Planned => Meaning::new(
            format!("After the fix leaves would reach {share} of its text."),
            format!("hugetext fix --in-place {name}"),
        )
        .and(in_long_runs(verdict)),
        FixedFile::Written => Meaning::new(
            format!("Leaves reach {share} of its text, once it is warm."),
            format!("hugetext warm {name}"),
        )
        .and(in_long_runs(verdict)),
    }
}

/// Files in a sentence: the name of one, or their number.
pub(super) fn in_words(files: usize) -> String {
    count(files, "file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(windows: u64, huge: u64) -> WarmedText<'static> {
        WarmedText {
            path: Path::new("/usr/bin/a b"),
            windows,
            huge,
            is_in_largest_folios: false,
            only_looked: false,
            leaves: LeafUse::Leaves,
        }
    }

    #[test]
    fn where_leaves_do_harm_warm_leads_to_run() {
        let told = |leaves, largest| {
            let file = WarmedText {
                leaves,
                is_in_largest_folios: largest,
                ..text(4 << 20, 0)
            };
            warmed(&[file], Some(Verdict::Harmful)).to_string()
        };
        assert!(
            told(LeafUse::AsItIs, false)
                .ends_with("without leaves. Next: hugetext run '/usr/bin/a b'")
        );
        assert!(
            told(LeafUse::Tables, true)
                .starts_with("Processes that start from now on map it in large folios")
        );
    }

    #[test]
    fn warm_says_who_gains_and_on_which_host() {
        let told = |file, verdict| warmed(&[file], verdict).to_string();
        assert_eq!(
            told(text(4 << 20, 4 << 20), Some(Verdict::Harmful)),
            "Processes that start from now on map 4 MiB of text by huge pages, and start faster. \
             No gain is expected in long runs on this host, and programs of many system calls lose by leaves. \
             Next: hugetext bench exec -- '/usr/bin/a b' --version"
        );
        assert!(
            told(text(4 << 20, 2 << 20), None).contains("2 MiB of text by huge pages, of 4 MiB")
        );
        assert!(told(text(4 << 20, 0), None).ends_with("Next: hugetext run '/usr/bin/a b'"));
        assert!(told(text(0, 0), None).starts_with("It is too small"));
        // check leads to warm, so warm does not lead back.
        let largest = WarmedText {
            is_in_largest_folios: true,
            ..text(0, 0)
        };
        assert_eq!(warmed(&[largest], None).next, None);
        assert!(warmed(&[], None).next.is_some());
    }

    #[test]
    fn a_fix_leads_to_warm() {
        let path = Path::new("/lib/l.so");
        let told = |what| fixed(path, what, 100, 97, Some(Verdict::WorthIt)).to_string();
        assert_eq!(
            told(FixedFile::Planned),
            "After the fix leaves would reach 97% of its text. Long runs gain too on this host. \
             Next: hugetext fix --in-place /lib/l.so"
        );
        assert!(told(FixedFile::Written).ends_with("Next: hugetext warm /lib/l.so"));
    }

    #[test]
    fn many_files_lead_to_the_one_that_gains_most() {
        let worst = Path::new("/lib/l.so");
        let told = many(100, 10, 60, Some(worst)).to_string();
        assert_eq!(
            told,
            "Leaves reach 10% of this text now, and 60% after a fix. Next: hugetext check /lib/l.so"
        );
        assert!(many(100, 0, 0, None).says.starts_with("No text"));
        assert_eq!(many(0, 0, 0, None).next, None);
    }
}
