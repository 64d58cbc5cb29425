//! The running machine, in rooms. Each has one sentence at its head.
//!
//! Whatever asks the kernel for something that the standard library and rustix have no safe call for is
//! here, and so is all unsafe code of the command, with two exceptions: the tracer of
//! hugetext-promote, and the plugin that runs inside QEMU (lab/crates/tlb-plugin). Other crates make
//! system calls through rustix, nix and procfs where these are safe. This crate knows nothing of ELF:
//! callers pass file ranges and addresses.

mod arch;
mod files;
mod listed;
pub mod lossy;
mod machine;
mod memory;
pub mod names;
mod nanoseconds;
mod processes;
mod starts;
mod work;

pub use files::{
    Change, Copier, FileState, Guard, LastingMounts, Mountable, MountedOn, Mounts, MountsWatch,
    Namespace, NamespaceError, Overlay, OwnNote, Place, PublicTmpfs, ReplaceError, Replacement,
    SharedExtents, Watch, WatchAsker, Watcher, enable_verity, filesystem_of, free_bytes,
    has_writer, is_root, is_shared, lease, lock, magic_of, make_directories, measure_verity,
    memory_file, mount_huge_tmpfs, next_data, open_lock, open_regular, open_trusted,
    open_without_waiting, protect, read_regular, read_trusted, readahead_of, replace_with, share,
    uncover, unnamed_file,
};
pub use listed::{io_error, parse_mappings};
pub use machine::{
    GroupOwners, Machine, NodeInfo, Nodes, Paging, ThpMode, architecture, available_memory,
    bind_to_processors, boot_id, cgroups, container_id, current_node, glibc_version, is_emulated,
    is_frozen, is_memory_limited, memory_group, memory_limit, memory_limit_of, own_processors,
    platform, processor_quota, thp_mode,
};
pub use memory::{
    Advice, CacheState, FileMapping, FileWindows, FolioBytes, FolioCount, MemoryPolicy, MovedPages,
    NodeRun, PageMapError, Placement, PressureTrigger, Region, Sharers, StubFile, Stubs, Whose,
    WindowState, Written, advise_process, anonymous_folios, changed_pages, detached_huge_tmpfs,
    even_lines, folio_bytes, folio_count, folio_sizes, gathered_lines, huge_spans, move_to_node,
    node_runs, numa_maps, present_bytes, scattered_lines, while_busy,
};
pub use nanoseconds::{nanoseconds, whole_nanoseconds};
pub use processes::{
    BackgroundError, ChildError, Deadline, FaultCounts, FaultTrace, Holder, Instance, ListBudget,
    MappedText, MemoryKinds, NoPid, Pid, ProcessAsker, ProcessError, ProcessStatus, Ready, Running,
    RunningNodes, TextMapping, Tid, Urgent, Usage, Watchdog, adopts_children, before_others,
    cpu_time, deny_huge_mappings, die_with_parent, end_tracer, exec, executable_files, file_id,
    file_mappings, give_up_administration, group_of_process, holders, ignore_file_size_signal,
    in_background, in_child, is_filtered, is_thp_disabled, let_descendants_trace, limit_listing,
    listing_time, mapped_text, mapped_text_within, may_execute, may_tell_parts, orphans_are_reaped,
    perms, pids, pmd_mapped, proc_is_own, process_name, processor_time, recent_holders,
    run_measured, running_nodes, text_mappings, text_mappings_within, thread_name, threads,
    user_of_process,
};
pub use starts::{
    Interest, MappedFile, Moment, Sideband, Start, Starts, TextMaps, Watched, Way, watch,
};
pub use work::{Done, Worker};
