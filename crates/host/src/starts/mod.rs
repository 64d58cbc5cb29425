//! Starts: who executes what, on the whole machine or below one command, and the text that processes
//! map.

mod connector;
mod machine;
mod moment;
mod opened;
mod sideband;
#[cfg_attr(
    not(any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    path = "no_text_maps.rs"
)]
mod text_maps;
mod trace;
mod watch;

pub use machine::{Start, Starts};
pub use moment::{Interest, Moment};
pub use sideband::{MappedFile, Sideband};
pub use text_maps::TextMaps;
pub use watch::{Watched, Way, watch};
