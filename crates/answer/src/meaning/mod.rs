//! What a result means to its user, and what to type next. Every command ends with such a sentence; all of them are made
//! here, from plain numbers.

mod bench;
mod copies;
mod files;
mod machine;
mod processes;
mod sentence;
mod watched;

pub use bench::{bench, benches};
pub use copies::{copies, kept, removed, verified};
pub use files::{FixedFile, WarmedText, check, fixed, many, warmed};
pub use machine::{in_long_runs, of_this_host, verdict_of};
pub use processes::{ProcessesText, Unchanged, processes, programs, promoted, unchanged};
pub use sentence::Meaning;
pub use watched::{HeldFiles, LearnedText, held, learned};
