//! The autopilot: sees which text this machine executes, decides what is worth memory, makes it huge and
//! holds it, gives it back under pressure, and says why.
//!
//! The decisions are pure functions of `hugetext_leaf::hold`; this crate feeds them and carries them out.

pub mod author;
pub mod calibrate;
mod catalog;
mod charge;
pub mod config;
pub mod daemon;
mod file_state;
pub mod fixed;
mod here;
mod holder;
mod memory;
mod open;
mod owners;
pub mod processor;
mod reason;
mod running;
mod runs;
mod rush;
pub mod sight;
mod state;
pub mod status;
mod text;
mod units;
mod watches;
mod work_queue;

pub use state::PATH as STATE_PATH;
pub use text::look_at;
