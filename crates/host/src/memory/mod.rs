//! Memory and the page cache: what maps a file, in which folios its pages are, by which leaves they are
//! mapped, and how a kernel is asked for larger ones.

mod cache;
mod mapping;
mod nodes;
mod pagemap;
mod pressure;
mod region;
mod rights;
mod stubs;

pub use cache::{CacheState, FileWindows, WindowState};
pub use mapping::FileMapping;
pub use nodes::{
    MemoryPolicy, MovedPages, NodeRun, Placement, Sharers, Whose, move_to_node, node_runs,
    numa_maps,
};
pub use pagemap::{
    FolioBytes, FolioCount, PageMapError, changed_pages, folio_bytes, folio_count, folio_sizes,
    huge_spans, present_bytes,
};
pub use pressure::PressureTrigger;
pub use region::{Advice, Region, advise_process, while_busy};
pub use rights::{Written, anonymous_folios};
pub use stubs::{
    StubFile, Stubs, detached_huge_tmpfs, even_lines, gathered_lines, scattered_lines,
};
