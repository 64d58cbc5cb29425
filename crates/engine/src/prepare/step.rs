//! A file with what is done about it.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hugetext_elf::{
    Image, MovedText, Options, Plan, PlanError, Strategy, plan, plan_auto, text_alone,
};
use hugetext_host::{Copier, FileState, Guard, holders};
use hugetext_leaf::replica::Replica;
use hugetext_leaf::{Filesystem, Kernel, Leaf, ObjectKind, reach};
use hugetext_store::{Entry, Identity, Original, Store, WriteError, may_stand_in};
use schemars::JsonSchema;
use serde::Serialize;

use super::decide::{CopyUse, LeaveReason, PrepareAction, PrepareFacts, decide_action};
use super::place::{CopyGround, CopyPlace};
use super::room::MemoryRoom;
use crate::error::{Error, plain};
use crate::fix::rewrite_into;
use crate::host_context::HostContext;
use crate::method::WarmPolicy;
use crate::on_host::ProgramOnHost;
use crate::place::{set_policy, warm_on};
use crate::program::Program;
use crate::voucher::checked_at_use;
use crate::warm::{warm, warm_unused};

/// The number of the format. A new number makes the entries of older rewriters unused.
const FORMAT: u32 = 7;

/// A file with its treatment.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PrepareStep<'h> {
    /// The file, by its path without symbolic links.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Bytes of text.
    pub text: u64,
    /// Bytes of text in windows before the step.
    pub now: u64,
    /// Bytes of text in windows after the step.
    pub after: u64,
    /// What is done.
    #[serde(flatten)]
    pub action: PrepareAction,
    /// Whether a copy may be shown in its place.
    pub may_stand_in: bool,
    /// Whether the command executes the file itself and only its text comes from another file, if from any, so that debuggers
    /// and profilers find the file that ran.
    pub text_alone: bool,
    #[serde(skip)]
    program: ProgramOnHost<'h>,
    #[serde(skip)]
    plan: Option<Plan>,
    #[serde(skip)]
    replica: Option<Replica>,
    #[serde(skip)]
    ground: CopyGround,
    /// Whether its own page cache holds huge folios.
    #[serde(skip)]
    holds_huge: bool,
    #[serde(skip)]
    prefers_copy: bool,
    #[serde(skip)]
    identity: OnceCell<Identity>,
}

/// A warmed copy that takes the place of a file.
#[derive(Debug)]
pub struct StandIn {
    /// The copy.
    pub entry: Entry,
    /// Whether all of it is warm.
    pub is_warm: bool,
}

/// The facts that are the same for all decisions.
#[derive(Debug, Clone, Copy)]
pub struct PreparePolicy {
    /// Whether read-only data may become executable.
    pub merge: bool,
    /// As in [`PrepareFacts`].
    pub copies: CopyUse,
    /// Which copy is wanted, whether or not huge pages need one.
    pub replica: Option<Replica>,
    /// Where a copy would lie.
    pub ground: CopyGround,
    /// The filesystem through which the file is seen, if it is not its own.
    pub seen_through: Option<Filesystem>,
}

impl PreparePolicy {
    /// Copies on disk, which outlive this process, where the file itself cannot be warmed.
    pub const ON_DISK: PreparePolicy = PreparePolicy {
        merge: false,
        copies: CopyUse::IfNeeded,
        replica: None,
        ground: CopyGround::Pages,
        seen_through: None,
    };
}

