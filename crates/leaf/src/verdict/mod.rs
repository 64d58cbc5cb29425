//! Whether huge text is worth it on a machine, decided from calls that were timed there.
//!
//! A leaf saves faults on any machine. It saves time in text that runs only where it also becomes one large entry of
//! the instruction TLB. A host that backs the memory of its guests by base pages, and KVM with nx_huge_pages, split
//! it: then the processor keeps an entry for each base page all the same. No file of the guest tells this, so calls
//! are timed behind leaves: into more base pages than the TLB has entries, and into as many lines of a few pages. Where a
//! leaf is one entry, both take the same time.

mod advice;
mod choice;
mod judge;
#[cfg(test)]
mod tests;

pub use advice::{Change, Hypervisor, Platform, Signature, changes};
pub use choice::{Deed, LeafUse, LeavesDoHarm};
pub use judge::{Agreement, CallTimes, Calls, Doubt, Judgement, Spread, Verdict, judge};
