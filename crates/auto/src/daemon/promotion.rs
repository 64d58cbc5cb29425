//! Has processes promoted that were started before their text was hot, where a rule allows it.

use std::cell::OnceCell;

use hugetext_engine::running::asks_for_promotion;
use hugetext_host::Pid;
use hugetext_leaf::hold::Principal;

use super::{Daemon, Event};
use crate::catalog::Key;
use crate::config::Mode;
use crate::promoter::PromotionNews;

impl Daemon<'_> {
    /// Wants the promotion of a process that spends processor time in text, if that text is worth holding, a
    /// rule allows it, and copies of it fit into what may be held.
    pub(super) fn consider_promotion(&mut self, pid: Pid, by: Principal, text: &[Key]) {
        let now = self.now();
        if self.mode() != Mode::Act || !self.allowance.is_calm(now) {
            return;
        }
        let group = self.owners.groups.name(by.group);
        let requests = &self.settings.requests;
        // Most rules ask nobody.
        let asked = OnceCell::new();
        let is_asked = || {
            let asked = asked.get_or_init(|| asks_for_promotion(requests, group));
            matches!(asked, Ok(true))
        };
        let bytes_of = |key: &Key| {
            let known = self.catalog.get(*key)?;
            let text = known.text.as_ref().filter(|text| text.windows() > 0)?;
            let is_worth_it = self.choice.held.contains_key(key);
            let is_allowed = self.config.promotes(&known.path, group, is_asked);
            (is_worth_it && is_allowed).then(|| text.bytes())
        };
        let bytes: u64 = text.iter().filter_map(bytes_of).sum();
        let room = self.allowed().saturating_sub(self.holder.bytes());
        if bytes > 0 && bytes <= room {
            self.promoter.want(pid, now);
        }
        if let Some(Err(error)) = asked.into_inner() {
            self.tell_once(format!("{}: {error}", self.settings.requests.display()));
        }
    }

    /// Takes in the promotions that have ended, and begins the next.
    pub(super) fn promote(&mut self) {
        while let Some(news) = self.promoter.finish(self.now()) {
            self.tell_promotion(news);
            self.promoter.begin();
        }
        self.promoter.begin();
    }

    /// Maps the files of all promoted processes again.
    pub(super) fn undo_promotions(&mut self) {
        for news in self.promoter.undo() {
            self.tell_promotion(news);
        }
    }

    fn tell_promotion(&mut self, news: PromotionNews) {
        self.changed = true;
        self.acted = true;
        (self.tell)(Event::Promotion(news));
    }
}
