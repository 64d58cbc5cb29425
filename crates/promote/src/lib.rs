//! Replacing the mappings of a running process.
//!
//! The door: [`Target::open`] says whether a process may be changed, [`Target::mappings`] what it
//! maps, `hugetext_leaf::promotion` plans, [`promote`] maps copies of text over the file, and
//! [`revert`] the file over the copies. [`Copies`] holds the copies that several processes share, and
//! [`give_back_unused`] ends those that no process maps. [`place_at_exec`] needs no running process: it moves the image of a
//! program before its first instruction.
//!
//! A copy of text in huge pages is made while the process runs. Then all its threads are stopped,
//! one of them maps the copy over the file by injected system calls, the new mappings are checked,
//! and all threads are released. Mapping back works in the same way, with the file in the place of
//! the copy.
//!
//! Invariants: the bytes at every address are the same before, during and after the change. One
//! call replaces each run, so a process that shares the memory and executes there without being
//! stopped notices nothing. A process carries in the names of its mappings all that mapping back
//! needs. Copies that processes share lie in a tmpfs; nothing else is kept outside the process.
//!
//! On an architecture other than x86-64 and arm64, [`Target::open`] returns
//! [`Refusal::Architecture`].

mod arch;
mod at_exec;
mod call;
mod content;
mod copies;
mod copy;
mod engine;
mod error;
mod event;
mod maps;
mod pass;
mod probes;
#[allow(unsafe_code)]
mod raw;
mod refusal;
mod room;
mod scratch;
mod skeleton;
mod steps;
mod stop;
mod swap;
mod target;
#[cfg_attr(
    not(target_arch = "aarch64"),
    allow(
        dead_code,
        reason = "other kernels keep the arguments of a call that has ended"
    )
)]
mod waiting;

pub use at_exec::{
    NotMoved, NotPlaced, PlacedText, Unmoved, Waiting, place_at_exec, rehearse_placing,
};
pub use copies::{Copies, give_back_until_unused, give_back_unused, make_place_of_copies};
pub use engine::{LeftText, SwapOutcome, promote, revert};
pub use error::SwapError;
pub use probes::{Probe, probes};
pub use refusal::Refusal;
pub use swap::Pause;
pub use target::{Mappings, Target};
