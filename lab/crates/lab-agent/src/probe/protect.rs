//! The three cases of the kernel thread on mprotect() and large folios (T1, T2, T3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hugetext_host::Written;
use hugetext_lab_agent::Mprotect;
use hugetext_leaf::Leaf;

use super::memory::{Geometry, Pages, quiet_khugepaged};

/// Bytes protected in each round.
const BYTES: usize = 64 << 20;
const ROUNDS: u32 = 5;

pub(super) fn probe(geometry: &Geometry) -> io::Result<Mprotect> {
    quiet_khugepaged()?;
    let base = Written::in_base_pages(BYTES, geometry.page, geometry.pmd)?;
    Ok(Mprotect {
        bytes: BYTES as u64,
        rounds: ROUNDS,
        pte_mapped_ns: pte_mapped(geometry)?,
        folio_64k_ns: folios_of_64k(geometry)?,
        base_ns: nanoseconds(&base)?,
    })
}

/// T1: huge folios whose PMD leaf was split by protecting one page of each.
fn pte_mapped(geometry: &Geometry) -> io::Result<u64> {
    let memory = Written::in_huge_pages(BYTES, geometry.page, geometry.pmd)?;
    let huge = in_folios(&memory, geometry, geometry.pmd)?;
    if huge < BYTES as u64 {
        return Err(io::Error::other(format!(
            "only {huge} of {BYTES} bytes in huge folios"
        )));
    }
    memory.split_leaves()?;
    nanoseconds(&memory)
}

/// T2: folios of 64 KiB, if the kernel can be told to make them (Linux 6.8).
fn folios_of_64k(geometry: &Geometry) -> io::Result<Option<u64>> {
    let sizes = Path::new("/sys/kernel/mm/transparent_hugepage");
    let setting: PathBuf = sizes.join("hugepages-64kB/enabled");
    if geometry.page == Leaf::K64 || !setting.exists() {
        return Ok(None);
    }
    fs::write(&setting, "madvise")?;
    let memory = Written::in_folios(BYTES, Leaf::K64, geometry.page, geometry.pmd)?;
    fs::write(&setting, "never")?;
    match in_folios(&memory, geometry, Leaf::K64)? {
        bytes if bytes * 10 >= BYTES as u64 * 9 => nanoseconds(&memory).map(Some),
        _ => Ok(None),
    }
}

/// The bytes of it that must lie in folios of a size.
fn in_folios(memory: &Written, geometry: &Geometry, size: Leaf) -> io::Result<u64> {
    let pages = Pages::of("self", memory.region().span(), geometry.page)?;
    Ok(pages.in_blocks(size))
}

/// The minimum of three: other work in the guest only adds time.
fn nanoseconds(memory: &Written) -> io::Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..3 {
        least = least.min(memory.toggle(ROUNDS)?.as_nanos() as u64);
    }
    Ok(least)
}
