//! The running machine: mappings, page map, page cache, THP settings, filesystems.
//!
//! Every system call and all unsafe code of the project are in this crate. It knows nothing of ELF:
//! callers pass file ranges and addresses.

mod cache;
mod cgroup;
mod child;
mod copy;
mod deadline;
mod exec;
mod extents;
mod filesystem;
mod forward;
mod guard;
mod instance;
mod kernel_config;
mod launch;
mod lock;
pub mod lossy;
mod machine;
mod mapping;
mod namespace;
mod output;
mod pagemap;
mod process;
mod promote;
mod region;
mod rights;
mod starts;
mod store;
mod stubs;
mod temporary;
mod trace;
mod watch;
mod watcher;

pub use cache::{CacheState, FileWindows, WindowState};
pub use cgroup::memory_limit;
pub use child::{ChildError, die_with_parent, in_child};
pub use copy::Copier;
pub use deadline::Deadline;
pub use exec::{exec, ignore_file_size_signal, may_execute};
pub use extents::SharedExtents;
pub use filesystem::{MountedOn, Mounts, Overlay, free_bytes, open_regular, open_without_waiting};
pub use guard::Guard;
pub use instance::Instance;
pub use launch::{Usage, processor_time, run_measured};
pub use lock::lock;
pub use machine::{Machine, Paging, ThpMode, glibc_version};
pub use mapping::FileMapping;
pub use namespace::{
    FileState, Mountable, Namespace, NamespaceError, is_root, mount_huge_tmpfs, protect, uncover,
};
pub use output::{ReplaceError, Replacement, is_unchanged, replace_with, unnamed_file};
pub use pagemap::{FolioBytes, PageMapError, folio_bytes, folio_sizes, huge_spans, present_bytes};
pub use process::{
    Holder, ProcessError, TextMapping, executable_files, file_mappings, holders, is_thp_disabled,
    pids, process_name, text_mappings,
};
pub use promote::{
    Copies, CopyError, HugeCopy, Mappings, Outcome, Pause, Refusal, SwapError, Target, promote,
    revert,
};
pub use region::{Advice, Region, advise_process, while_busy};
pub use rights::{Written, anonymous_folios};
pub use starts::{Start, Starts};
pub use store::{
    Collected, DEFAULT_LIMIT, Entry, EntryInfo, Flaw, Identity, Original, Store, StoreError,
    WriteError, may_stand_in,
};
pub use stubs::{StubFile, Stubs, detached_huge_tmpfs};
pub use watch::{Interest, Moment, Watched, Way, watch};
pub use watcher::{Change, Watcher};
