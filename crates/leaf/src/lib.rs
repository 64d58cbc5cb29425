//! What one page-table leaf can map, and how much of a program's text it reaches.
//!
//! Everything here is a pure decision over plain values: no file is opened, no system call made.
//! The words are those of the field. A *leaf* is the memory that one page-table entry (or one
//! contpte block) maps. A *window* is a leaf-aligned, leaf-sized span of addresses. A text segment
//! *reaches* the windows that lie wholly inside its mapping.

mod bias;
mod copy_name;
mod geometry;
mod kernel;
mod policy;
mod promote;
mod reach;
mod rules;
mod segment;

pub use bias::{Bias, Loader, ObjectKind};
pub use copy_name::{CopyName, Original, ParseCopyNameError};
pub use geometry::{Geometry, Leaf, LeafKind, ParseGeometryError};
pub use kernel::{Filesystem, Kernel, ParseVersionError, Rule, Topic, Version, first_rule, rule};
pub use policy::{ExecFault, ExecRead, load_leaf};
pub use promote::{
    Backend, FileId, Left, Method, Obstacle, Pad, ProcessVma, Promotion, Reason, Run,
    collapse_obstacle, promotion,
};
pub use reach::{Cause, Reach, TextReach, Vma, large_folio_obstacle, reach, vmas, windows_in_file};
pub use rules::RULES;
pub use segment::{LIMIT, Perms, Segment, SegmentError, Span};
