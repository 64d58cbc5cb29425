//! Looks at files, fills and releases them. What may take long runs in threads that can be given up.

use std::io;

use hugetext_host::Done;

use super::let_go::LetGo;
use super::{Daemon, Event, MOST_LOOKS};
use crate::catalog::{FileText, Key};
use crate::config::Mode;
use crate::holder::Wait;
use crate::reason::Hindrance;
use crate::text::{Fill, Filled, Look, Looked, Name};

impl Daemon<'_> {
    pub(super) fn want_look(&mut self, key: Key, by: Name) {
        let is_there = self.looks.iter().any(|look| look.key == key);
        if !is_there && self.looks.len() < MOST_LOOKS {
            self.looks.push_back(Look { key, by });
        }
    }

    /// Begins what can begin now.
    pub(super) fn begin(&mut self) {
        while let Some(look) = self.looks.front()
            && self.is_blamed(look.key)
        {
            self.looks.pop_front();
        }
        if self.looker.is_free()
            && let Some(look) = self.looks.pop_front()
        {
            self.looking = Some(look.clone());
            self.looker.begin(look);
        }
        let (now, holder) = (self.now(), &self.holder);
        let waits = |fill: &Fill| holder.wait(fill.key).is_some() && !holder.may_retry(now);
        while self.fills.front().is_some_and(waits) {
            self.fills.pop_front();
        }
        if self.filler.is_free()
            && let Some(fill) = self.fills.pop_front()
        {
            self.filling = Some((fill.key, fill.text.clone()));
            self.filler.begin(fill);
        }
    }

    /// Takes in what has ended, and begins the next at once.
    pub(super) fn finish(&mut self) {
        self.forgive();
        for directory in self.watches.finish(self.now()) {
            self.no_answer_of_directory(&directory);
        }
        while let Some(done) = self.looker.done() {
            let look = self.looking.take();
            match (done, look) {
                (Done::Result(looked), _) => self.looked(looked),
                (Done::GivenUp, Some(look)) => {
                    self.no_answer(look.key);
                    self.delay_look(look.key);
                }
                (Done::GivenUp, None) => {}
            }
            self.begin();
        }
        while let Some(done) = self.filler.done() {
            let Some((key, text)) = self.filling.take() else {
                break;
            };
            match done {
                Done::Result((_, Ok(filled))) => self.filled(filled, &text),
                Done::Result((key, Err(problem))) => {
                    self.tally.unfilled = self.tally.unfilled.saturating_add(1);
                    let now = self.now();
                    self.runs.forget(key);
                    self.holder.delay(key, problem, now);
                    // It may be another file by now.
                    self.want_look(key, Name::Path(text.path));
                }
                Done::GivenUp => {
                    self.no_answer(key);
                    self.runs.forget(key);
                    let now = self.now();
                    let why = Hindrance::NoAnswer;
                    (self.tell)(Event::Problem(format!("{}: {why}", text.path.display())));
                    self.holder.delay(key, why, now);
                }
            }
            self.changed = true;
            self.begin();
        }
    }

    pub(super) fn delay_look(&mut self, key: Key) {
        let now = self.now();
        self.tally.unread = self.tally.unread.saturating_add(1);
        let wait = Wait::after(self.unread.get(&key), now);
        self.unread.insert(key, wait);
        if let Some(forgotten) = self.catalog.failed(key) {
            self.unread.remove(&forgotten);
        }
    }

    pub(super) fn looked(&mut self, looked: Looked) {
        let time = (self.now(), self.config.half_life());
        let key = looked.key;
        match looked.found {
            Ok((file, text)) => {
                self.unread.remove(&key);
                let before = self.catalog.get(key).and_then(|known| known.text.as_ref());
                let before = before.map(|text| text.state);
                let after = text.as_ref().map(|text| text.state);
                // While it is known, so that what is told of it has its path.
                if before.is_some() && before != after {
                    self.let_go(key);
                }
                let known = self.catalog.identified(key, file, text, time);
                // Under another number, it may have replaced a file that is held.
                let held = known.and_then(|known| self.holder.get(known));
                if let Some(known) = known
                    && held.is_some_and(|held| Some(held.state) != after)
                {
                    self.let_go(known);
                }
                if known.is_some() {
                    self.changed = true;
                    self.watch();
                }
            }
            Err(error) => {
                self.release(key, LetGo::Gone);
                if error.kind() == io::ErrorKind::NotFound && looked.by_path {
                    self.holder.forget(key);
                    self.catalog.remove(key);
                } else {
                    // What was seen of it stays: it may be readable again.
                    self.delay_look(key);
                }
            }
        }
    }

    /// A file is another one by now.
    fn let_go(&mut self, key: Key) {
        self.release(key, LetGo::Replaced);
        self.holder.forget(key);
    }

    pub(super) fn filled(&mut self, filled: Filled, text: &FileText) {
        let now = self.now();
        let key = filled.key;
        let is_wanted = self.mode() == Mode::Act
            && self.choice.held.contains_key(&key)
            && self.catalog.get(key).is_some_and(|known| {
                known
                    .text
                    .as_ref()
                    .is_some_and(|known| known.state == filled.state)
            });
        if is_wanted && filled.is_in_use {
            self.runs.watch(key);
        } else {
            self.runs.forget(key);
        }
        if !is_wanted {
            // Pressure, a reload or an upgrade came first: what was locked is dropped here.
            return;
        }
        let is_new = self.holder.get(key).is_none();
        if let Some(held) = filled.held.as_ref().filter(|_| is_new) {
            let (path, bytes) = (text.path.clone(), held.bytes());
            (self.tell)(Event::Held { path, bytes });
            self.acted = true;
            self.tally.held(self.choice.held.get(&key).copied());
        }
        self.holder.take(filled, now);
    }

    pub(super) fn release(&mut self, key: Key, why: LetGo) {
        self.runs.forget(key);
        let Some(bytes) = self.holder.release(key) else {
            return;
        };
        let text = self.catalog.get(key).and_then(|known| known.text.as_ref());
        (self.tell)(Event::Released {
            path: text.map(|text| text.path.clone()).unwrap_or_default(),
            bytes,
            reason: why.to_string(),
        });
        self.tally.let_go(why, bytes);
        self.changed = true;
        self.acted = true;
    }
}
