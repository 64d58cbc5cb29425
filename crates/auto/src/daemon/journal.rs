//! What the daemon tells, and counts for its documents and metrics.

use std::path::PathBuf;

use hugetext_host::names::escaped;
use hugetext_leaf::hold::Place;

use super::events::Event;
use super::let_go::LetGo;
use super::tally::Tally;
use crate::status::{Losses, Stalls};

/// What all parts write and none decides by.
pub(super) struct Journal<'t> {
    tell: &'t mut dyn FnMut(Event),
    /// Why better sources are not used, and what else does not work.
    pub(super) problems: Vec<String>,
    pub(super) tally: Tally,
    pub(super) losses: Losses,
    pub(super) stalls: Stalls,
    /// Whether a file was held or released since the last document.
    acted: bool,
}

impl<'t> Journal<'t> {
    /// A journal of which `tell` hears.
    pub(super) fn new(tell: &'t mut dyn FnMut(Event), problems: Vec<String>) -> Journal<'t> {
        Journal {
            tell,
            problems,
            tally: Tally::default(),
            losses: Losses::default(),
            stalls: Stalls::default(),
            acted: false,
        }
    }

    /// Tells what needs no count.
    pub(super) fn tell(&mut self, event: Event) {
        self.acted |= matches!(event, Event::Promotion(_));
        (self.tell)(event);
    }

    /// Tells a problem, each time.
    pub(super) fn problem(&mut self, problem: String) {
        (self.tell)(Event::Problem(problem));
    }

    /// Tells a problem that comes again and again once, and keeps it for the documents.
    pub(super) fn problem_once(&mut self, problem: &str) {
        let problem = escaped(problem);
        if !self.problems.contains(&problem) {
            self.problems.push(problem.clone());
            self.problem(problem);
        }
    }

    /// A file is held from now on.
    pub(super) fn held(&mut self, path: PathBuf, bytes: u64, place: Option<Place>) {
        self.acted = true;
        self.tally.held(place);
        (self.tell)(Event::Held { path, bytes });
    }

    /// A file is no longer held.
    pub(super) fn released(&mut self, path: PathBuf, bytes: u64, why: LetGo) {
        self.acted = true;
        self.tally.let_go(why, bytes);
        let reason = why.to_string();
        (self.tell)(Event::Released {
            path,
            bytes,
            reason,
        });
    }

    /// Whether anything was done since the last document.
    pub(super) fn has_acted(&self) -> bool {
        self.acted
    }

    /// A document has all of it.
    pub(super) fn documented(&mut self) {
        self.acted = false;
    }
}