impl<'h> PrepareStep<'h> {
    /// Decides about the file at `path`.
    pub fn of(
        path: &Path,
        host: &'h HostContext,
        policy: PreparePolicy,
    ) -> Result<PrepareStep<'h>, Error> {
        // The mount covers the file itself, so links that lead to it are resolved.
        let path = std::fs::canonicalize(path).map_err(Error::io(path))?;
        let on_host = ProgramOnHost::open(&path, host)?;
        let on_host = match policy.seen_through {
            Some(filesystem) => on_host.seen_through(filesystem),
            None => on_host,
        };
        let program = &on_host.program;
        program.ensure_native()?;
        let image = &program.image;
        let now = reach(&image.segments, host.page, host.leaf, on_host.bias);
        let planned = plan_for(&on_host, policy);
        let refused = now.text >= host.leaf.bytes()
            && matches!(&planned, Err(PlanError::Refusal(refusal)) if refusal.forbids());
        let plan = planned.unwrap_or(None);
        let fixed = plan
            .as_ref()
            .map_or(0, |plan| plan.reached(image, host.page));
        let facts = PrepareFacts {
            now: now.reached,
            fixed,
            holds_huge: on_host.large_folio_obstacle(host.leaf).is_none(),
            may_stand_in: may_stand_in(&program.file).unwrap_or(false) && unguarded(program),
            refused,
            vouched: plan.is_some() && checked_at_use(program).is_some(),
            copies: policy.copies,
            replica: policy.replica.is_some(),
        };
        let action = decide_action(facts, host.leaf);
        Ok(PrepareStep {
            text: now.text,
            now: if facts.holds_huge { now.reached } else { 0 },
            after: match action {
                PrepareAction::Leave { .. } => 0,
                PrepareAction::Warm | PrepareAction::Copy => now.reached,
                PrepareAction::Fix => fixed,
            },
            action,
            may_stand_in: facts.may_stand_in,
            text_alone: false,
            plan,
            ground: policy.ground,
            holds_huge: facts.holds_huge,
            prefers_copy: facts.copies == CopyUse::Preferred,
            program: on_host,
            replica: policy.replica,
            identity: OnceCell::new(),
            path,
        })
    }

    /// The same step for the program that the command executes. If it is a PIE, it needs no other file in its place: its
    /// image can be moved to where leaves map it before its first instruction. If its text is congruent, it needs no other
    /// text either, unless its own page cache cannot be made huge.
    pub(super) fn executed(self) -> PrepareStep<'h> {
        let movable = self.action == PrepareAction::Fix
            && self.replica.is_none()
            && self.program.program.image.kind == ObjectKind::Pie;
        let strategy = self.plan.as_ref().map(|plan| plan.strategy);
        let action = match strategy.filter(|_| movable) {
            Some(Strategy::Shift) => PrepareAction::Fix,
            Some(Strategy::Align) if self.holds_huge && !self.prefers_copy => PrepareAction::Warm,
            Some(Strategy::Align) => PrepareAction::Copy,
            Some(Strategy::Merge) | None => return self,
        };
        PrepareStep {
            action,
            text_alone: true,
            program: self.program.at_a_leaf(),
            ..self
        }
    }

    /// The same step where the image cannot be moved: a fixed copy takes the place of the program.
    pub(super) fn unmoved(self) -> PrepareStep<'h> {
        PrepareStep {
            action: PrepareAction::Fix,
            text_alone: false,
            ..self
        }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program.program
    }

    pub(super) fn leaf(&self) -> Leaf {
        self.program.host.leaf
    }

    pub(super) fn kernel(&self) -> Kernel {
        self.program.host.kernel
    }

    /// The state of the file before it was read.
    pub(super) fn state(&self) -> FileState {
        self.program.program.state()
    }

    /// Whether its copy has text at other offsets than the file, so that profilers that keep offsets find no names in the
    /// file for it.
    pub fn moves_offsets(&self) -> bool {
        let is_moved = |plan: &Plan| plan.moves.iter().any(|piece| piece.shift() > 0);
        let is_fixed = self.action == PrepareAction::Fix && !self.text_alone;
        is_fixed && self.plan.as_ref().is_some_and(is_moved)
    }

    /// Whether a file of the store takes its place.
    pub fn needs_store(&self) -> bool {
        matches!(self.action, PrepareAction::Copy | PrepareAction::Fix)
    }

    /// Whether one look finds the whole file warm.
    pub fn is_warm(&self) -> Result<bool, Error> {
        Ok(warm(&self.program, WarmPolicy::LookOnly)?.is_warm())
    }

    /// The same step, or no step if its text does not fit in the remaining room.
    pub fn if_it_fits(self, room: &mut MemoryRoom) -> PrepareStep<'h> {
        if matches!(self.action, PrepareAction::Leave { .. }) || room.take(self.memory()) {
            return self;
        }
        self.left(LeaveReason::Cramped)
    }

    /// The same file, left as it is.
    pub(super) fn left(self, why: LeaveReason) -> PrepareStep<'h> {
        PrepareStep {
            action: PrepareAction::Leave { why },
            after: 0,
            text_alone: false,
            ..self
        }
    }

    /// Bytes of memory that the treatment takes, at most: the whole file where it gets a page cache of its
    /// own only to be near.
    pub fn memory(&self) -> u64 {
        match (self.replica, self.needs_store()) {
            (Some(_), true) => self.copied().max(self.after),
            _ => self.after,
        }
    }

    /// Bytes on disk that its copy takes, at most; of a tmpfs, the same memory.
    pub fn disk(&self) -> u64 {
        if self.needs_store() && !self.program.pages.shares_blocks() {
            self.copied()
        } else {
            0
        }
    }

    /// Bytes of a copy.
    fn copied(&self) -> u64 {
        let len = self.program.program.image.file_len;
        let (page, leaf) = (self.program.host.page, self.program.host.leaf);
        match self.ground {
            CopyGround::Pages => page.align_up(len),
            CopyGround::Windows => leaf.align_up(len),
            CopyGround::WindowsAndRecord => leaf.align_up(len).saturating_add(leaf.bytes()),
        }
    }

    /// The same step with a copy, which may be identical.
    pub fn in_a_copy(self) -> PrepareStep<'h> {
        match self.action {
            PrepareAction::Fix => self,
            _ => PrepareStep {
                action: PrepareAction::Copy,
                ..self
            },
        }
    }

    /// Whether the copy for it exists in a store.
    pub fn is_in(&self, stores: &[Store]) -> bool {
        self.find(stores, &self.recipe()).is_some()
    }

    /// Whether an identical copy exists in a store.
    pub fn has_copy(&self, place: &Result<CopyPlace, Error>) -> bool {
        let stores = match place {
            Ok(CopyPlace::Stores(stores)) => stores.as_slice(),
            _ => &[],
        };
        self.find(stores, &self.copy_recipe()).is_some()
    }

    /// Warms the file itself. Returns whether all of it is warm afterwards. Fails only if the file
    /// cannot be read.
    pub fn warm(&self) -> Result<bool, Error> {
        Ok(warm(&self.program, WarmPolicy::InPlace)?.is_warm())
    }

    /// Brings text without windows into the largest folios if it is worth that. Returns whether all of it is
    /// there afterwards.
    pub fn enlarge(&self) -> Result<bool, Error> {
        let is_worth_it = self.program.text_to_enlarge().is_some();
        Ok(is_worth_it && warm_unused(&self.program, holders)?.is_in_largest_folios())
    }

    /// The warmed copy that takes its place. It comes from the first of `stores` that has it. If
    /// none has it, the last store makes it.
    pub fn stand_in(&self, stores: &[Store]) -> Result<StandIn, Error> {
        let recipe = self.recipe();
        let fail = |source| Error::Store {
            subject: self.path.display().to_string(),
            source,
        };
        // What is read from now on lies on the node of the replica. If the kernel refuses that, the copy still
        // has its own lock; `stat --nodes` shows where it lies.
        let node = self.replica.and_then(Replica::node);
        let _policy = node.map(|node| set_policy(&[node]));
        let (entry, node) = match (self.find(stores, &recipe), stores.last()) {
            (Some(entry), _) => (entry, None),
            (None, Some(store)) => {
                let original = self.original()?;
                let filled = store.fill(original, &recipe, |old, new| self.write(old, new, store));
                (filled.map_err(fail)?, node)
            }
            (None, None) => {
                return Err(Error::NoCopyPlace {
                    path: self.path.clone(),
                });
            }
        };
        // The entry is warmed in place, so that processes that run it share its inode.
        let mut copy = ProgramOnHost::open(&entry.path, self.program.host)?;
        if self.text_alone {
            copy = copy.at_a_leaf();
        }
        let outcome = match node {
            Some(node) => warm_on(&copy, WarmPolicy::InPlace, &[node])?,
            None => warm(&copy, WarmPolicy::InPlace)?,
        };
        // A small file has no window, and is wanted all the same.
        let small = self.replica.is_some() && outcome.windows == 0;
        Ok(StandIn {
            entry,
            is_warm: small || outcome.is_warm(),
        })
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
    fn original(&self) -> Result<Original<'_>, Error> {
        let file = &self.program.program.file;
        let identity = match self.identity.get() {
            Some(identity) => identity,
            None => {
                let identity = Identity::of(file).map_err(Error::io(&self.path))?;
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
            (Some(plan), PrepareAction::Fix) => {
                let what = self.what();
                let fixed = format!("{}-{}{what}-{FORMAT}", plan.strategy, plan.leaf.bytes());
                of_replica(fixed, self.replica)
            }
            _ => self.copy_recipe(),
        }
    }

    /// Names that of an identical copy.
    fn copy_recipe(&self) -> String {
        of_replica(format!("copy{}-{FORMAT}", self.what()), self.replica)
    }

    /// What is mapped of an entry, as a part of the name of its recipe.
    fn what(&self) -> &'static str {
        if self.text_alone { "-text" } else { "" }
    }

    /// Writes the copy of `old`, which is the program or has its content, into `new`. The plan is from the headers
    /// of the program. If `old` has others, the proof fails.
    fn write(&self, old: &File, new: &File, store: &Store) -> Result<(), WriteError> {
        self.write_whole(old, new, store)?;
        if self.text_alone {
            let (at, table) = text_alone(&Image::read(new)?, self.program.host.page)?;
            new.write_all_at(&table, at)?;
        }
        Ok(())
    }

    fn write_whole(&self, old: &File, new: &File, store: &Store) -> Result<(), WriteError> {
        let (Some(plan), PrepareAction::Fix) = (&self.plan, self.action) else {
            let len = old.metadata()?.len();
            new.set_len(len)?;
            return Ok(Copier::new(old, new)?.copy(0..len, 0)?);
        };
        let program = Program::from_file(&self.path, old.try_clone()?)?;
        let verified = rewrite_into(new, store.root(), &program, plan).map_err(plain)?;
        if plan.explains(&verified) {
            Ok(())
        } else {
            Err("the rewritten file is not the same program".into())
        }
    }
}

