//! Reads /etc/ld.so.cache.

/// Why a file is not a cache that this project can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LdCacheError {
    /// The file has neither the magic of glibc ≥ 2.2 nor the older table in front of it.
    #[error("not a glibc-ld.so.cache1.1 file")]
    Magic,
    /// The table of libraries reaches beyond the end of the file.
    #[error("truncated")]
    Truncated,
}

/// A cache of library names and their paths (glibc sysdeps/generic/dl-cache.h, `struct
/// cache_file_new`). Every offset in it is checked at use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdCache {
    /// The file from the new-format header on. The offsets of strings count from there.
    bytes: Vec<u8>,
    /// Number of libraries.
    count: usize,
    /// The offset of the extensions that the header gives; 0 for none.
    extensions: usize,
}

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// `struct cache_file_new` up to its entries.
const HEADER_LEN: usize = 48;
/// `struct file_entry_new`.
const ENTRY_LEN: usize = 24;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// `struct cache_file` up to its entries, and `struct file_entry`.
const OLD_HEADER_LEN: usize = 16;
const OLD_ENTRY_LEN: usize = 12;

/// `cache_extension_magic` and `cache_extension_tag_glibc_hwcaps`.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
const TAG_GLIBC_HWCAPS: u32 = 1;
/// DL_CACHE_HWCAP_EXTENSION: the entry's hwcap is an index into the glibc-hwcaps names.
const HWCAP_EXTENSION: u64 = 1 << 62;

impl LdCache {
    /// Checks the header of the file's content.
    pub fn parse(mut bytes: Vec<u8>) -> Result<LdCache, LdCacheError> {
        if bytes.starts_with(OLD_MAGIC) {
            let start = old_table_len(&bytes).ok_or(LdCacheError::Truncated)?;
            if start > bytes.len() {
                return Err(LdCacheError::Truncated);
            }
            bytes.drain(..start);
        }
        if !bytes.starts_with(MAGIC) {
            return Err(LdCacheError::Magic);
        }
        let at = |offset| u32_at(&bytes, offset).ok_or(LdCacheError::Truncated);
        let count = at(MAGIC.len())?;
        let extensions = at(32)?;
        let end = count
            .checked_mul(ENTRY_LEN)
            .and_then(|len| len.checked_add(HEADER_LEN));
        if end.is_none_or(|end| end > bytes.len()) {
            return Err(LdCacheError::Truncated);
        }
        Ok(LdCache {
            bytes,
            count,
            extensions,
        })
    }

