//! Instruction-TLB models, and the emulators that drive them from a real program.
//!
//! An [`Emulator`] runs the program and writes the pages that it executes, in order, to a pipe:
//! QEMU's user-mode emulation with a plugin (lab/crates/tlb-plugin), or Valgrind with a tool
//! (valgrind/pages.c). [`replay`] reads the pages and feeds them to the instruction TLBs of any
//! number of cores under any number of layouts at once. A page is identified by its file and
//! offset. A layout gives the address and leaf at which the page is mapped. A core gives the arrays
//! that hold its translation.

mod arch;
mod array;
mod cores;
mod emulator;
mod error;
mod model;
mod qemu;
mod reader;
mod replay;
mod space;
mod translation;
mod valgrind;
#[allow(dead_code, reason = "the plugin writes what is only read here")]
mod wire;

pub use array::Shape;
pub use cores::{CORTEX_A53, CORTEX_A72, Core, GOLDEN_COVE, NEOVERSE_V2, Source, ZEN4, ZEN5};
pub use emulator::{Emulator, EmulatorKind};
pub use error::EmulatorError;
pub use model::{Misses, Model};
pub use reader::StreamError;
pub use replay::{Count, Totals, replay};
pub use space::{Object, Placement, Space};
pub use translation::Translation;
