//! Mounts and files: on which filesystem a file is, how it is copied, replaced, shown in another's place,
//! locked, sealed and watched.

mod copy;
mod directories;
mod extents;
mod filesystem;
mod guard;
mod lasting;
mod lease;
mod lock;
mod namespace;
mod own_note;
mod place;
mod public_tmpfs;
mod readahead;
mod replace;
mod state;
mod temporary;
mod verity;
mod watcher;

pub use copy::{Copier, next_data};
pub use directories::make_directories;
pub use extents::SharedExtents;
pub use filesystem::{
    MountedOn, Mounts, MountsWatch, Overlay, filesystem_of, free_bytes, magic_of, open_regular,
    open_trusted, open_without_waiting, read_regular, read_trusted,
};
pub use guard::Guard;
pub use lasting::LastingMounts;
pub use lease::{has_writer, lease};
pub use lock::{is_shared, lock, open_lock, share};
pub use namespace::{
    Mountable, Namespace, NamespaceError, is_root, mount_huge_tmpfs, protect, uncover,
};
pub use own_note::OwnNote;
pub use place::Place;
pub use public_tmpfs::PublicTmpfs;
pub use readahead::readahead_of;
pub use replace::{ReplaceError, Replacement, memory_file, replace_with, unnamed_file};
pub use state::FileState;
pub use verity::{enable_verity, measure_verity};
pub use watcher::{Change, Watch, WatchAsker, Watcher};
