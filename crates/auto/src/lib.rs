//! The autopilot: sees which text this machine executes, decides what is worth memory, makes it huge and
//! holds it, gives it back under pressure, and says why.
//!
//! The decisions are pure functions of `hugetext_leaf::hold`; this crate feeds them and carries them out.

pub mod author;
pub mod calibrate;
pub mod catalog;
pub mod charge;
pub mod config;
pub mod daemon;
mod file_state;
pub mod fixed;
pub mod here;
pub mod holder;
pub mod memory;
pub mod open;
pub mod owners;
pub mod processor;
pub mod promoter;
pub mod reason;
pub mod runs;
pub mod rush;
pub mod sight;
pub mod state;
pub mod status;
pub mod text;
pub mod units;
pub mod watches;
