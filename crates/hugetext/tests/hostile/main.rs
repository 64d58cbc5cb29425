//! Bad days of a shared machine: what a plain user, an accident or a kill does to `run` and its store. Each test
//! prints how often it was tried. `make test-hostile` runs them with those of the crates below.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed helper fails the test"
)]

mod go;
mod ground;
mod mounts;
mod names;
mod odd;
#[path = "../session/mod.rs"]
mod session;
mod stores;
