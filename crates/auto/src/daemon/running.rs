//! Has processes promoted that were started before their text was hot, where a rule allows it.

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hugetext_engine::running::asks_for_promotion;

use super::decision::Decision;
use super::events::Event;
use super::files::Files;
use super::journal::Journal;
use super::sources::Ran;
use super::terms::Terms;
use crate::catalog::Key;
use crate::owners::Groups;
use crate::running::{Promoter, PromotionNews};

/// Why no process is promoted although a rule allows it.
const SAVES_NOTHING: &str = "no process is promoted: leaves are expected to save no processor time here (see `auto status`)";

/// What it means that copies have no path.
pub(super) fn nameless(error: &io::Error) -> String {
    format!(
        "profilers find no names in promoted processes, because copies get no path in /run/hugetext: {error}; \
         the example promote.conf permits it to the service"
    )
}

/// Which processes are promoted, and which pods ask for it.
#[derive(Debug)]
pub(super) struct Promotions {
    promoter: Promoter,
    /// The directory that says which containers' pods ask for promotion.
    requests: PathBuf,
}

impl Promotions {
    /// Promotes nothing yet; calls `wake` when a promotion has ended.
    pub(super) fn new(requests: PathBuf, wake: Arc<dyn Fn() + Send + Sync>) -> Promotions {
        Promotions {
            promoter: Promoter::new(wake),
            requests,
        }
    }

    /// Bytes of the copies that were made.
    pub(super) fn bytes(&self) -> u64 {
        self.promoter.bytes()
    }

    /// Processes that run from huge leaves because of it.
    pub(super) fn processes(&self) -> usize {
        self.promoter.promoted()
    }

    /// Wants the promotion of a process that spends processor time in text, if leaves save such time here, that text is worth
    /// holding, a rule allows it, and copies of it fit into `room`.
    pub(super) fn consider(
        &mut self,
        ran: &Ran,
        room: u64,
        (terms, decision): (&Terms, &Decision),
        (files, groups): (&Files, &Groups),
        journal: &mut Journal<'_>,
    ) {
        // A promotion comes too late for a start: it saves time in text that runs, or nothing.
        if terms.costs.share() <= 0.0 {
            if terms.config.promotes_any() {
                journal.problem_once(SAVES_NOTHING);
            }
            return;
        }
        let group = groups.name(ran.by.group);
        // Most rules ask nobody.
        let asked = OnceCell::new();
        let is_asked = || {
            let asked = asked.get_or_init(|| asks_for_promotion(&self.requests, group));
            matches!(asked, Ok(true))
        };
        let bytes_of = |key: &Key| {
            let known = files.catalog.get(*key)?;
            let text = known.text.as_ref().filter(|text| text.windows() > 0)?;
            let is_allowed = terms.config.promotes(&known.path, group, is_asked);
            (decision.holds(*key) && is_allowed).then(|| text.bytes())
        };
        let bytes: u64 = ran.text.iter().filter_map(bytes_of).sum();
        if bytes > 0 && bytes <= room {
            self.promoter.want(ran.pid, terms.now());
        }
        if let Some(Err(error)) = asked.into_inner() {
            journal.problem_once(&format!("{}: {error}", self.requests.display()));
        }
    }

    /// Forgets the processes that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.promoter.forget_ended();
    }

    /// Has the files of all processes mapped again.
    pub(super) fn give_back(&mut self) {
        self.promoter.give_back();
    }

    /// Takes in the promotions that have ended, and begins the next; whether any has ended.
    pub(super) fn go_on(&mut self, terms: &Terms, journal: &mut Journal<'_>) -> bool {
        let mut has_changed = false;
        while let Some(news) = self.promoter.finish(terms.now()) {
            journal.tell(Event::Promotion(news));
            has_changed = true;
            self.promoter.begin();
        }
        self.promoter.begin();
        has_changed
    }

    /// Maps the files of all promoted processes again, before it returns.
    pub(super) fn undo(&mut self) -> Vec<PromotionNews> {
        self.promoter.undo()
    }
}
