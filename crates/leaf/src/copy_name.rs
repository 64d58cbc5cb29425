//! The name of a promoted copy: it holds all facts that mapping the file back needs.

use std::fmt;
use std::str::FromStr;

use crate::file_id::FileId;
use crate::geometry::Leaf;
use crate::remap::{Pad, Run};
use crate::segment::{LIMIT, Span};

/// The content of a promoted copy, as its name records it:
/// `hugetext.DEV.INO.OFFSET.LENGTH.AT.SIDES`, numbers in hex. SIDES has a letter for each pad, then
/// `+BEFORE+BEHIND` if read-only data is among the content. The kernel shows the name in
/// /proc/PID/maps, so the process itself carries the facts and no state is kept elsewhere.
///
/// A copy is a directory of that name, with a number at its end, that holds one file with the
/// basename of the program; or a memory file with the basename at the end of its own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyName {
    /// The file that was copied.
    pub file: FileId,
    /// File offset of the content: the text, its rest behind the windows, and the read-only data beside it.
    pub offset: u64,
    /// Bytes of content.
    pub len: u64,
    /// Bytes of read-only data before the text, in the content.
    pub data_before: u64,
    /// Bytes of read-only data behind the text, in the content.
    pub data_behind: u64,
    /// Offset of the content in the copy. It equals `offset` if address and file offset are congruent
    /// modulo the leaf. Otherwise the copy is the whole file, shifted by the difference.
    pub at: u64,
    /// What the addresses before the content held.
    pub head: Option<Pad>,
    /// What the addresses after the content held.
    pub tail: Option<Pad>,
    /// The file's name without directories, for display.
    pub basename: String,
}

/// The origin of a part of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// Text of the file, from this offset.
    Text(u64),
    /// Read-only data of the file, from this offset.
    Data(u64),
    /// What the addresses next to the content held.
    Beside(Pad),
}

/// A memfd name is at most 249 bytes (mm/memfd.c, MFD_NAME_MAX_LEN).
const MAX_BASENAME: usize = 64;

/// Bytes at the start of a shifted copy that are kept free for an ELF header and its tables.
pub const TABLES: u64 = 64 << 10;

impl CopyName {
    /// The name of a copy of `run` for PMD leaves of `leaf`.
    pub fn of(run: &Run, leaf: Leaf, basename: &str) -> CopyName {
        let distance = leaf.offset_in(run.pad_before().wrapping_sub(run.offset));
        let mut shift = distance;
        if shift > 0 && shift < TABLES || run.offset + shift < run.pad_before() {
            shift += leaf.bytes();
        }
        CopyName {
            file: run.file,
            offset: run.offset,
            len: run.shown().len(),
            data_before: run.text.start - run.content.start,
            data_behind: run.content.end - run.text.end,
            at: run.offset + shift,
            head: run.head,
            tail: run.tail,
            basename: basename.chars().take(MAX_BASENAME).collect(),
        }
    }

    /// Reads the name from a path of /proc/PID/maps, with or without ` (deleted)`.
    pub fn in_maps(path: &str) -> Option<CopyName> {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if let Some(name) = path.strip_prefix("/memfd:") {
            return name.parse().ok();
        }
        let (above, basename) = path.rsplit_once('/')?;
        let (_, directory) = above.rsplit_once('/')?;
        let name: CopyName = directory.parse().ok()?;
        Some(CopyName {
            basename: basename.to_owned(),
            ..name
        })
    }

    /// By how many bytes the copy is shifted against the file.
    pub fn shift(&self) -> u64 {
        self.at.saturating_sub(self.offset)
    }

    /// The part of the copy that is in whole leaves. Where nothing completes the last window, the content ends
    /// with one, and what follows is the rest of the text ([`Run::rest`]).
    pub fn windows(&self, leaf: Leaf) -> Span {
        let end = self.at.saturating_add(self.len);
        let end = match self.tail {
            Some(_) => leaf.align_up(end),
            None => leaf.align_down(end),
        };
        Span::new(leaf.align_down(self.at), end)
    }

    /// The part of the copy that is mapped: the windows, and the rest of the text.
    pub fn mapped(&self, leaf: Leaf) -> Span {
        let windows = self.windows(leaf);
        Span::new(windows.start, windows.end.max(self.content().end))
    }

    /// The facts without the basename.
    pub fn facts(&self) -> String {
        let FileId { dev, ino } = self.file;
        let data = match (self.data_before, self.data_behind) {
            (0, 0) => String::new(),
            (before, behind) => format!("+{before:x}+{behind:x}"),
        };
        format!(
            "hugetext.{dev:x}.{ino:x}.{:x}.{:x}.{:x}.{}{}{data}",
            self.offset,
            self.len,
            self.at,
            pad_letter(self.head),
            pad_letter(self.tail),
        )
    }

    /// The part of the copy that shows the file.
    pub fn content(&self) -> Span {
        Span::new(self.at, self.at + self.len)
    }

    /// The part of the copy that shows text of the file.
    pub fn text(&self) -> Span {
        let content = self.content();
        Span::new(
            content.start + self.data_before,
            content.end - self.data_behind,
        )
    }

