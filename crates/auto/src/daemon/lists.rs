//! Holds what the administrator's lists name.

use std::collections::BTreeSet;
use std::sync::Arc;

use hugetext_host::FileState;

use super::events::Event;
use super::journal::Journal;
use crate::fixed::{FixedList, Keeper};

/// The lists, and what they held at the last report.
#[derive(Debug, Default)]
pub(super) struct Lists {
    keeper: Option<Keeper>,
    /// Bytes, and which files.
    held: Option<(u64, BTreeSet<FileState>)>,
}

impl Lists {
    /// Holds at most `allowed` bytes of what the lists name, if there are any, and calls `wake` for each report.
    pub(super) fn new(
        lists: Option<FixedList>,
        allowed: u64,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Lists {
        Lists {
            keeper: lists.map(|lists| Keeper::new(lists, allowed, wake)),
            held: None,
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.keeper.as_ref().map_or(0, Keeper::bytes)
    }

    /// Files held.
    pub(super) fn files(&self) -> usize {
        self.keeper.as_ref().map_or(0, Keeper::files)
    }

    /// The files that are held, as they were at the last report.
    pub(super) fn states(&self) -> Option<&BTreeSet<FileState>> {
        self.held.as_ref().map(|(_, states)| states)
    }

    /// So many bytes may be held from now on.
    pub(super) fn allow(&mut self, bytes: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.allow(bytes);
        }
    }

    /// Takes in what the lists hold; whether there is a new report.
    pub(super) fn hear(&mut self, journal: &mut Journal<'_>) -> bool {
        let Some(news) = self.keeper.as_mut().and_then(Keeper::news) else {
            return false;
        };
        match news {
            Err(error) => journal.problem(format!("lists: {error}")),
            Ok(renewed) => {
                for error in renewed.unreadable {
                    journal.problem(error.to_string());
                }
                let held = Some((renewed.report.locked, renewed.states));
                if self.held != held {
                    self.held = held;
                    journal.tell(Event::Listed(renewed.report));
                }
            }
        }
        true
    }
}
