//! `hugetext fix` on real files: programs linked here by every available linker, and the programs
//! of the machine.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cross;
mod filesystems;
mod headers;
mod layouts;
mod link_time;
mod linkers;
mod machine;
mod real;
mod refuse;
mod replace;
mod sample;
mod self_hash;
mod self_readers;
mod self_warming;
mod self_warming_tools;
mod tools;
mod versions;
mod vouched;
