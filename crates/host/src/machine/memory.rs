//! How much memory there is.

use std::fs;

/// Bytes of memory of this machine.
pub(super) fn total() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// MemTotal of a node's meminfo: `Node 0 MemTotal: 1000 kB`.
pub(super) fn of_node(meminfo: &str) -> u64 {
    let line = meminfo.lines().find(|line| line.contains(" MemTotal:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().rev().nth(1)?.parse().ok());
    kilobytes.unwrap_or(0u64).saturating_mul(1 << 10)
}

/// Bytes that are free in this machine now, page cache that could be dropped included.
pub fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes.saturating_mul(1 << 10))
}
