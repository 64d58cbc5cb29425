//! The running machine: mappings, page map, page cache, THP settings, filesystems.
//!
//! Every system call and all unsafe code of the project live here. The crate knows no ELF: it is
//! told file ranges and addresses.

mod cache;
mod child;
mod filesystem;
mod launch;
mod machine;
mod mapping;
mod output;
mod pagemap;
mod process;
mod region;

pub use cache::{CacheState, FileWindows, WindowState};
pub use child::die_with_parent;
pub use filesystem::{MountedOn, Mounts, open_regular};
pub use launch::{Usage, run_measured};
pub use machine::{Machine, ThpMode, glibc_version};
pub use mapping::FileMapping;
pub use output::{ReplaceError, Replacement};
pub use pagemap::{FolioBytes, PageMapError, folio_bytes, huge_spans};
pub use process::{
    Holder, ProcessError, TextMapping, holders, is_thp_disabled, pids, text_mappings,
};
pub use region::{Advice, Region, advise_process};
