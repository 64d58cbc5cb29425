//! How much of the lists of mappings is read for one question. A process may have hundreds of thousands of mappings,
//! and sleeps while others pay for listing them.

use std::collections::BTreeMap;

use super::ask::{MappingsFile, read_mappings};
use super::error::ProcessError;
use super::id::Pid;
use super::owner::{group_of_process, user_of_process};

/// Bytes of lists that may still be read, of all users and of each. A mapping takes about 100 bytes in
/// /proc/PID/maps, and 1,000 in smaps.
#[derive(Debug)]
pub struct ListBudget {
    left: u64,
    per_user: u64,
    spent: BTreeMap<u32, u64>,
}

impl ListBudget {
    /// For a question about what all processes map: all that users of usual programs have, and about a tenth of a
    /// second of work for each of them at most.
    pub const MAPS: (u64, u64) = (128 << 20, 16 << 20);
    /// For one about how they map it. The kernel also walks page tables for that.
    pub const SMAPS: (u64, u64) = (512 << 20, 64 << 20);

    /// A budget of bytes in all, and for the processes of each user.
    pub fn new((all, per_user): (u64, u64)) -> ListBudget {
        ListBudget {
            left: all,
            per_user,
            spent: BTreeMap::new(),
        }
    }

    /// Reads a list. [`ProcessError::TooMuch`] if it is longer than what is left.
    pub(super) fn read(&mut self, pid: Pid, file: MappingsFile) -> Result<Vec<u8>, ProcessError> {
        let user = user_of_process(pid, group_of_process(pid).as_deref());
        // Root may slow down its own machine.
        let spent = match user {
            Some(0) | None => None,
            Some(user) => Some(self.spent.entry(user).or_default()),
        };
        let own = spent
            .as_ref()
            .map_or(u64::MAX, |spent| self.per_user.saturating_sub(**spent));
        let most = self.left.min(own);
        if most == 0 {
            return Err(ProcessError::TooMuch);
        }
        let list = read_mappings(pid, file, most);
        let bytes = match &list {
            Ok(list) => list.len() as u64,
            Err(ProcessError::TooMuch) => most,
            Err(_) => 0,
        };
        self.left = self.left.saturating_sub(bytes);
        if let Some(spent) = spent {
            *spent = spent.saturating_add(bytes);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_bounds_what_is_read() {
        let own = Pid::own();
        let all = ListBudget::new(ListBudget::MAPS).read(own, MappingsFile::Maps);
        let len = all.unwrap().len() as u64;
        let mut short = ListBudget::new((len / 2, len));
        let read = short.read(own, MappingsFile::Maps);
        assert!(matches!(read, Err(ProcessError::TooMuch)), "{read:?}");
        assert_eq!(short.left, 0);
        let mut twice = ListBudget::new((len * 3, len * 3));
        assert!(twice.read(own, MappingsFile::Maps).is_ok());
        assert!(twice.left < len * 3);
    }
}
