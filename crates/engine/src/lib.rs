//! What every command of hugetext does with a program, as a library: open it, assess it, choose
//! what brings its text onto huge leaves, carry that out, and say what was done and why not.
//!
//! The engine prints nothing and reads no command line. Its results are values. Its errors name the
//! file or process and the problem; the remedy is for the caller to name, who knows the options of
//! its user.
//!
//! Data moves forward. [`HostContext`] is read once. [`ProgramOnHost`] is a program with everything
//! that is known of it on this machine; it is made once and passed on:
//!
//! ```no_run
//! use hugetext_engine::{HostContext, ProgramOnHost, WarmPolicy, warm};
//!
//! # fn main() -> Result<(), hugetext_engine::Error> {
//! let host = HostContext::with_huge_pages()?;
//! let program = ProgramOnHost::open("/usr/bin/python3".as_ref(), &host)?;
//! let outcome = warm(&program, WarmPolicy::InPlace)?;
//! println!("{} of {} windows are huge", outcome.huge, outcome.windows);
//! # Ok(())
//! # }
//! ```

mod as_found;
mod assess;
mod cached_text;
mod cold_start;
mod error;
mod fix;
mod folios;
mod hold;
mod host_context;
pub mod keep;
mod libraries;
mod machine;
mod method;
mod on_host;
mod packages;
mod page_cache;
mod place;
mod placed_text;
pub mod prepare;
mod problem;
mod process_text;
mod program;
mod remedy;
mod replace;
pub mod running;
mod self_warming;
mod text_nodes;
mod tree;
mod user;
mod voucher;
mod warm;

pub use as_found::{AsFound, FolioShare, TextAsFound};
pub use assess::{Assessment, LeafReach, Look, StrategyReach, WindowCounts};
pub use error::{Error, plain};
pub use fix::{
    FixDecision, FixDestination, FixNote, FixPlan, FixRequest, FixTarget, PlannedFix, Privileges,
    StrategyChoice, WrittenFix, compare_files, plan_fix, rewrite_into, write_fix,
};
pub use folios::{CachedIn, TextFolios};
pub use hold::HeldText;
pub use host_context::HostContext;
pub use hugetext_host::names::{escaped, escaped_lines, shown};
pub use libraries::{Libraries, TextIn, libraries_of, text_elsewhere};
pub use machine::{MachineVerdict, fastest, leaf_use_here};
pub use method::{FailedMethod, WarmMethod, WarmPolicy};
pub use on_host::ProgramOnHost;
pub use page_cache::{CachedRange, PageCache};
pub use place::{NodeChoice, cached_by_node, set_policy, warm_on};
pub use placed_text::{PlaceObstacle, PlacedText};
pub use problem::Problem;
pub use process_text::{ProcessText, process_texts};
pub use program::{Program, ReadError, is_native};
pub use remedy::{Remedy, io_remedy, replace_remedy};
pub use self_warming::SelfWarming;
pub use text_nodes::{MappingNodes, NodeSource, RunsOn, TextNodes, WindowNodes, text_nodes};
pub use voucher::Voucher;
pub use warm::{WarmOutcome, warm, warm_ranges, warm_unused, warm_without_leaves};
