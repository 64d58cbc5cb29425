//! Decides what to do with each file so that huge leaves map its text, and does it.

use std::cell::OnceCell;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use hugetext_elf::{Options, Plan, Strategy, plan, plan_auto};
use hugetext_host::{
    Copier, Entry, FileState, Guard, Identity, Original, Store, WriteError, may_stand_in,
};
use hugetext_leaf::{Leaf, reach};
use serde::Serialize;

use crate::failure::Failure;
use crate::fix::carry_out;
use crate::path::lossy;
use crate::program::Program;
use crate::run::place::Place;
use crate::run::room::Room;
use crate::vouch::Voucher;
use crate::warm::{Climb, Ground, warm};

/// The number of the format. A new number makes the entries of older rewriters unused.
const FORMAT: u32 = 2;

/// The treatment of a file, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub(crate) enum Action {
    /// The file is left.
    Leave {
        /// The reason.
        why: Reason,
    },
    /// Its own page cache is made huge.
    Warm,
    /// An identical file from the store takes its place, because its own page cache cannot be made
    /// huge.
    Copy,
    /// A fixed file from the store takes its place.
    Fix,
}

/// The reason why a file is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// Its text holds no window, even after a fix.
    Small,
    /// Its text can be reached only in a copy, but no copy may replace the file. Other users may
    /// write the file, or it changes the user or has capabilities.
    Irreplaceable,
    /// A fixed copy could be reached, but something checks the bytes of the file at each use.
    Vouched,
    /// A copy could be reached, but there is no place for copies.
    Homeless,
    /// Its control group allows too little memory to hold its text in whole windows.
    Cramped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Small => "its text fills no window",
            Reason::Irreplaceable => "no copy may take its place",
            Reason::Vouched => "a checksum protects it, which a fix would break",
            Reason::Homeless => "it needs a copy, which --backend none forbids",
            Reason::Cramped => "its control group has too little memory for it",
        })
    }
}

/// The facts of the decision. Figures are bytes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Text in windows before a fix.
    pub(crate) now: u64,
    /// Text in windows after a fix.
    pub(crate) fixed: u64,
    /// Whether the page cache of its filesystem holds huge folios on this kernel.
    pub(crate) holds_huge: bool,
    /// Whether a copy may be shown in its place.
    pub(crate) may_stand_in: bool,
    /// Whether something checks its bytes at each use, so that only an identical copy is of use.
    pub(crate) vouched: bool,
    /// Whether a place for copies exists.
    pub(crate) store: bool,
    /// Whether that place is used even if the file itself could be warmed.
    pub(crate) prefer_store: bool,
}

/// Decides about one file.
pub(crate) fn decide(facts: Facts, leaf: Leaf) -> Action {
    let worth_a_fix = facts.fixed.saturating_sub(facts.now) >= leaf.bytes();
    let wanted = if worth_a_fix && !facts.vouched {
        Action::Fix
    } else if facts.now == 0 {
        let why = if worth_a_fix {
            Reason::Vouched
        } else {
            Reason::Small
        };
        return Action::Leave { why };
    } else if facts.holds_huge && !facts.prefer_store {
        return Action::Warm;
    } else {
        Action::Copy
    };
    let obstacle = match (facts.may_stand_in, facts.store) {
        (false, _) => Reason::Irreplaceable,
        (_, false) => Reason::Homeless,
        (true, true) => return wanted,
    };
    match facts.holds_huge && facts.now > 0 {
        true => Action::Warm,
        false => Action::Leave { why: obstacle },
    }
}

/// A file with its treatment.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    #[serde(serialize_with = "lossy::path")]
    pub(crate) path: PathBuf,
    /// Bytes of text.
    pub(crate) text: u64,
    /// Bytes of text in windows before the step.
    pub(crate) now: u64,
    /// Bytes of text in windows after the step.
    pub(crate) after: u64,
    #[serde(flatten)]
    pub(crate) action: Action,
    /// Whether a copy may be shown in its place.
    pub(crate) may_stand_in: bool,
    #[serde(skip)]
    pub(crate) state: FileState,
    #[serde(skip)]
    program: Program,
    #[serde(skip)]
    plan: Option<Plan>,
    #[serde(skip)]
    identity: OnceCell<Identity>,
}

/// The facts that are the same for all decisions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// Whether read-only data may become executable.
    pub(crate) merge: bool,
    /// As in [`Facts`].
    pub(crate) store: bool,
    /// As in [`Facts`].
    pub(crate) prefer_store: bool,
}

