//! What to prepare, and where copies go.

use std::ffi::OsString;
use std::path::PathBuf;

use hugetext_leaf::replica::Replica;

/// The place for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyBackend {
    /// On disk if its filesystem can hold huge folios, otherwise in a tmpfs.
    Auto,
    /// On disk, with their text in the page cache.
    Cache,
    /// In a tmpfs of huge pages.
    Memory,
    /// No copies: files are only warmed in place.
    None,
}

/// The files to prepare, and the method.
#[derive(Debug, Clone)]
pub struct PrepareRequest {
    /// Further files: paths, globs, directories to search, or commands on PATH.
    pub also: Vec<OsString>,
    /// The place for copies.
    pub backend: CopyBackend,
    /// The directory for copies, if not the user's own.
    pub store: Option<PathBuf>,
    /// Allow read-only data to become executable, which joins it with text in larger windows.
    pub merge: bool,
    /// The copies that are wanted, whether or not huge pages need one.
    pub replica: Option<Replica>,
}
