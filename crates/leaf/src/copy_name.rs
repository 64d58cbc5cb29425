//! The name of a promoted copy: it holds all facts that mapping the file back needs.

use std::fmt;
use std::str::FromStr;

use crate::promote::{FileId, Pad, Run};
use crate::segment::{LIMIT, Span};

/// The content of a promoted copy, as the name of its memfd records it:
/// `hugetext:DEV:INO:OFFSET+LENGTH@PADhHEADtTAIL:BASENAME`, numbers in hex. The kernel shows the
/// name in /proc/PID/maps, so the process itself carries the facts and no state is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyName {
    /// The file that was copied.
    pub file: FileId,
    /// File offset of the text.
    pub offset: u64,
    /// Bytes of text.
    pub len: u64,
    /// Offset of the text in the copy.
    pub pad: u64,
    /// What the addresses before the text held.
    pub head: Option<Pad>,
    /// What the addresses after the text held.
    pub tail: Option<Pad>,
    /// The file's name without directories, for display.
    pub basename: String,
}

/// The origin of a part of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// The file, from this offset.
    Text(u64),
    /// The former content of the addresses next to the text.
    Beside(Pad),
}

/// A memfd name is at most 249 bytes (mm/memfd.c, MFD_NAME_MAX_LEN).
const MAX_BASENAME: usize = 64;

impl CopyName {
    /// The name of a copy of `run`.
    pub fn of(run: &Run, basename: &str) -> CopyName {
        CopyName {
            file: run.file,
            offset: run.offset,
            len: run.text.len(),
            pad: run.pad_before(),
            head: run.head,
            tail: run.tail,
            basename: basename.chars().take(MAX_BASENAME).collect(),
        }
    }

    /// Reads the name from a path of /proc/PID/maps, `/memfd:NAME`, with or without ` (deleted)`.
    pub fn in_maps(path: &str) -> Option<CopyName> {
        let name = path.strip_prefix("/memfd:")?;
        name.strip_suffix(" (deleted)").unwrap_or(name).parse().ok()
    }

    /// The origins of `part` (offsets in the copy), one entry for each change of origin.
    pub fn originals(&self, part: Span) -> Vec<(Span, Original)> {
        let text = Span::new(self.pad, self.pad + self.len);
        let before = Span::new(part.start, part.end.min(text.start));
        let inside = part.intersect(&text);
        let behind = Span::new(part.start.max(text.end), part.end);
        let beside = |pad: Option<Pad>| Original::Beside(pad.unwrap_or(Pad::Hole));
        [
            (before, beside(self.head)),
            (
                inside,
                Original::Text(self.offset + inside.start.saturating_sub(text.start)),
            ),
            (behind, beside(self.tail)),
        ]
        .into_iter()
        .filter(|(span, _)| !span.is_empty())
        .collect()
    }
}

fn pad_letter(pad: Option<Pad>) -> char {
    match pad {
        None => '-',
        Some(Pad::Free) => 'f',
        Some(Pad::Hole) => 'h',
    }
}

fn pad_of(letter: &str) -> Option<Option<Pad>> {
    match letter {
        "-" => Some(None),
        "f" => Some(Some(Pad::Free)),
        "h" => Some(Some(Pad::Hole)),
        _ => None,
    }
}

impl fmt::Display for CopyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileId { dev, ino } = self.file;
        write!(
            f,
            "hugetext:{dev:x}:{ino:x}:{:x}+{:x}@{:x}:{}{}:{}",
            self.offset,
            self.len,
            self.pad,
            pad_letter(self.head),
            pad_letter(self.tail),
            self.basename
        )
    }
}

/// A text that is not the name of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a promoted copy")]
pub struct ParseCopyNameError;

impl FromStr for CopyName {
    type Err = ParseCopyNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        parse(name).ok_or(ParseCopyNameError)
    }
}

/// Any user may run the process that the name comes from, so every number is bounded.
fn parse(name: &str) -> Option<CopyName> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut fields = name.strip_prefix("hugetext:")?.splitn(5, ':');
    let file = FileId {
        dev: hex(fields.next()?)?,
        ino: hex(fields.next()?)?,
    };
    let (offset, rest) = fields.next()?.split_once('+')?;
    let (len, pad) = rest.split_once('@')?;
    let (head, tail) = fields.next()?.split_at_checked(1)?;
    let copy = CopyName {
        file,
        offset: hex(offset)?,
        len: hex(len)?,
        pad: hex(pad)?,
        head: pad_of(head)?,
        tail: pad_of(tail)?,
        basename: fields.next()?.to_owned(),
    };
    let bounded = [copy.offset, copy.len, copy.pad]
        .into_iter()
        .all(|number| number < LIMIT);
    bounded.then_some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> CopyName {
        CopyName {
            file: FileId {
                dev: 0xfe01,
                ino: 9,
            },
            offset: 0x1000,
            len: 0x30_0000,
            pad: 0x10_0000,
            head: Some(Pad::Free),
            tail: None,
            basename: "lib:odd+name.so".to_owned(),
        }
    }

    #[test]
    fn names_round_trip_through_maps() {
        let path = format!("/memfd:{} (deleted)", example());
        assert_eq!(CopyName::in_maps(&path), Some(example()));
        assert_eq!(CopyName::in_maps("/memfd:other (deleted)"), None);
        assert!(
            "hugetext:1:2:ffffffffffffffff+1@0:--:x"
                .parse::<CopyName>()
                .is_err()
        );
        assert!("hugetext:1:2:0+1@0:é:x".parse::<CopyName>().is_err());
    }

    #[test]
    fn a_copy_knows_what_each_part_stood_for() {
        let parts = example().originals(Span::new(0, 0x40_0000));
        assert_eq!(
            parts,
            [
                (Span::new(0, 0x10_0000), Original::Beside(Pad::Free)),
                (Span::new(0x10_0000, 0x40_0000), Original::Text(0x1000)),
            ]
        );
        let half = example().originals(Span::new(0x20_0000, 0x40_0000));
        assert_eq!(half[0].1, Original::Text(0x10_1000));
    }
}