impl Step {
    /// Decides about the file at `path`.
    pub(crate) fn of(path: &Path, ground: &Ground, policy: Policy) -> Result<Step, Failure> {
        // The mount covers the file itself, so links that lead to it are resolved.
        let path = std::fs::canonicalize(path).map_err(|error| Failure::io(path, &error))?;
        let program = Program::open(&path)?;
        program.may_run_here()?;
        let metadata = program.file.metadata();
        let metadata = metadata.map_err(|error| Failure::io(&path, &error))?;
        let pages = program.page_cache(&ground.mounts)?;
        let image = &program.image;
        let now = reach(
            &image.segments,
            ground.page(),
            ground.leaf,
            ground.bias(&program)?,
        );
        let plan = plan_for(&program, ground, policy);
        let fixed = plan
            .as_ref()
            .map_or(0, |plan| plan.reached(image, ground.page()));
        let facts = Facts {
            now: now.reached,
            fixed,
            holds_huge: ground.obstacle(pages, ground.leaf).is_none(),
            may_stand_in: may_stand_in(&program.file).unwrap_or(false) && unguarded(&program),
            vouched: plan.is_some() && Voucher::at_use(&program).is_some(),
            store: policy.store,
            prefer_store: policy.prefer_store,
        };
        let action = decide(facts, ground.leaf);
        Ok(Step {
            text: now.text,
            now: if facts.holds_huge { now.reached } else { 0 },
            after: match action {
                Action::Leave { .. } => 0,
                Action::Warm | Action::Copy => now.reached,
                Action::Fix => fixed,
            },
            action,
            may_stand_in: facts.may_stand_in,
            state: FileState::of(&metadata),
            plan,
            program,
            identity: OnceCell::new(),
            path,
        })
    }

    /// Whether a file of the store takes its place.
    pub(crate) fn needs_store(&self) -> bool {
        matches!(self.action, Action::Copy | Action::Fix)
    }

    /// Whether one look finds the whole file warm.
    pub(crate) fn is_warm(&self, ground: &Ground) -> Result<bool, Failure> {
        Ok(warm(&self.program, ground, Climb::look())?.is_warm())
    }

    /// The same step, or no step if its text does not fit in the remaining room.
    pub(crate) fn if_it_fits(self, room: &mut Room) -> Step {
        if matches!(self.action, Action::Leave { .. }) || room.take(self.after) {
            return self;
        }
        let why = Reason::Cramped;
        Step {
            action: Action::Leave { why },
            after: 0,
            ..self
        }
    }

    /// The same step with a copy, which may be identical.
    pub(crate) fn in_a_copy(self) -> Step {
        match self.action {
            Action::Fix => self,
            _ => Step {
                action: Action::Copy,
                ..self
            },
        }
    }

    /// Whether the copy for it exists in a store.
    pub(crate) fn is_in(&self, stores: &[Store]) -> bool {
        self.find(stores, &self.recipe()).is_some()
    }

    /// Whether an identical copy exists in a store.
    pub(crate) fn has_copy(&self, place: &Result<Place, Failure>) -> bool {
        let stores = match place {
            Ok(Place::Stores(stores)) => stores.as_slice(),
            _ => &[],
        };
        self.find(stores, &copy_recipe()).is_some()
    }

    /// Warms the file itself. Returns whether all of it is warm afterwards. Fails only if the file
    /// cannot be read.
    pub(crate) fn warm(&self, ground: &Ground) -> Result<bool, Failure> {
        Ok(warm(&self.program, ground, Climb::in_place())?.is_warm())
    }

    /// The warmed copy that takes its place. It comes from the first of `stores` that has it. If
    /// none has it, the last store makes it. Also returns whether all of it is warm.
    pub(crate) fn stand_in(
        &self,
        stores: &[Store],
        ground: &Ground,
    ) -> Result<(Entry, bool), Failure> {
        let recipe = self.recipe();
        let fail = |error| Failure::store(self.path.display(), &error);
        let entry = match (self.find(stores, &recipe), stores.last()) {
            (Some(entry), _) => entry,
            (None, Some(store)) => {
                let original = self.original()?;
                let filled = store.fill(original, &recipe, |new| self.write(new, store));
                filled.map_err(fail)?
            }
            (None, None) => return Err(Failure::at(&self.path, "no place for a copy")),
        };
        // The entry is warmed in place, so that processes that run it share its inode.
        let warmed = warm(&Program::open(&entry.path)?, ground, Climb::in_place())?;
        Ok((entry, warmed.is_warm()))
    }

    /// The entry that a recipe made of the file. An untrusted entry counts as missing, except if a
    /// new one is to be made.
    fn find(&self, stores: &[Store], recipe: &str) -> Option<Entry> {
        let original = self.original().ok()?;
        let mut found = stores.iter().map(|store| store.find(original, recipe));
        found.find_map(|entry| entry.ok().flatten())
    }

