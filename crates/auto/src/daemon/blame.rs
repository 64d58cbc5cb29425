//! Whose files are left alone, because the daemon waits for one of them without an answer.

use std::collections::BTreeSet;
use std::path::Path;

use super::Daemon;
use crate::catalog::Key;

/// Users of whose files one did not answer in time. The thread that waits for it is lost until it does, and only so
/// many may be lost. So that nobody can use them all up, nothing that only these users run is touched until then.
#[derive(Debug, Default)]
pub(super) struct BlamedUsers(BTreeSet<u32>);

impl BlamedUsers {
    /// Blames those who run a file. Root is never blamed: it runs what belongs to the machine.
    fn blame(&mut self, users: impl Iterator<Item = u32>) {
        self.0.extend(users.filter(|user| *user != 0));
    }

    /// Whether these users are some, and all of them are blamed.
    fn are_all_of(&self, users: impl Iterator<Item = u32>) -> bool {
        let mut users = users.peekable();
        users.peek().is_some() && users.all(|user| self.0.contains(&user))
    }
}

impl Daemon<'_> {
    /// Counts a file that did not answer in time, and blames those who run it.
    pub(super) fn no_answer(&mut self, key: Key) {
        self.losses.gave_up(1);
        self.blame(key);
    }

    /// Counts a directory that did not answer in time, and blames those who run files of it.
    pub(super) fn no_answer_of_directory(&mut self, directory: &Path) {
        self.losses.gave_up(1);
        let inside = self.watched.iter().filter(|((of, _), _)| of == directory);
        let keys: Vec<Key> = inside.map(|(_, key)| *key).collect();
        for key in keys {
            self.blame(key);
        }
    }

    fn blame(&mut self, key: Key) {
        if let Some(known) = self.catalog.get(key) {
            self.blamed.blame(known.by.keys().map(|by| by.user));
        }
    }

    /// Whether nobody runs a file but users who are blamed.
    pub(super) fn is_blamed(&self, key: Key) -> bool {
        let known = self.catalog.get(key);
        known.is_some_and(|known| self.blamed.are_all_of(known.by.keys().map(|by| by.user)))
    }

    /// Blames nobody any more once all threads have ended that were given up.
    pub(super) fn forgive(&mut self) {
        if self.looker.lost() == 0 && self.filler.lost() == 0 && self.watches.lost() == 0 {
            self.blamed = BlamedUsers::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_else_runs_is_left_alone() {
        let mut blamed = BlamedUsers::default();
        assert!(!blamed.are_all_of([1000].into_iter()));
        blamed.blame([0, 1000, 1001].into_iter());
        assert!(blamed.are_all_of([1000].into_iter()));
        assert!(blamed.are_all_of([1000, 1001].into_iter()));
        // Somebody else runs it too, root does, or nobody is known to.
        assert!(!blamed.are_all_of([1000, 1002].into_iter()));
        assert!(!blamed.are_all_of([0, 1000].into_iter()));
        assert!(!blamed.are_all_of(std::iter::empty()));
    }
}
