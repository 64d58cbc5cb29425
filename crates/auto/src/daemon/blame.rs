//! Whose files are left alone, because the daemon waits for one of them without an answer.

use std::path::Path;

use super::Daemon;
use crate::catalog::Key;

impl Daemon<'_> {
    /// A file of these users did not answer in time, and the thread that waits for it is lost until it does. Only so
    /// many may be lost. So that nobody can use them all up, nothing that only these users run is touched until then.
    /// Root is never blamed: it runs what belongs to the machine.
    pub(super) fn blame(&mut self, key: Key) {
        let users = self.catalog.get(key).map(|known| known.by.keys());
        let users = users.into_iter().flatten().map(|by| by.user);
        self.blamed.extend(users.filter(|user| *user != 0));
    }

    /// Blames those who run files of this directory.
    pub(super) fn blame_directory(&mut self, directory: &Path) {
        let inside = self.watched.iter().filter(|((of, _), _)| of == directory);
        let keys: Vec<Key> = inside.map(|(_, key)| *key).collect();
        for key in keys {
            self.blame(key);
        }
    }

    /// Whether nobody runs a file but users who are blamed.
    pub(super) fn is_blamed(&self, key: Key) -> bool {
        let Some(known) = self.catalog.get(key).filter(|_| !self.blamed.is_empty()) else {
            return false;
        };
        let mut users = known.by.keys().map(|by| by.user);
        !known.by.is_empty() && users.all(|user| self.blamed.contains(&user))
    }

    /// Blames nobody any more once all threads have ended that were given up.
    pub(super) fn forgive(&mut self) {
        if self.looker.lost() == 0 && self.filler.lost() == 0 && self.watches.lost() == 0 {
            self.blamed.clear();
        }
    }
}
