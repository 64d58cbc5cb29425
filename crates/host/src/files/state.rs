//! What tells whether a file has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use hugetext_leaf::FileId;
use serde::{Deserialize, Serialize};

/// The state of a file when it was looked at: which file it is, and the times when its inode and its
/// content last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileState {
    id: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    /// The state that `metadata` describes.
    pub fn of(metadata: &Metadata) -> FileState {
        FileState {
            id: FileId::of(metadata),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Whether it is the same file with the same content as `other`, as far as the time of writing
    /// tells. Its name, its links and its attributes may differ.
    pub fn has_content_of(&self, other: &FileState) -> bool {
        let content = |state: &FileState| (state.id, state.size, state.modified);
        content(self) == content(other)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_new_link_changes_the_state_and_not_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "content").unwrap();
        let state = || FileState::of(&path.metadata().unwrap());
        let before = state();
        fs::hard_link(&path, directory.path().join("link")).unwrap();
        assert!(state().has_content_of(&before));
        fs::write(&path, "longer content").unwrap();
        assert!(!state().has_content_of(&before));
        assert_eq!(state().id(), before.id());
    }
}