    /// The identity of the file. On some filesystems only the content identifies a file, so it is
    /// read once.
    fn original(&self) -> Result<Original<'_>, Failure> {
        let file = &self.program.file;
        let identity = match self.identity.get() {
            Some(identity) => identity,
            None => {
                let identity = Identity::of(file).map_err(|e| Failure::io(&self.path, &e))?;
                self.identity.get_or_init(|| identity)
            }
        };
        Ok(Original {
            file,
            path: &self.path,
            identity,
        })
    }

    /// Names the recipe of the entry.
    fn recipe(&self) -> String {
        match (&self.plan, self.action) {
            (Some(plan), Action::Fix) => {
                let strategy = match plan.strategy {
                    Strategy::Align => "align",
                    Strategy::Shift => "shift",
                    Strategy::Merge => "merge",
                };
                format!("{strategy}-{}-{FORMAT}", plan.leaf.bytes())
            }
            _ => copy_recipe(),
        }
    }

    fn write(&self, new: &File, store: &Store) -> Result<(), WriteError> {
        let (image, old) = (&self.program.image, &self.program.file);
        let (Some(plan), Action::Fix) = (&self.plan, self.action) else {
            new.set_len(image.file_len)?;
            return Ok(Copier::new(old, new)?.copy(0..image.file_len, 0)?);
        };
        let verified = carry_out(&self.program, plan, new, store.root());
        let verified = verified.map_err(|error| error.to_string())?;
        match plan.strategy == Strategy::Merge || verified.is_exact() {
            true => Ok(()),
            false => Err("the rewritten file is not the same program".into()),
        }
    }
}

fn copy_recipe() -> String {
    format!("copy-{FORMAT}")
}

/// Whether no signature or capability is tied to the file itself. A copy would lack it.
fn unguarded(program: &Program) -> bool {
    let harmless = |guard: &Guard| matches!(guard, Guard::Immutable | Guard::AppendOnly);
    Guard::of(&program.file).is_ok_and(|guards| guards.iter().all(harmless))
}

/// The rewrite with which PMD leaves reach most text; `None` if no rewrite helps.
fn plan_for(program: &Program, ground: &Ground, policy: Policy) -> Option<Plan> {
    let image = &program.image;
    let options = Options {
        leaf: ground.leaf,
        page: ground.page(),
        extend_tail: false,
    };
    let plan = match policy.merge {
        true => plan(image, Strategy::Merge, &options).ok(),
        false => None,
    };
    plan.or_else(|| plan_auto(image, &options).ok())
        .filter(|plan| !plan.is_noop(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn facts(now: u64, fixed: u64) -> Facts {
        Facts {
            now,
            fixed,
            holds_huge: true,
            may_stand_in: true,
            vouched: false,
            store: true,
            prefer_store: false,
        }
    }

    fn leave(why: Reason) -> Action {
        Action::Leave { why }
    }

    #[test]
    fn the_weakest_action_that_reaches_the_text_is_taken() {
        let decide = |facts| decide(facts, Leaf::M2);
        assert_eq!(decide(facts(0, 0)), leave(Reason::Small));
        assert_eq!(decide(facts(8 * M, 8 * M)), Action::Warm);
        assert_eq!(decide(facts(8 * M, 0)), Action::Warm);
        assert_eq!(decide(facts(0, 8 * M)), Action::Fix);
        assert_eq!(decide(facts(8 * M, 9 * M)), Action::Warm);
        let small_folios = Facts {
            holds_huge: false,
            ..facts(8 * M, 8 * M)
        };
        assert_eq!(decide(small_folios), Action::Copy);
        let prefer_store = Facts {
            prefer_store: true,
            ..facts(8 * M, 8 * M)
        };
        assert_eq!(decide(prefer_store), Action::Copy);
    }

    #[test]
    fn what_is_checked_at_each_use_is_not_fixed() {
        let decide = |facts| decide(facts, Leaf::M2);
        let vouched = |now, holds_huge| Facts {
            vouched: true,
            holds_huge,
            ..facts(now, 16 * M)
        };
        assert_eq!(decide(vouched(4 * M, true)), Action::Warm);
        assert_eq!(decide(vouched(4 * M, false)), Action::Copy);
        assert_eq!(decide(vouched(0, true)), leave(Reason::Vouched));
    }

    #[test]
    fn without_a_stand_in_the_file_itself_is_warmed_if_that_helps() {
        let decide = |facts| decide(facts, Leaf::M2);
        for (may_stand_in, store, why) in [
            (false, true, Reason::Irreplaceable),
            (true, false, Reason::Homeless),
        ] {
            let facts = |now, fixed| Facts {
                may_stand_in,
                store,
                ..facts(now, fixed)
            };
            assert_eq!(decide(facts(4 * M, 8 * M)), Action::Warm);
            assert_eq!(decide(facts(0, 8 * M)), leave(why));
            let small_folios = Facts {
                holds_huge: false,
                ..facts(8 * M, 8 * M)
            };
            assert_eq!(decide(small_folios), leave(why));
        }
    }
}
