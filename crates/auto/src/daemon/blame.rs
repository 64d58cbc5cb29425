//! Whose files are left alone, because the daemon waits for one of them without an answer.

use std::collections::BTreeSet;

/// Users of whose files one did not answer in time. The thread that waits for it is lost until it does, and only so
/// many may be lost. So that nobody can use them all up, nothing that only these users run is touched until then.
#[derive(Debug, Default)]
pub(super) struct BlamedUsers(BTreeSet<u32>);

impl BlamedUsers {
    /// Blames those who run a file. Root is never blamed: it runs what belongs to the machine.
    pub(super) fn blame(&mut self, users: impl Iterator<Item = u32>) {
        self.0.extend(users.filter(|user| *user != 0));
    }

    /// Whether these users are some, and all of them are blamed.
    pub(super) fn are_all_of(&self, users: impl Iterator<Item = u32>) -> bool {
        let mut users = users.peekable();
        users.peek().is_some() && users.all(|user| self.0.contains(&user))
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
