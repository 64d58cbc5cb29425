//! Which text is worth memory, and which is given up first.
//!
//! The steps are pure functions over plain numbers, in this order:
//!
//! 1. [`Evidence`] counts what was seen of a file, and forgets it with a half-life.
//! 2. [`Worth`] is the time that huge text is expected to save, per window, over the next half-life.
//! 3. [`Level`] is that worth on a coarse scale that follows it slowly, so that nothing flaps.
//! 4. [`Allowance`] is how many bytes may be held now, after the budget and the pressure on memory.
//! 5. [`choose`] shares these bytes fairly among users and control groups, and says why.
//! 6. [`give_up`] says what goes first if bytes are needed at once.

mod allowance;
mod choose;
mod evidence;
mod stall;
mod worth;

#[cfg(test)]
mod tests;

pub use allowance::{Allowance, Bound, Ceiling, Pressure};
pub use choose::{Candidate, Choice, Claim, Place, Principal, Refusal, choose, give_up};
pub use evidence::{Decayed, Evidence, EvidenceTime, HalfLife};
pub use stall::{MemoryEvents, StallCause, Supply};
pub use worth::{Costs, Gain, Level, SystemCallCost, Worth};
