//! What one page-table leaf can map, and how much of a program's text it reaches.
//!
//! Everything here is a pure decision over plain values: no file is opened, no system call made.
//! The words are those of the field. A *leaf* is the memory that one page-table entry (or one
//! contpte block) maps. A *window* is a leaf-aligned, leaf-sized span of addresses. A text segment
//! *reaches* the windows that lie wholly inside its mapping.

mod ability;
mod arch;
mod bias;
mod cause;
mod class;
mod cold_start;
mod condition;
mod copy_name;
mod file_id;
mod filesystem;
mod folio;
mod geometry;
pub mod hold;
mod kernel;
mod reach;
mod remap;
mod remap_plan;
pub mod replica;
mod rule;
mod rules;
mod schema;
mod segment;
pub mod verdict;

pub use ability::{Ability, ability, ability_by, collapse, has_leaf_denial, large_folios};
pub use arch::{Architecture, architecture_of};
pub use bias::{Bias, Loader, ObjectKind};
pub use cause::Cause;
pub use class::Class;
pub use cold_start::{
    ASKER_RULES, Asker, AskerRule, ColdStart, EarlyBytes, EarlyRead, Start, WindowOutcome,
    WindowRun, cold_start,
};
pub use condition::{Condition, Conditions, Setting};
pub use copy_name::{CopyName, Original, ParseCopyNameError, TABLES as COPY_TABLES};
pub use file_id::FileId;
pub use filesystem::Filesystem;
pub use folio::least_folios;
pub use geometry::{Geometry, Leaf, LeafKind, ParseGeometryError};
pub use kernel::{Kernel, ParseVersionError, Version};
pub use reach::{Reach, TextReach, Vma, reach, vmas, windows_in_file};
pub use remap::{
    Backend, Completion, Left, Method, Obstacle, Pad, ProcessVma, PromotionPolicy, Reason, Run,
};
pub use remap_plan::{Promotion, promotion};
pub use rule::{Rule, Topic};
pub use rules::RULES;
pub use segment::{LIMIT, Perms, Segment, SegmentError, Span};
