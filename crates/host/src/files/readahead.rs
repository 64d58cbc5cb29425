//! How far the kernel reads around a fault on a file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// Readahead of the device that a file lies on, bytes; `None` where the kernel does not tell, as for a filesystem of
/// several devices.
pub fn readahead_of(file: &File) -> Option<u64> {
    let device = file.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = format!("/sys/dev/block/{major}:{minor}");
    // A partition has the queue of its disk, which is the directory above.
    let places = [
        format!("{block}/queue/read_ahead_kb"),
        format!("{block}/../queue/read_ahead_kb"),
        format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
    ];
    let said = places
        .iter()
        .find_map(|place| fs::read_to_string(place).ok())?;
    said.trim().parse::<u64>().ok()?.checked_mul(1024)
}
