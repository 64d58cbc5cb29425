//! The running machine: mappings, page map, page cache, THP settings, filesystems.

mod region;

pub use region::{Advice, Region, advise_process};
