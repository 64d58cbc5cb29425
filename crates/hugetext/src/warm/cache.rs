//! The state of a file's windows, and the methods (rungs) that change it.

use std::io;
use std::os::unix::fs::MetadataExt;

use hugetext_host::{CacheState, Copier, FileWindows, Guard, Replacement, WindowState};
use hugetext_leaf::{Leaf, Span};

use super::{Climb, Rung, Warmed};
use crate::failure::Failure;
use crate::program::Program;

/// The page cache of a file's windows.
pub(super) struct Cache {
    leaf: Leaf,
    runs: Vec<(Span, CacheState)>,
}

impl Cache {
    pub(super) fn look(program: &Program, ranges: &[Span], leaf: Leaf) -> Result<Cache, Failure> {
        let state = |range: &Span| {
            let state = FileWindows::new(&program.file, *range, leaf).state();
            state
                .map(|state| (*range, state))
                .map_err(|error| Failure::io(&program.path, &error))
        };
        Ok(Cache {
            leaf,
            runs: ranges.iter().map(state).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn total(&self) -> usize {
        self.runs.iter().map(|(_, state)| state.windows.len()).sum()
    }

    pub(super) fn huge(&self) -> usize {
        self.runs
            .iter()
            .map(|(_, state)| state.count(WindowState::Huge))
            .sum()
    }

    pub(super) fn is_warm(&self) -> bool {
        self.runs.iter().all(|(_, state)| state.is_warm())
    }

    /// Tries a rung again as long as each try makes more windows huge: concurrent readahead of
    /// another process can lose one at the first try. A file is replaced only once.
    pub(super) fn climb_on(
        &mut self,
        rung: Rung,
        climb: Climb,
        program: &Program,
        ranges: &[Span],
        warmed: &mut Warmed,
    ) -> Result<io::Result<()>, Failure> {
        loop {
            let outcome = self.climb(rung, climb, program);
            *self = match (rung, &outcome) {
                (Rung::Replace, Ok(())) => {
                    Cache::look(&Program::open(&program.path)?, ranges, self.leaf)?
                }
                _ => Cache::look(program, ranges, self.leaf)?,
            };
            if self.huge() <= warmed.huge {
                return Ok(outcome);
            }
            warmed.huge = self.huge();
            warmed.rung = Some(rung);
            if self.is_warm() || rung == Rung::Replace {
                return Ok(outcome);
            }
        }
    }

    fn climb(&self, rung: Rung, climb: Climb, program: &Program) -> io::Result<()> {
        if rung == Rung::Replace {
            return replace(program, self.leaf, climb.privileged);
        }
        for (range, state) in &self.runs {
            let windows = FileWindows::new(&program.file, *range, self.leaf);
            match rung {
                Rung::Collapse => windows.collapse(state)?,
                _ => windows.reread(state)?,
            }
        }
        Ok(())
    }
}

/// Writes the same bytes to a new inode, one window at a time, so that each write fills one folio.
/// The new inode is renamed over the old one, which running processes keep.
fn replace(program: &Program, leaf: Leaf, privileged: bool) -> io::Result<()> {
    if program.metadata.nlink() > 1 {
        return Err(io::Error::other(
            "it has other hard links, which would keep the old inode",
        ));
    }
    for guard in Guard::of(&program.file)? {
        match guard {
            Guard::Privileged if privileged => {}
            Guard::Privileged => {
                let problem = format!("it {guard}; use --privileged to replace it");
                return Err(io::Error::other(problem));
            }
            _ => return Err(io::Error::other(format!("it {guard}"))),
        }
    }
    let replacement = Replacement::new(&program.path).map_err(io::Error::other)?;
    let len = program.metadata.len();
    replacement.file().set_len(len)?;
    Copier::in_folios(&program.file, replacement.file(), leaf).copy(0..len, 0)?;
    replacement
        .copy_metadata(&program.file)
        .map_err(io::Error::other)?;
    let placed = replacement.commit_over(&program.metadata);
    placed.map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn program(directory: &tempfile::TempDir) -> (PathBuf, Program) {
        let path = directory.path().join("program");
        fs::copy("/bin/true", &path).unwrap();
        (path.clone(), Program::open(&path).unwrap())
    }

    #[test]
    fn an_upgrade_in_between_is_not_undone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, program) = program(&directory);
        let upgrade = directory.path().join("upgrade");
        fs::write(&upgrade, "newer").unwrap();
        fs::rename(&upgrade, &path).unwrap();
        let error = replace(&program, Leaf::M2, false).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"newer");
    }

    #[test]
    fn what_gives_rights_is_replaced_only_on_demand() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = program(&directory);
        fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
        let program = Program::open(&path).unwrap();
        let inode = program.metadata.ino();
        let error = replace(&program, Leaf::M2, false).unwrap_err();
        assert!(error.to_string().contains("--privileged"), "{error}");
        replace(&program, Leaf::M2, true).unwrap();
        let new = path.metadata().unwrap();
        assert_eq!(new.mode() & 0o7777, 0o4755);
        assert_ne!(new.ino(), inode);
    }
}
