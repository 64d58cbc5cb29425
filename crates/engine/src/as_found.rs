//! In which folios text lies as found, before anything is done with it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use hugetext_host::{PageMapError, folio_sizes, pids, text_mappings};
use hugetext_leaf::{Leaf, Span};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cached_text::map_cached;
use crate::on_host::ProgramOnHost;

/// In which folios text lies. Bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextAsFound {
    /// Text that is in the page cache and was looked at.
    pub cached: u64,
    /// Text that is not.
    pub absent: u64,
    /// The cached text by the size of its folios, the smallest first.
    pub folios: Vec<FolioShare>,
}

/// Text in folios of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FolioShare {
    /// Bytes of a folio.
    pub folio: Leaf,
    /// Bytes of text in such folios.
    pub text: u64,
}

/// What is known of the folios of text.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AsFound {
    /// In which it lies.
    Folios(TextAsFound),
    /// The kernel shows them to root only (/proc/kpageflags).
    Hidden,
}

impl AsFound {
    /// The text of one program. Nothing is read into the page cache. An error if the program or /proc cannot be read.
    pub fn of(program: &ProgramOnHost<'_>) -> io::Result<AsFound> {
        AsFound::from_found(TextAsFound::of(program))
    }

    /// The text of the programs that run, as far as they have touched it: each part of a file once. On a machine of many
    /// processes, of those that are found within `longest`.
    pub fn of_running(longest: Duration) -> io::Result<AsFound> {
        // A user who may not see the folios learns it before anything is looked at.
        if File::open("/proc/kpageflags").is_err() {
            return Ok(AsFound::Hidden);
        }
        AsFound::from_found(TextAsFound::of_running(longest))
    }

    fn from_found(found: Result<TextAsFound, PageMapError>) -> io::Result<AsFound> {
        match found {
            Ok(found) => Ok(AsFound::Folios(found)),
            Err(PageMapError::Hidden) => Ok(AsFound::Hidden),
            Err(PageMapError::Io(error)) => Err(error),
        }
    }
}

impl fmt::Display for AsFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsFound::Folios(found) => found.fmt(f),
            AsFound::Hidden => f.write_str("in folios that only root can see (/proc/kpageflags)"),
        }
    }
}

impl TextAsFound {
    fn of(program: &ProgramOnHost<'_>) -> Result<TextAsFound, PageMapError> {
        let pagemap = File::open("/proc/self/pagemap")?;
        let mut by_size = BTreeMap::new();
        let mut all = 0_u64;
        for text in program.text_pages() {
            let mapping = map_cached(program, text)?;
            add(&mut by_size, &folio_sizes(&pagemap, mapping.addresses())?);
            all = all.saturating_add(text.len());
        }
        let found = TextAsFound::from_sizes(by_size);
        Ok(TextAsFound {
            absent: all.saturating_sub(found.cached),
            ..found
        })
    }

    fn of_running(longest: Duration) -> Result<TextAsFound, PageMapError> {
        let begun = Instant::now();
        let mut by_size = BTreeMap::new();
        let mut seen = HashSet::new();
        let listed = pids().map_err(io::Error::other)?;
        for pid in listed {
            if begun.elapsed() > longest {
                break;
            }
            // A process may end at any time, and a kernel thread has no text.
            let (Ok(text), Ok(pagemap)) = (
                text_mappings(pid),
                File::open(format!("/proc/{pid}/pagemap")),
            ) else {
                continue;
            };
            for mapping in text {
                let is_new = mapping
                    .file
                    .is_some_and(|file| seen.insert((file, mapping.offset)));
                if is_new && let Ok(sizes) = folio_sizes(&pagemap, mapping.addresses) {
                    add(&mut by_size, &sizes);
                }
            }
        }
        Ok(TextAsFound::from_sizes(by_size))
    }

    fn from_sizes(by_size: BTreeMap<u64, u64>) -> TextAsFound {
        let share = |(folio, text): (u64, u64)| {
            Some(FolioShare {
                folio: Leaf::from_bytes(folio)?,
                text,
            })
        };
        let folios: Vec<FolioShare> = by_size.into_iter().filter_map(share).collect();
        TextAsFound {
            cached: folios.iter().map(|share| share.text).sum(),
            absent: 0,
            folios,
        }
    }

    /// Bytes of cached text in folios of at least this size.
    pub fn at_least(&self, leaf: Leaf) -> u64 {
        let large = self.folios.iter().filter(|share| share.folio >= leaf);
        large.map(|share| share.text).sum()
    }
}

impl fmt::Display for TextAsFound {
    /// `74% in 4K folios, 26% in 16K`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cached == 0 {
            return f.write_str("none of it is in the page cache");
        }
        let percent = |text: u64| (text as f64 * 100.0 / self.cached as f64).round();
        let seen = self.folios.iter().filter(|share| percent(share.text) > 0.0);
        for (index, share) in seen.enumerate() {
            let (text, folio) = (percent(share.text), share.folio);
            match index {
                0 => write!(f, "{text}% in {folio} folios")?,
                _ => write!(f, ", {text}% in {folio}")?,
            }
        }
        Ok(())
    }
}

fn add(by_size: &mut BTreeMap<u64, u64>, pages: &[(Span, u64)]) {
    for (page, folio) in pages {
        let text: &mut u64 = by_size.entry(*folio).or_default();
        *text = text.saturating_add(page.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_said_from_the_smallest_folio() {
        let pages = |count: u64, folio: u64| {
            (0..count).map(move |page| (Span::new(page << 12, (page + 1) << 12), folio))
        };
        let mut by_size = BTreeMap::new();
        let all: Vec<(Span, u64)> = pages(96, 4096).chain(pages(32, 16_384)).collect();
        add(&mut by_size, &all);
        let found = TextAsFound::from_sizes(by_size);
        assert_eq!(found.to_string(), "75% in 4K folios, 25% in 16K");
        assert_eq!(
            (found.cached, found.at_least(Leaf::K16)),
            (128 << 12, 32 << 12)
        );
        let nothing = TextAsFound::default();
        assert_eq!(nothing.to_string(), "none of it is in the page cache");
    }
}
