//! Processes: what others map, children and their end, and becoming another program.

mod ask;
mod background;
mod budget;
mod capabilities;
mod child;
mod cpu_time;
mod deadline;
mod error;
mod exec;
#[cfg_attr(
    not(any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    path = "no_fault_trace.rs"
)]
mod fault_trace;
mod faults;
mod forward;
mod holders;
mod id;
mod instance;
mod launch;
mod owner;
mod parts;
mod process;
mod runners;
mod running;
mod status;
mod urgent;
mod watchdog;

pub use ask::{ProcessAsker, limit_listing, listing_time};
pub use background::{BackgroundError, Ready, in_background};
pub use budget::ListBudget;
pub use capabilities::give_up_administration;
pub use child::{ChildError, die_with_parent, in_child};
pub use cpu_time::cpu_time;
pub use deadline::Deadline;
pub use error::ProcessError;
pub use exec::{exec, ignore_file_size_signal, may_execute};
pub use fault_trace::FaultTrace;
pub use faults::{FaultCounts, MemoryKinds};
pub(crate) use forward::Forward;
pub use holders::{Holder, holders, recent_holders};
pub use id::{NoPid, Pid, Tid};
pub use instance::Instance;
pub use launch::{Usage, processor_time, run_measured};
pub use owner::{group_of_process, user_of_process};
pub use parts::{
    adopts_children, end_tracer, is_filtered, let_descendants_trace, may_tell_parts,
    orphans_are_reaped, proc_is_own,
};
pub(crate) use process::own_smaps;
pub use process::{
    MappedText, TextMapping, deny_huge_mappings, executable_files, file_id, file_mappings,
    is_thp_disabled, mapped_text, mapped_text_within, perms, pids, pmd_mapped, process_name,
    text_mappings, text_mappings_within, thread_name, threads,
};
pub use runners::{RunningNodes, running_nodes};
pub use running::Running;
pub use status::ProcessStatus;
pub use urgent::{Urgent, before_others};
pub use watchdog::Watchdog;
