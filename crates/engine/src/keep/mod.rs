//! What stays warm: lists of programs, and keeping everything that they name warm or locked in
//! memory.

mod entry;
mod hold;
mod list;
mod places;
mod unit;
mod warm;

pub use entry::absolute_entry;
pub use hold::{HeldFiles, HoldReport};
pub use list::{KeepList, list_directories, own_list_directory, read_lists};
pub use places::WatchedPlaces;
pub use warm::{KeepOutcome, KeptFile, keep_warm};