    /// The paths recorded for a library name: first those under the given glibc-hwcaps
    /// subdirectories, in their order, then the others. They include entries for other
    /// architectures; the files tell the architecture. Entries under the legacy hwcaps (dropped by
    /// glibc 2.37) are left out.
    pub fn lookup(&self, name: &[u8], hwcaps: &[&str]) -> Vec<&[u8]> {
        let mut found: Vec<(usize, &[u8])> = (0..self.count)
            .filter_map(|index| self.entry(index))
            .filter(|entry| self.string_is(entry.key, name))
            .filter_map(|entry| Some((self.rank(entry.hwcap, hwcaps)?, self.string(entry.value)?)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// The rank of an entry among those of its name, best first; `None` if this processor cannot
    /// use it.
    fn rank(&self, hwcap: u64, hwcaps: &[&str]) -> Option<usize> {
        if hwcap == 0 {
            return Some(hwcaps.len());
        }
        if hwcap & HWCAP_EXTENSION == 0 {
            return None;
        }
        let level = self.hwcap_name(usize::try_from(hwcap & 0xffff_ffff).ok()?)?;
        hwcaps.iter().position(|known| known.as_bytes() == level)
    }

    /// The glibc-hwcaps subdirectory with the given index (`struct cache_extension`).
    fn hwcap_name(&self, index: usize) -> Option<&[u8]> {
        let directory = Some(self.extensions).filter(|offset| *offset > 0)?;
        if self.u32(directory)? != EXTENSION_MAGIC {
            return None;
        }
        let sections = self.usize(directory.checked_add(4)?)?;
        // The length is bounded by the file, whatever the count is: a section beyond its end is
        // None.
        for section in 0..sections {
            let at = section
                .checked_mul(16)?
                .checked_add(directory)?
                .checked_add(8)?;
            if self.u32(at)? != TAG_GLIBC_HWCAPS {
                continue;
            }
            let (offset, len) = (
                self.usize(at.checked_add(8)?)?,
                self.usize(at.checked_add(12)?)?,
            );
            let within = index.checked_mul(4).filter(|within| *within < len)?;
            return self.string(self.u32(offset.checked_add(within)?)?);
        }
        None
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let at = index.checked_mul(ENTRY_LEN)?.checked_add(HEADER_LEN)?;
        let low = self.u32(at.checked_add(16)?)?;
        let high = self.u32(at.checked_add(20)?)?;
        Some(Entry {
            key: self.u32(at.checked_add(4)?)?,
            value: self.u32(at.checked_add(8)?)?,
            hwcap: u64::from(high) << 32 | u64::from(low),
        })
    }

    fn from(&self, offset: u32) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(offset).ok()?..)
    }

    /// Compares without a search for the string's end, since most entries differ early.
    fn string_is(&self, offset: u32, name: &[u8]) -> bool {
        self.from(offset)
            .and_then(|text| text.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        let text = self.from(offset)?;
        text.get(..text.iter().position(|byte| *byte == 0)?)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        let bytes = self.bytes.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn usize(&self, offset: usize) -> Option<usize> {
        usize::try_from(self.u32(offset)?).ok()
    }
}

struct Entry {
    key: u32,
    value: u32,
    hwcap: u64,
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<usize> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

/// The offset of the new format behind the old one (ldconfig --format=compat, the default before
/// glibc 2.32): after the old entries, aligned for a 64-bit value.
fn old_table_len(bytes: &[u8]) -> Option<usize> {
    u32_at(bytes, OLD_HEADER_LEN - 4)?
        .checked_mul(OLD_ENTRY_LEN)?
        .checked_add(OLD_HEADER_LEN)?
        .checked_next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A cache with these entries (name, path, hwcap index or none) and these hwcaps names.
    fn cache(entries: &[(&str, &str, Option<u64>)], hwcaps: &[&str]) -> Vec<u8> {
        let mut strings = Vec::new();
        let strings_at = HEADER_LEN + entries.len() * ENTRY_LEN;
        let mut intern = |text: &str| {
            let at = (strings_at + strings.len()) as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let mut table = Vec::new();
        for (name, path, hwcap) in entries {
            table.extend_from_slice(&0x303u32.to_ne_bytes());
            table.extend_from_slice(&intern(name).to_ne_bytes());
            table.extend_from_slice(&intern(path).to_ne_bytes());
            table.extend_from_slice(&0u32.to_ne_bytes());
            let hwcap = hwcap.map_or(0, |index| HWCAP_EXTENSION | index);
            table.extend_from_slice(&hwcap.to_ne_bytes());
        }
        let names: Vec<u32> = hwcaps.iter().map(|name| intern(name)).collect();
        let extensions = (strings_at + strings.len()) as u32;

        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(entries.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&(strings.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&extensions.to_ne_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend(table);
        bytes.extend(strings);
        let section = [EXTENSION_MAGIC, 1, TAG_GLIBC_HWCAPS, 0, extensions + 24];
        let section_len = [(names.len() * 4) as u32];
        for word in section.iter().chain(&section_len).chain(&names) {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn sample() -> Vec<u8> {
        let entries = [
            ("libz.so.1", "/lib/libz.so.1", None),
            (
                "libz.so.1",
                "/lib/glibc-hwcaps/x86-64-v3/libz.so.1",
                Some(0),
            ),
            (
                "libz.so.1",
                "/lib/glibc-hwcaps/x86-64-v2/libz.so.1",
                Some(1),
            ),
            ("libz.so.10", "/lib/libz.so.10", None),
        ];
        cache(&entries, &["x86-64-v3", "x86-64-v2"])
    }

    fn lookup(bytes: Vec<u8>, name: &str, hwcaps: &[&str]) -> Vec<String> {
        let cache = LdCache::parse(bytes).unwrap();
        let found = cache.lookup(name.as_bytes(), hwcaps);
        found
            .into_iter()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect()
    }

    #[test]
    fn the_best_level_of_the_processor_comes_first() {
        let plain = "/lib/libz.so.1";
        let v2 = "/lib/glibc-hwcaps/x86-64-v2/libz.so.1";
        let v3 = "/lib/glibc-hwcaps/x86-64-v3/libz.so.1";
        assert_eq!(lookup(sample(), "libz.so.1", &[]), [plain]);
        assert_eq!(lookup(sample(), "libz.so.1", &["x86-64-v2"]), [v2, plain]);
        let both = ["x86-64-v3", "x86-64-v2"];
        assert_eq!(lookup(sample(), "libz.so.1", &both), [v3, v2, plain]);
        assert!(lookup(sample(), "libz.so", &both).is_empty());
    }

    #[test]
    fn finds_the_new_table_behind_an_old_one() {
        let mut bytes = OLD_MAGIC.to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&3u32.to_ne_bytes());
        bytes.resize((OLD_HEADER_LEN + 3 * OLD_ENTRY_LEN).next_multiple_of(8), 0);
        bytes.extend(sample());
        assert_eq!(lookup(bytes, "libz.so.10", &[]), ["/lib/libz.so.10"]);
    }

    #[test]
    fn reads_the_cache_of_this_machine() {
        let Ok(bytes) = std::fs::read("/etc/ld.so.cache") else {
            eprintln!("skipped: no /etc/ld.so.cache");
            return;
        };
        let found = lookup(bytes, "libc.so.6", &[]);
        assert!(found.iter().any(|path| path.ends_with("/libc.so.6")));
    }

    proptest! {
        #[test]
        fn damage_is_survived(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
            let mut bytes = sample();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(cache) = LdCache::parse(bytes) {
                cache.lookup(b"libz.so.1", &["x86-64-v3", "x86-64-v2"]);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = LdCache::parse(bytes);
        }
    }
}
