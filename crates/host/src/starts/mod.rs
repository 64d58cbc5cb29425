//! Starts: who executes what, on the whole machine or below one command, and the text that processes
//! map.

mod connector;
mod machine;
mod opened;
mod sideband;
mod trace;
mod watch;

pub use machine::{Start, Starts};
pub use sideband::{MappedFile, Sideband, TextMaps};
pub use watch::{Interest, Moment, Watched, Way, watch};
