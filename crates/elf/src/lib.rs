//! ELF program images: reads, plans, rewrites and verifies them.
//!
//! The crate works on bytes and offsets only; it neither maps nor runs anything. It reads headers
//! only, unless a rewrite needs more.

mod admit;
mod arch;
mod assemble;
mod core_dump;
mod cut;
mod cut_sections;
mod decide;
mod distance;
mod dynamic;
mod early;
mod encoding;
mod error;
mod group;
mod headers;
mod image;
mod integrity;
mod layout;
mod linker;
mod loaded_sections;
mod operation;
mod options;
mod plan;
mod preview;
mod purpose;
mod refusal;
mod repeats;
mod rewrite;
mod room;
mod section;
mod section_headers;
mod sections;
mod self_warming;
mod source;
mod symbols;
mod text_alone;
mod unnamed;
mod verify;
mod windows;

pub use admit::{plan, plan_auto};
pub use arch::Machine;
pub use core_dump::{CoreDump, CoreError};
pub use decide::layout;
pub use distance::is_clear_of;
pub use dynamic::Dependencies;
pub use encoding::{ByteOrder, Encoding, Overflow};
pub use error::ImageError;
pub use headers::{ProgramHeader, Table};
pub use image::Image;
pub use layout::Move;
pub use linker::Linker;
pub use operation::Operation;
pub use options::{MovedText, Options, Strategy};
pub use plan::{Cost, Plan, PlanError, SectionCut, Warning};
pub use refusal::Refusal;
pub use rewrite::rewrite;
pub use self_warming::self_warming;
pub use source::ReadAt;
pub use text_alone::text_alone;
pub use verify::{Difference, PermissionChange, Stretch, Verified, verify, verify_unshared};
