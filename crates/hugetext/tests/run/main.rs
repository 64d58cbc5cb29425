//! `hugetext run` as a user runs it. The command behaves as without hugetext, with its text on
//! huge pages.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed helper fails the test"
)]

mod as_it_was;
mod containers;
mod debug_files;
mod fidelity;
mod images;
mod keep;
mod learn;
mod libraries;
mod limits;
mod moved;
mod profiles;
mod replicas;
#[path = "../session/mod.rs"]
mod session;
mod subject;
mod targets;
mod upkeep;