    /// The origins of `part` (offsets in the copy), one entry for each change of origin.
    pub fn originals(&self, part: Span) -> Vec<(Span, Original)> {
        let (content, text) = (self.content(), self.text());
        let offset = |at: u64| self.offset + (at - content.start);
        let beside = |pad: Option<Pad>| Original::Beside(pad.unwrap_or(Pad::Hole));
        let within = |start: u64, end: u64, of: &dyn Fn(u64) -> Original| {
            let span = part.intersect(&Span::new(start, end.max(start)));
            (!span.is_empty()).then(|| (span, of(span.start)))
        };
        [
            within(part.start, content.start, &|_| beside(self.head)),
            within(content.start, text.start, &|at| Original::Data(offset(at))),
            within(text.start, text.end, &|at| Original::Text(offset(at))),
            within(text.end, content.end, &|at| Original::Data(offset(at))),
            within(content.end, part.end, &|_| beside(self.tail)),
        ]
        .into_iter()
        .flatten()
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
        write!(f, "{}.{}", self.facts(), self.basename)
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
    let mut fields = name.strip_prefix("hugetext.")?.splitn(7, '.');
    let file = FileId {
        dev: hex(fields.next()?)?,
        ino: hex(fields.next()?)?,
    };
    let offset = hex(fields.next()?)?;
    let len = hex(fields.next()?)?;
    let at = hex(fields.next()?)?;
    let mut sides = fields.next()?.split('+');
    let (head, tail) = sides.next()?.split_at_checked(1)?;
    let (data_before, data_behind) = match (sides.next(), sides.next(), sides.next()) {
        (None, None, None) => (0, 0),
        (Some(before), Some(behind), None) => (hex(before)?, hex(behind)?),
        _ => return None,
    };
    let copy = CopyName {
        file,
        offset,
        len,
        data_before,
        data_behind,
        at,
        head: pad_of(head)?,
        tail: pad_of(tail)?,
        basename: fields.next()?.to_owned(),
    };
    let bounded = [copy.offset, copy.len, copy.at]
        .into_iter()
        .all(|number| number < LIMIT);
    let data = copy.data_before.checked_add(copy.data_behind)?;
    (bounded && copy.at >= copy.offset && data <= copy.len).then_some(copy)
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
            data_before: 0,
            data_behind: 0,
            at: 0x10_0000,
            head: Some(Pad::Free),
            tail: None,
            basename: "lib:odd+name.so".to_owned(),
        }
    }

    #[test]
    fn names_round_trip_through_maps() {
        let path = format!("/memfd:{} (deleted)", example());
        assert_eq!(CopyName::in_maps(&path), Some(example()));
        let path = format!("/run/{}.0/lib:odd+name.so", example().facts());
        assert_eq!(CopyName::in_maps(&path), Some(example()));
        assert_eq!(CopyName::in_maps("/memfd:other (deleted)"), None);
        assert_eq!(CopyName::in_maps("/usr/bin/hugetext"), None);
        for wrong in [
            "hugetext.1.2.ffffffffffffffff.1.0.--.x",
            "hugetext.1.2.1000.1.0.--.x",
            "hugetext.1.2.0.1.0.é.x",
        ] {
            assert!(wrong.parse::<CopyName>().is_err(), "{wrong}");
        }
    }

    /// A copy at the same offsets needs no changed header. Any other leaves room for one.
    #[test]
    fn a_copy_follows_the_file_as_far_as_huge_pages_permit() {
        let at = |windows: u64, pad: u64, offset: u64| {
            let run = Run {
                windows: Span::new(windows, windows + (4 << 20)),
                content: Span::new(windows + pad, windows + (4 << 20)),
                text: Span::new(windows + pad, windows + (4 << 20)),
                rest: Span::new(windows + (4 << 20), windows + (4 << 20) + 0x3000),
                offset,
                file: example().file,
                perms: crate::Perms::default(),
                bti: false,
                method: crate::Method::Remap,
                head: None,
                tail: None,
            };
            let name = CopyName::of(&run, Leaf::M2, "x");
            assert!(Leaf::M2.is_aligned(name.at.wrapping_sub(pad)), "{name}");
            assert!(name.at >= pad && name.shift() == name.at - offset);
            let windows = Span::new(name.at - pad, name.at - pad + (4 << 20));
            assert_eq!(name.windows(Leaf::M2), windows);
            assert_eq!(name.mapped(Leaf::M2).end, windows.end + 0x3000);
            name.shift()
        };
        assert_eq!(at(0x40_0000, 0, 0x20_0000), 0);
        assert_eq!(at(0x40_0000, 0x1000, 0x20_1000), 0);
        assert_eq!(at(0x40_0000, 0, 0x10_0000), 0x10_0000);
        assert_eq!(at(0x40_0000, 0x2000, 0x1000), 0x20_1000);
        assert_eq!(at(0x40_0000, 0x10_0000, 0), 0x10_0000);
        assert_eq!(at(0x40_0000, 0x10_0000, 0x8_0000), 0x8_0000);
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

    #[test]
    fn a_copy_knows_which_part_was_data() {
        let merged = CopyName {
            data_before: 0x4000,
            data_behind: 0x10_0000,
            ..example()
        };
        let path = format!("/memfd:{merged} (deleted)");
        assert_eq!(CopyName::in_maps(&path), Some(merged.clone()));
        assert_eq!(
            merged.originals(Span::new(0x10_0000, 0x40_0000)),
            [
                (Span::new(0x10_0000, 0x10_4000), Original::Data(0x1000)),
                (Span::new(0x10_4000, 0x30_0000), Original::Text(0x5000)),
                (Span::new(0x30_0000, 0x40_0000), Original::Data(0x20_1000)),
            ]
        );
        for wrong in ["--+1", "--+1+", "--+1+2+3", "--+200000+200000", "--+-1+1"] {
            let name = format!("hugetext.1.2.1000.300000.100000.{wrong}.x");
            assert!(name.parse::<CopyName>().is_err(), "{name}");
        }
    }
}
