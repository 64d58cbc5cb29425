//! Which file reclaim takes first: one in huge folios or the same one in small folios.

use std::fs;
use std::io;
use std::path::Path;

use hugetext_host::Region;
use hugetext_lab_agent::Pressure;

use super::files;
use super::memory::{Geometry, own_huge_pages};
use super::methods::{SMALL, map, mapping, warm};

/// Windows of each file.
fn bytes(geometry: &Geometry) -> u64 {
    (32 << 20).max(2 * geometry.pmd.bytes())
}

pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Pressure> {
    let (huge, small) = (directory.join("huge"), directory.join("small"));
    let bytes = bytes(geometry);
    for file in [&huge, &small] {
        files::create(file, bytes, SMALL)?;
        files::drop_cache(file)?;
    }
    warm(&huge, geometry)?;
    map(&small, geometry)?;
    let before = own_huge_pages(map(&huge, geometry)?.addresses(), geometry)?.0;

    let splits = splits()?;
    let page = geometry.page.bytes() as usize;
    let (free, available) = (meminfo("MemFree")?, meminfo("MemAvailable")?);
    // More than the free memory, but no more than half of what reclaim can find.
    let hog = free + available.saturating_sub(free) / 2;
    let hog = Region::anonymous((hog as usize).next_multiple_of(page), geometry.page)?;
    hog.dirty(page);

    let resident = |file: &Path| -> io::Result<Vec<bool>> {
        let mapping = mapping(file, geometry)?;
        mapping.resident(mapping.range())
    };
    let held = |pages: &[bool]| pages.iter().filter(|held| **held).count() as u64 * page as u64;
    let (of_huge, of_small) = (resident(&huge)?, resident(&small)?);
    let window = geometry.pmd.bytes() as usize / page;
    let whole = of_huge
        .chunks_exact(window)
        .filter(|pages| pages.iter().all(|held| *held));
    Ok(Pressure {
        bytes,
        huge_before: before.pmd,
        huge_resident: held(&of_huge),
        huge_windows: whole.count() as u64 * geometry.pmd.bytes(),
        small_resident: held(&of_small),
        splits: self::splits()?.saturating_sub(splits),
    })
}

fn splits() -> io::Result<u64> {
    number("/proc/vmstat", "thp_split_page", 1)
}

fn meminfo(field: &str) -> io::Result<u64> {
    number("/proc/meminfo", &format!("{field}:"), 1 << 10)
}

/// The value after the first word `field` in a file of such lines, times `unit`.
fn number(path: &str, field: &str, unit: u64) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == field).then(|| words.next()?.parse::<u64>().ok())?
    });
    let value = value.ok_or_else(|| io::Error::other(format!("no {field} in {path}")))?;
    Ok(value * unit)
}