/// A recipe of its own for each replica: the content is the same, the entry is another file.
fn of_replica(recipe: String, replica: Option<Replica>) -> String {
    match replica {
        Some(replica) => format!("{recipe}-{replica}"),
        None => recipe,
    }
}

/// Whether no signature or capability is tied to the file itself. A copy would lack it.
fn unguarded(program: &Program) -> bool {
    let harmless = |guard: &Guard| matches!(guard, Guard::Immutable | Guard::AppendOnly);
    Guard::of(&program.file).is_ok_and(|guards| guards.iter().all(harmless))
}

/// The rewrite with which PMD leaves reach most text; `None` if no rewrite helps. Its text is not cut: a program
/// that looks at its own segments, for a checksum of them, finds each with its size and its bytes.
fn plan_for(program: &ProgramOnHost<'_>, policy: PreparePolicy) -> Result<Option<Plan>, PlanError> {
    let (source, image) = (&program.program.file, &program.program.image);
    let options = Options {
        leaf: program.host.leaf,
        page: program.host.page,
        extend_tail: false,
        moved: MovedText::BehindOld,
    };
    let merged = policy
        .merge
        .then(|| plan(source, image, Strategy::Merge, &options));
    let plan = match merged {
        Some(Ok(plan)) => plan,
        _ => plan_auto(source, image, &options)?,
    };
    Ok((!plan.is_noop(image)).then_some(plan))
}
