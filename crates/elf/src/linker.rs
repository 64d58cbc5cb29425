//! Finds the linker that made a file, if the file tells, and its options for aligned text.

use std::borrow::Cow;
use std::fmt;

use hugetext_leaf::Leaf;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::error::ImageError;
use crate::image::Image;
use crate::section::Section;
use crate::source::{ReadAt, read_range};

/// A linker that leaves a mark in its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linker {
    /// GNU ld: it leaves no mark, and is assumed if only compilers left theirs.
    Gnu,
    /// GNU gold: section .note.gnu.gold-version.
    Gold,
    /// lld, as it names itself in section .comment.
    Lld(String),
    /// mold, as it names itself in section .comment.
    Mold(String),
    /// wild, as it names itself in section .comment.
    Wild(String),
    /// Go's own linker: section .note.go.buildid and no mark of another linker.
    Go,
}

impl Linker {
    /// The linker that made `image`, read from `source`; `None` if the file does not tell (stripped
    /// of .comment, or without section headers).
    pub fn recognise(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
    ) -> Result<Option<Linker>, ImageError> {
        let names = image.sections.names()?;
        let (mut comment, mut gold, mut go) = (None, false, false);
        for (_, section) in image.sections.iter() {
            match names.of(section) {
                b".comment" => comment = Some(section),
                b".note.gnu.gold-version" => gold = true,
                b".note.go.buildid" => go = true,
                _ => {}
            }
        }
        let marks = match comment {
            Some(section) => content(source, image, section)?,
            None => Vec::new(),
        };
        let marks = || {
            marks
                .split(|byte| *byte == 0)
                .filter_map(|mark| std::str::from_utf8(mark).ok())
                .filter(|mark| !mark.is_empty())
        };
        let named = marks().find_map(Linker::from_mark);
        let unnamed = match (gold, go, marks().next()) {
            (true, _, _) => Some(Linker::Gold),
            (_, _, Some(_)) => Some(Linker::Gnu),
            (_, true, None) => Some(Linker::Go),
            _ => None,
        };
        Ok(named.or(unnamed))
    }

    fn from_mark(mark: &str) -> Option<Linker> {
        let name = mark.strip_prefix("Linker: ").unwrap_or(mark);
        match name {
            _ if name.starts_with("mold ") => Some(Linker::Mold(name.to_owned())),
            _ if name == mark => None,
            _ if name.contains("LLD") => Some(Linker::Lld(name.to_owned())),
            _ if name.contains("ild") => Some(Linker::Wild(name.to_owned())),
            _ => None,
        }
    }

    /// Options of the compiler driver that make this linker lay text out for `leaf`; `None` if it
    /// has none. lab/results/linkers.md has the measured layouts.
    pub fn options(&self, leaf: Leaf) -> Option<String> {
        match self {
            Linker::Go => None,
            _ => Some(format!("-Wl,-z,max-page-size={}", leaf.bytes())),
        }
    }
}

impl fmt::Display for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Linker::Gnu => f.write_str("GNU ld"),
            Linker::Gold => f.write_str("GNU gold"),
            Linker::Lld(name) | Linker::Mold(name) | Linker::Wild(name) => f.write_str(name),
            Linker::Go => f.write_str("Go's linker"),
        }
    }
}

impl JsonSchema for Linker {
    fn schema_name() -> Cow<'static, str> {
        "Linker".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = String::json_schema(generator);
        let meaning = "The linker that made the file, with its version if the file tells it.";
        schema.insert("description".to_owned(), meaning.into());
        schema
    }
}

impl Serialize for Linker {
    /// As its name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The first 64 KiB of a section; marks are shorter.
fn content(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    section: &Section,
) -> Result<Vec<u8>, ImageError> {
    let len = section.file_size().min(1 << 16);
    read_range(source, section.offset, len, image.file_len, "a section")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_name_their_linker() {
        let of = |mark| Linker::from_mark(mark).map(|linker| linker.to_string());
        assert_eq!(
            of("Linker: Debian LLD 14.0.6").as_deref(),
            Some("Debian LLD 14.0.6")
        );
        assert_eq!(
            of("mold 1.10.1 (compatible with GNU ld)").as_deref(),
            Some("mold 1.10.1 (compatible with GNU ld)")
        );
        assert_eq!(
            of("Linker: Wild version 0.6.0").as_deref(),
            Some("Wild version 0.6.0")
        );
        assert_eq!(of("GCC: (Debian 12.2.0-14) 12.2.0"), None);
    }
}
