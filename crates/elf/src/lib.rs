//! ELF program images: read, decide, rewrite, prove.
//!
//! Works on bytes and offsets alone; it neither maps nor runs anything. Only headers are read
//! unless a rewrite asks for more.

mod dynamic;
mod image;
mod layout;
mod linker;
mod plan;
mod rewrite;
mod sections;
mod source;
mod verify;

pub use dynamic::Dependencies;
pub use image::{Image, ImageError, Machine, ProgramHeader, Table};
pub use layout::Move;
pub use linker::Linker;
pub use plan::{Cost, Options, Plan, Refusal, Strategy, Warning, plan, plan_auto};
pub use rewrite::{Operation, RewriteError, rewrite};
pub use source::ReadAt;
pub use verify::{Difference, PermissionChange, Verified, verify};
