//! The three cases of the kernel thread on mprotect() and large folios (T1, T2, T3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hugetext_host::{Advice, Region};
use hugetext_lab_agent::Mprotect;
use hugetext_leaf::{Leaf, Perms};

use super::memory::{Geometry, Pages};

/// Bytes protected in each round.
const BYTES: usize = 64 << 20;
const ROUNDS: u32 = 5;

const READ: Perms = Perms {
    read: true,
    write: false,
    exec: false,
};
const READ_WRITE: Perms = Perms {
    read: true,
    write: true,
    exec: false,
};

pub(super) fn probe(geometry: &Geometry) -> io::Result<Mprotect> {
    Ok(Mprotect {
        bytes: BYTES as u64,
        rounds: ROUNDS,
        pte_mapped_ns: pte_mapped(geometry)?,
        folio_64k_ns: folios_of_64k(geometry)?,
        base_ns: base_pages(geometry)?,
    })
}

/// T1: huge folios whose PMD leaf was split by protecting a page of each.
fn pte_mapped(geometry: &Geometry) -> io::Result<u64> {
    let region = Region::anonymous(BYTES, geometry.pmd)?;
    region.advise(Advice::HugePage)?;
    let page = geometry.page.bytes() as usize;
    region.dirty(page);
    let huge = Pages::of("self", region.span(), geometry.page)?.in_blocks(geometry.pmd);
    if huge < BYTES as u64 {
        return Err(io::Error::other(format!(
            "only {huge} of {BYTES} bytes in huge folios"
        )));
    }
    for window in (0..BYTES).step_by(geometry.pmd.bytes() as usize) {
        region.protect(window, page, READ)?;
        region.protect(window, page, READ_WRITE)?;
    }
    rounds(&region)
}

/// T2: folios of 64 KiB, where the kernel can be told to make them (Linux 6.8).
fn folios_of_64k(geometry: &Geometry) -> io::Result<Option<u64>> {
    if geometry.page == Leaf::K64 {
        return Ok(None);
    }
    let sizes = Path::new("/sys/kernel/mm/transparent_hugepage");
    let of = |leaf: Leaf| sizes.join(format!("hugepages-{}kB/enabled", leaf.bytes() >> 10));
    let set = |path: PathBuf, word: &str| fs::write(path, word);
    if !of(Leaf::K64).exists() {
        return Ok(None);
    }
    set(of(Leaf::K64), "always")?;
    set(of(geometry.pmd), "never")?;
    let region = Region::anonymous(BYTES, geometry.pmd)?;
    region.dirty(geometry.page.bytes() as usize);
    set(of(Leaf::K64), "never")?;
    set(of(geometry.pmd), "inherit")?;
    let pages = Pages::of("self", region.span(), geometry.page)?;
    match pages.in_blocks(Leaf::K64) {
        bytes if bytes * 10 >= BYTES as u64 * 9 => rounds(&region).map(Some),
        _ => Ok(None),
    }
}

/// T3.
fn base_pages(geometry: &Geometry) -> io::Result<u64> {
    let region = Region::anonymous(BYTES, geometry.pmd)?;
    region.advise(Advice::NoHugePage)?;
    region.dirty(geometry.page.bytes() as usize);
    rounds(&region)
}

fn rounds(region: &Region) -> io::Result<u64> {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        region.protect(0, BYTES, READ)?;
        region.protect(0, BYTES, READ_WRITE)?;
    }
    Ok(start.elapsed().as_nanos() as u64)
}
