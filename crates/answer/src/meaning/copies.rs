//! What is kept warm, and what the store of copies holds, means.

use super::files::in_words;
use super::sentence::Meaning;
use crate::output::quoted;
use crate::table::{bytes, count};

/// What applying the lists gave: files with text that can be huge, and how many of them are as they should be.
pub fn kept(files: usize, done: usize) -> Meaning {
    if files == 0 {
        return Meaning::new(
            "No listed file has text that can be huge.",
            "hugetext keep add PROGRAM",
        );
    }
    let (says, next) = if done < files {
        (
            format!("{done} of {} are as they should be.", in_words(files)),
            "hugetext keep ls",
        )
    } else {
        let are = if files == 1 { "is" } else { "are" };
        let says = format!(
            "{} {are} warm; the daemon of auto keeps them so.",
            in_words(files)
        );
        (says, "hugetext auto status")
    };
    Meaning::new(says, next)
}

/// The copies in a store, and the bytes that they take and may take.
pub fn copies(number: usize, taken: u64, limit: u64) -> Meaning {
    if number == 0 {
        return Meaning::new("The store holds no copy.", "hugetext check PROGRAM");
    }
    let says = format!(
        "{}: {} of the {} that copies may take.",
        count_of_copies(number),
        bytes(taken),
        bytes(limit)
    );
    Meaning::new(says, "hugetext store verify")
}

/// What is left after copies were removed.
pub fn removed(number: usize, left: u64) -> Meaning {
    let were = if number == 1 { "was" } else { "were" };
    let says = format!(
        "{} {were} removed; {} left.",
        count_of_copies(number),
        bytes(left)
    );
    Meaning::new(says, "hugetext store ls")
}

/// Copies that were compared with what was written, and the key of the first that differs.
pub fn verified(number: usize, bad: usize, first: Option<&str>) -> Meaning {
    let says = format!(
        "{} of {} sound.",
        number.saturating_sub(bad),
        count_of_copies(number)
    );
    match first {
        Some(key) => Meaning::new(
            format!("{says} The next run makes a new copy in the place of one that was removed."),
            format!("hugetext store rm {}", quoted(key)),
        ),
        None => Meaning::last(says),
    }
}

fn count_of_copies(number: usize) -> String {
    match number {
        1 => count(1, "copy"),
        number => format!("{number} copies"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_a_sentence() {
        let told = |meaning: Meaning| meaning.to_string();
        assert_eq!(
            told(kept(2, 2)),
            "2 files are warm; the daemon of auto keeps them so. Next: hugetext auto status"
        );
        assert!(told(kept(2, 1)).starts_with("1 of 2 files are as they should be."));
        assert!(told(kept(0, 0)).ends_with("Next: hugetext keep add PROGRAM"));
        assert_eq!(
            told(copies(1, 4 << 20, 8 << 30)),
            "1 copy: 4 MiB of the 8 GiB that copies may take. Next: hugetext store verify"
        );
        assert_eq!(
            told(removed(2, 0)),
            "2 copies were removed; 0 B left. Next: hugetext store ls"
        );
        assert_eq!(told(verified(3, 0, None)), "3 of 3 copies sound.");
        assert!(told(verified(3, 1, Some("abc"))).ends_with("Next: hugetext store rm abc"));
    }
}
