use proptest::prelude::*;

use super::*;
use crate::hold::SystemCallCost;

fn block(small: f64, leaves: f64, gathered: f64, system_call: f64) -> CallTimes {
    CallTimes {
        small,
        tables: small,
        leaves,
        gathered,
        system_call: SystemCallCost(system_call),
    }
}

/// A figure that was seen, in ten blocks that differ by a tenth of a nanosecond.
pub(super) fn trial(small: f64, leaves: f64, gathered: f64, system_call: f64) -> Vec<CallTimes> {
    (0..10)
        .map(|index| {
            block(
                small + f64::from(index) / 10.0,
                leaves,
                gathered,
                system_call,
            )
        })
        .collect()
}

/// Nanoseconds of calls into 8,192 pages, and shares of a system call, as lab/results/syscalls.md and its machines have them.
#[test]
fn machines_that_were_seen() {
    let zen_4 = judge(&trial(54.6, 38.0, 17.4, 0.8));
    assert_eq!((zen_4.verdict, zen_4.doubt), (Verdict::Harmful, None));
    let zen_5 = judge(&trial(40.1, 32.9, 18.4, 0.01));
    assert_eq!((zen_5.verdict, zen_5.doubt), (Verdict::StartsOnly, None));
    assert!(!zen_4.is_one_entry() && !zen_5.is_one_entry());
}

#[test]
fn a_leaf_that_is_one_entry_costs_no_miss() {
    let judgement = judge(&trial(30.0, 13.0, 12.0, 0.0));
    assert_eq!(judgement.verdict, Verdict::WorthIt);
    assert!(judgement.is_one_entry());
}

#[test]
fn nothing_is_guessed() {
    let none = judge(&[]);
    assert_eq!(none.doubt, Some(Doubt::NoMisses));
    // An emulator has no TLB for text, and a processor may hold all pages.
    let flat = judge(&trial(100.0, 100.0, 99.0, 0.0));
    assert_eq!(flat.doubt, Some(Doubt::NoMisses));
    let mut mixed = trial(50.0, 35.0, 16.0, 0.0);
    mixed.extend(trial(50.0, 17.0, 16.0, 0.0));
    assert_eq!(judge(&mixed).doubt, Some(Doubt::Disagreement));
    let between = judge(&trial(50.0, 21.0, 16.0, 0.0));
    assert_eq!(between.doubt, Some(Doubt::Disagreement));
    let mut half = trial(50.0, 35.0, 16.0, 0.0);
    half.extend(trial(50.0, 35.0, 16.0, 0.9));
    assert_eq!(judge(&half).doubt, Some(Doubt::Disagreement));
}

/// A trial on a Zen 5 whose two processors had hundreds of tasks to run: two blocks, both disturbed. It was taken for
/// `worth-it` once.
#[test]
fn a_crowded_machine_tells_nothing() {
    let crowded = [
        block(298.0, 33.5, 36.5, 0.07),
        block(300.0, 33.5, 36.0, 0.09),
    ];
    assert_eq!(judge(&crowded).doubt, Some(Doubt::Disagreement));
    let many: Vec<CallTimes> = crowded.iter().cycle().take(10).copied().collect();
    assert_eq!(judge(&many).doubt, Some(Doubt::Disagreement));
    let few = &trial(30.0, 13.0, 12.0, 0.0)[..4];
    assert_eq!(judge(few).doubt, Some(Doubt::Disagreement));
}

#[test]
fn two_disturbed_blocks_of_ten_change_nothing() {
    let mut blocks = trial(49.4, 34.6, 16.7, 0.0);
    blocks[3] = block(400.0, 20.0, 16.0, 0.9);
    blocks[7] = block(20.0, 400.0, 19.0, 0.0);
    let judgement = judge(&blocks);
    assert_eq!(judgement.verdict, Verdict::StartsOnly);
    let sure = judgement.agreement.unwrap();
    assert_eq!((sure.trials, sure.agree), (10, 8));
}

#[test]
fn what_would_change_it() {
    let split = judge(&trial(50.0, 35.0, 16.0, 0.0));
    let on = |hypervisor, intel| {
        let signature = None;
        changes(
            &split,
            Platform {
                hypervisor,
                intel,
                signature,
            },
        )
    };
    assert_eq!(on(None, true), [Change::LaterProcessor]);
    assert_eq!(
        on(Some(Hypervisor::Kvm), false),
        [Change::HugePagesOnTheHost]
    );
    assert_eq!(
        on(Some(Hypervisor::Kvm), true),
        [Change::HugePagesOnTheHost, Change::NxHugePagesOff]
    );
    let bare = Platform {
        hypervisor: None,
        intel: false,
        signature: None,
    };
    assert!(changes(&judge(&trial(30.0, 13.0, 12.0, 0.0)), bare).is_empty());
    let doubtful = |doubt| changes(&Judgement::doubtful(doubt), bare);
    assert_eq!(doubtful(Doubt::NoHugePages), [Change::KernelWithHugePages]);
    assert!(doubtful(Doubt::Emulated).is_empty());
}

/// A Zen 5 (family 26, model 2), a Sapphire Rapids (family 6, model 143) and a Pentium 4 (family 15, model 2).
#[test]
fn processors_are_told_by_their_number() {
    let told = |eax| {
        let found = Signature::of(eax);
        (found.family, found.model)
    };
    assert_eq!(told(0x00b0_0f21), (26, 2));
    assert_eq!(told(0x000c_06f8 & !0xf_0000 | 0x8_0000), (6, 143));
    assert_eq!(told(0x0000_0f29), (15, 2));
}

proptest! {
    /// The order of the blocks does not matter, and a doubt is named exactly where there is one.
    #[test]
    fn any_times_have_one_verdict(
        times in prop::collection::vec((0.1..1e4, 0.1..1e4, 0.1..1e4, -1.0..3.0), 0..20)
    ) {
        let blocks: Vec<CallTimes> =
            times.iter().map(|(a, b, c, d)| block(*a, *b, *c, *d)).collect();
        let judgement = judge(&blocks);
        let reversed: Vec<CallTimes> = blocks.iter().rev().copied().collect();
        prop_assert_eq!(judge(&reversed).verdict, judgement.verdict);
        prop_assert_eq!(judgement.verdict == Verdict::CannotTell, judgement.doubt.is_some());
    }

    /// All times in another unit give the same verdict: processors of any speed are judged alike.
    #[test]
    fn only_ratios_matter(small in 15.0..100.0, leaves in 10.0..100.0, power in -6..6) {
        // A power of two changes no ratio by rounding.
        let scale = 2f64.powi(power);
        let one = trial(small, leaves, 10.0, 0.0);
        let scaled: Vec<CallTimes> = one
            .iter()
            .map(|b| block(b.small * scale, b.leaves * scale, b.gathered * scale, 0.0))
            .collect();
        prop_assert_eq!(judge(&scaled).verdict, judge(&one).verdict);
    }
}
