//! ELF program images: read, decide, rewrite, prove.
//!
//! Works on bytes and offsets alone; it neither maps nor runs anything. Only headers are read
//! unless a rewrite asks for more.

mod dynamic;
mod image;
mod source;

pub use dynamic::Dependencies;
pub use image::{Image, ImageError, Machine, ProgramHeader, Table};
pub use source::ReadAt;
