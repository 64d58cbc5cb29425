//! A directory of copies of files. A copy is found by its original's identity and made from its
//! content.
//!
//! ```text
//! ROOT/lock            held (flock) by a process that adds or removes
//! ROOT/limit           bytes, as text; absent for the default
//! ROOT/entries/KEY     a copy, with mode (without write), group, ACL, label and times of its original
//! ROOT/entries/KEY.json  its origin and its seal
//! ROOT/index/IDENTITY  symbolic link to the key
//! ROOT/private/…       the same for originals that not every user can reach, for the owner alone
//! ```
//!
//! A key is a hash of the entry's own bytes, its rights and its recipe, so an entry cannot hold anything but
//! what its name says. Two originals share an entry if their copies do not differ in any of these.
//!
//! The identity of an original leads to a key. If the kernel vouches for the original, its identity is a state:
//! the kernel sets ctime, so a changed file cannot look unchanged once the tick of its last change is over. The
//! copy is made from the file in that state, and while nobody has it open for writing. Otherwise its identity is
//! its content with its owner, and the copy is made from bytes that were read once: they are copied
//! to a file that nobody else can open, and that file is hashed and rewritten.
//!
//! Entries belong to the store's owner and get their name when they are complete. The kernel releases the lock of
//! a process that ends. So a killed process leaves neither torn entries nor locks behind.
//!
//! The door is [`Store`]: [`Store::find`] looks for the copy of an [`Original`], [`Store::fill`] makes
//! it, and the rest lists, checks and clears. [`may_stand_in`] says whether a copy may be shown in
//! the place of a file at all. What a copy contains is up to the caller, who names it by a recipe.
//! System calls go through rustix and [`hugetext_host`]; this crate has no unsafe code.

mod error;
mod fill;
mod find;
mod identity;
mod seal;
mod shelf;
mod store;
mod trust;
mod upkeep;

pub use error::{StoreError, WriteError};
pub use identity::Identity;
pub use shelf::EntryInfo;
pub use store::{Entry, Original, Store};
pub use trust::may_stand_in;
pub use upkeep::{Collected, DEFAULT_LIMIT, Flaw};
