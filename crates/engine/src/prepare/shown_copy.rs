//! A copy that is shown in the place of its original.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use hugetext_host::{FileState, Mountable};
use hugetext_leaf::FileId;
use hugetext_store::Entry;
use serde::{Deserialize, Serialize};

use super::step::PrepareStep;
use crate::error::Error;

/// A copy and the file that it replaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ShownCopy {
    /// The path of the file, without symbolic links.
    original: OsString,
    /// The state of the file when the copy was chosen or made.
    original_state: FileState,
    copy: OsString,
    copy_id: FileId,
}

impl ShownCopy {
    pub(super) fn of(step: &PrepareStep<'_>, entry: &Entry) -> ShownCopy {
        ShownCopy {
            original: step.path.clone().into(),
            original_state: step.state(),
            copy: entry.path.clone().into(),
            copy_id: entry.id,
        }
    }

    /// Mounts the copy over its original, if both are still the files that were checked.
    pub(super) fn show(&self) -> Result<(), Error> {
        let path = Path::new(&self.original);
        let failed = |source: io::Error| Error::Mount {
            path: path.to_owned(),
            source,
        };
        let original = Mountable::open(path).map_err(failed)?;
        let copy = Mountable::open(Path::new(&self.copy)).map_err(failed)?;
        if !original.is_still(self.original_state) || !copy.is(self.copy_id) {
            return Err(Error::ChangedMeanwhile {
                path: path.to_owned(),
            });
        }
        copy.mount_over(&original).map_err(failed)
    }
}
