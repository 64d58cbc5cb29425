use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Leaf;

const COSTS: Costs = Costs {
    fault: 500.0,
    fill: 300_000.0,
    system_call: None,
    set_share: Some(0.02),
};
const HOUR: Duration = Duration::from_secs(3600);

/// So much later.
fn after(now: Duration) -> EvidenceTime {
    EvidenceTime {
        now,
        half_life: HalfLife::new(12 * HOUR),
    }
}

/// Of so many starts, all at once.
fn started(starts: f64) -> Evidence {
    Evidence {
        starts: Decayed::new(starts, Duration::ZERO),
        processor: Decayed::default(),
    }
}

fn worth(starts: f64) -> Worth {
    let now = after(Duration::ZERO);
    Worth::of(
        &started(starts),
        0.5,
        Gain::Windows(8),
        Leaf::M2,
        &COSTS,
        now,
    )
}

fn level(starts: f64) -> Level {
    Level::follow(None, worth(starts), &COSTS)
}

/// A file of `bytes` that each principal started so often.
fn file(key: usize, bytes: u64, starts: &[(Principal, f64)]) -> Candidate<usize> {
    Candidate {
        key,
        bytes,
        level: level(starts.iter().map(|(_, starts)| starts).sum()),
        claims: starts
            .iter()
            .map(|(principal, starts)| Claim {
                principal: *principal,
                level: level(*starts),
            })
            .collect(),
    }
}

fn principal(user: u32, group: u64) -> Principal {
    Principal { user, group }
}

/// Starts by some of two users with two control groups each.
fn starts() -> impl Strategy<Value = Vec<(Principal, f64)>> {
    let one = (0u32..2, 0u64..2, 0f64..1e5);
    vec(one, 1..4).prop_map(|all| {
        let mut all: Vec<(Principal, f64)> = all
            .into_iter()
            .map(|(user, group, starts)| (principal(user, group), starts))
            .collect();
        all.sort_by_key(|(principal, _)| *principal);
        all.dedup_by_key(|(principal, _)| *principal);
        all
    })
}

fn files() -> impl Strategy<Value = Vec<Candidate<usize>>> {
    vec((1u64..200, starts()), 0..40).prop_map(|files| {
        let number = files.into_iter().enumerate();
        number
            .map(|(key, (bytes, starts))| file(key, bytes, &starts))
            .collect()
    })
}

fn bytes_of(candidates: &[Candidate<usize>], choice: &Choice<usize>) -> u64 {
    let held = candidates
        .iter()
        .filter(|c| choice.held.contains_key(&c.key));
    held.map(|candidate| candidate.bytes).sum()
}

#[test]
fn processor_time_counts_against_leaves_where_system_calls_cost_more_than_they_save() {
    let costs = |system_call: Option<f64>, set_share| Costs {
        system_call: system_call.map(SystemCallCost),
        set_share,
        ..COSTS
    };
    for (system_call, set_share, share) in [
        (None, None, 0.02),
        (Some(-0.3), None, 0.02),
        (Some(0.19), None, 0.02),
        (Some(0.5), None, -0.05),
        (Some(0.8), Some(0.03), 0.03),
        (Some(0.0), Some(0.0), 0.0),
    ] {
        let share_of = costs(system_call, set_share).share();
        assert_eq!(share_of, share, "{system_call:?} {set_share:?}");
    }
    // A text that runs for ever and starts never is worth less than nothing where leaves may slow it down.
    let busy = Evidence {
        starts: Decayed::default(),
        processor: Decayed::new(3600.0, Duration::ZERO),
    };
    let worth = |costs: &Costs| {
        let now = after(Duration::ZERO);
        Worth::of(&busy, 0.5, Gain::Windows(8), Leaf::M2, costs, now).nanoseconds()
    };
    assert!(worth(&costs(None, None)) > COSTS.fill);
    assert!(worth(&costs(Some(0.8), None)) < 0.0);
    assert_eq!(worth(&costs(Some(0.8), Some(0.0))), 0.0);
    // A compiler of a second gains by its starts less than it may lose; a program of a millisecond gains more.
    let starting = |seconds: f64| {
        let evidence = Evidence {
            starts: Decayed::new(10_000.0, Duration::ZERO),
            processor: Decayed::new(10_000.0 * seconds, Duration::ZERO),
        };
        let now = after(Duration::ZERO);
        let costs = costs(Some(0.8), None);
        Worth::of(&evidence, 0.5, Gain::Windows(8), Leaf::M2, &costs, now).nanoseconds()
    };
    assert!(starting(1.0) < 0.0 && starting(0.000_1) > 0.0);
}

#[test]
fn the_lowest_costs_count() {
    let busy = Costs {
        fault: 9000.0,
        system_call: Some(SystemCallCost(0.3)),
        ..COSTS
    };
    let calm = Costs {
        fill: 400_000.0,
        system_call: Some(SystemCallCost(0.01)),
        ..COSTS
    };
    let least = busy.least(calm);
    assert_eq!((least.fault, least.fill), (COSTS.fault, COSTS.fill));
    assert_eq!(least.system_call, calm.system_call);
    assert_eq!(COSTS.least(busy).system_call, busy.system_call);
}

proptest! {
    #[test]
    fn never_more_than_allowed_and_everything_is_answered(files in files(), allowed in 0u64..3000) {
        let choice = choose(&files, allowed);
        prop_assert!(choice.bytes <= allowed);
        prop_assert_eq!(choice.bytes, bytes_of(&files, &choice));
        prop_assert_eq!(choice.held.len() + choice.refused.len(), files.len());
        for file in &files {
            let held = choice.held.contains_key(&file.key);
            let claims = file.claims.iter().map(|claim| claim.level);
            prop_assert!(!held || claims.chain([file.level]).any(Level::is_worth_it));
        }
    }

    #[test]
    fn what_is_started_more_often_stays(
        files in files(), allowed in 0u64..3000, which: prop::sample::Index, more in 1f64..1e5,
    ) {
        prop_assume!(!files.is_empty());
        let held = choose(&files, allowed).held;
        let mut after = files.clone();
        let raised = which.get(&files).key;
        let file = &mut after[raised];
        let higher = |level: Level| Level::follow(None, worth(more), &COSTS).max(level);
        // Each claim that was worth its cost becomes worth more.
        for claim in file.claims.iter_mut().filter(|claim| claim.level.is_worth_it()) {
            claim.level = higher(claim.level);
        }
        file.level = higher(file.level);
        prop_assert!(!held.contains_key(&raised) || choose(&after, allowed).held.contains_key(&raised));
    }

    #[test]
    fn no_flood_pushes_out_what_a_fair_share_holds(
        own in vec((1u64..200, 0f64..1e5), 1..20),
        flood in vec((1u64..200, 1e3f64..1e6, 0u64..4), 0..300),
        allowed in 0u64..4000,
    ) {
        let alice = principal(1000, 1);
        let quiet: Vec<Candidate<usize>> = own
            .iter()
            .enumerate()
            .map(|(key, (bytes, starts))| file(key + 1000, *bytes, &[(alice, *starts)]))
            .collect();
        // The share among the users that are there. Without a flood it is all of it, and a choice with more room may
        // leave out a small file for a larger one.
        let users = if flood.is_empty() { 1 } else { 2 };
        let alone = choose(&quiet, allowed / users).held;
        let flood = flood.iter().enumerate().map(|(key, (bytes, starts, group))| {
            file(key, *bytes, &[(principal(1001, *group), *starts)])
        });
        let all: Vec<Candidate<usize>> = quiet.iter().cloned().chain(flood).collect();
        let choice = choose(&all, allowed);
        for key in alone.keys() {
            prop_assert!(choice.held.contains_key(key), "{key} went: {:?}", choice.refused.get(key));
        }
    }

    #[test]
    fn what_trembles_by_less_than_a_step_changes_nothing(
        starts in 1f64..1e6, tremble in vec(0.67f64..1.49, 1..50),
    ) {
        let first = level(starts);
        let mut now = first;
        for factor in tremble {
            now = Level::follow(Some(now), worth(starts * factor), &COSTS);
            prop_assert_eq!(now, first);
        }
    }

    #[test]
    fn a_level_rises_with_worth(before: Option<u8>, starts in 0f64..1e6, more in 0f64..1e6) {
        let before = before.map(|before| level(f64::from(before) * 100.0));
        let low = Level::follow(before, worth(starts), &COSTS);
        prop_assert!(low <= Level::follow(before, worth(starts + more), &COSTS));
    }

    #[test]
    fn giving_up_leaves_what_is_allowed_and_goes_up(files in files(), allowed in 0u64..3000) {
        let going = give_up(&files, allowed);
        let total: u64 = files.iter().map(|file| file.bytes).sum();
        let gone: u64 = going.iter().map(|key| files[*key].bytes).sum();
        prop_assert!(total - gone <= allowed);
        let order: Vec<Level> = going.iter().map(|key| files[*key].level).collect();
        prop_assert!(order.is_sorted());
        prop_assert!(total > allowed || files.iter().any(|f| !f.level.is_worth_it()) || going.is_empty());
    }

    #[test]
    fn an_allowance_stays_below_its_ceiling_and_rises_only_when_calm(
        events in vec((0u64..30, 0u64..1000, 0u8..8), 1..200),
    ) {
        let mut now = Duration::ZERO;
        let mut allowance = Allowance::new(500, now);
        // When memory was last short, and the allowance then or when it last rose.
        let (mut short, mut peak) = (None, 500);
        for (seconds, ceiling, kind) in events {
            now += Duration::from_secs(seconds);
            let before = allowance.bytes();
            allowance = match kind {
                0 => allowance.under(Pressure::Some, before, now),
                1 => allowance.under(Pressure::Full, before, now),
                2 => allowance.rest(now),
                _ => allowance.follow(ceiling, now),
            };
            if kind == 1 {
                prop_assert_eq!(allowance.bytes(), 0);
            }
            if kind == 2 {
                prop_assert_eq!(allowance.bytes(), before);
                prop_assert!(!allowance.is_calm(now));
            }
            if kind > 2 {
                prop_assert!(allowance.bytes() <= ceiling);
            }
            if allowance.bytes() > before {
                prop_assert!(short.is_none_or(|short| now - short >= Allowance::CALM));
                peak = allowance.bytes();
            }
            if kind <= 1 || allowance.bytes() < before && peak - allowance.bytes() > peak / 8 {
                (short, peak) = (Some(now), allowance.bytes());
                prop_assert!(!allowance.is_calm(now));
            }
        }
    }

    #[test]
    fn a_ceiling_that_trembles_does_not_disturb(tremble in vec(900u64..1000, 1..200)) {
        let mut allowance = Allowance::new(1000, Duration::ZERO);
        let mut rises = 0;
        for (second, ceiling) in tremble.into_iter().enumerate() {
            let next = allowance.follow(ceiling, Duration::from_secs(second as u64));
            rises += usize::from(next.bytes() > allowance.bytes());
            prop_assert!(next.is_calm(Duration::from_secs(second as u64)));
            allowance = next;
        }
        prop_assert_eq!(rises, 0);
    }
}

#[test]
fn without_windows_only_starts_count() {
    let now = after(Duration::ZERO);
    let seen = Evidence {
        processor: Decayed::new(3600.0, Duration::ZERO),
        ..started(100.0)
    };
    let of = |gain| Worth::of(&seen, 0.5, gain, Leaf::M2, &COSTS, now);
    assert_eq!(of(Gain::Folios), worth(100.0));
    assert!(of(Gain::Windows(8)) > worth(100.0));
    assert_eq!(of(Gain::Windows(0)), Worth::default());
}

#[test]
fn what_was_seen_a_month_ago_is_forgotten() {
    let mut evidence = started(5000.0);
    let month = 30 * 24 * HOUR;
    assert!(!evidence.is_forgotten(after(HOUR)));
    assert!(evidence.is_forgotten(after(month)));
    evidence.starts.add(1.0, after(month));
    assert!(!evidence.is_forgotten(after(month)));
    let half = started(100.0).starts.at(after(12 * HOUR));
    assert!((half - 50.0).abs() < 1e-9);
}

#[test]
fn time_that_goes_back_takes_nothing_back() {
    let mut sum = Decayed::new(10.0, HOUR);
    sum.add(1.0, after(Duration::ZERO));
    assert!((sum.at(after(Duration::ZERO)) - 11.0).abs() < 1e-9);
    assert_eq!(Decayed::new(f64::NAN, HOUR).at(after(HOUR)), 0.0);
}

#[test]
fn a_small_budget_goes_to_what_is_used_most() {
    let alice = principal(1000, 1);
    let files = [
        file(0, 100, &[(alice, 200.0)]),
        file(1, 100, &[(alice, 90_000.0)]),
        file(2, 100, &[(alice, 0.5)]),
    ];
    let choice = choose(&files, 150);
    assert_eq!(choice.held.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(choice.refused[&0], Refusal::NoRoom);
    assert_eq!(choice.refused[&2], Refusal::NotWorthIt);
}

#[test]
fn what_others_started_a_million_times_is_still_mine_to_claim() {
    // A hostile user who starts a program of mine, and much else, takes it out of no share of mine.
    let (alice, mallory) = (principal(1000, 1), principal(1001, 1));
    let mut files = vec![file(5000, 100, &[(alice, 500.0), (mallory, 10.0)])];
    files.extend((0..5000).map(|key| file(key, 100, &[(mallory, 1e6)])));
    assert_eq!(choose(&files, 1000).held.get(&5000), Some(&Place::Group));
}

#[test]
fn the_ceiling_leaves_memory_to_others() {
    let ceiling = Ceiling {
        budget: 1000,
        limit: None,
        available: 100_000,
        held: 0,
    };
    assert_eq!(ceiling.bytes(), 1000);
    let limited = Ceiling {
        limit: Some(300),
        ..ceiling
    };
    assert_eq!(limited.bytes(), 100);
    let full = Ceiling {
        available: 400,
        held: 400,
        ..ceiling
    };
    assert_eq!(full.bytes(), 200);
}

#[test]
fn what_is_larger_than_all_that_may_be_held_is_told_from_what_others_take() {
    let alice = principal(1000, 1);
    let files = [
        file(0, 100, &[(alice, 90_000.0)]),
        file(1, 100, &[(alice, 9000.0)]),
        file(2, 200, &[(alice, 9000.0)]),
    ];
    let refused = choose(&files, 150).refused;
    assert_eq!(refused[&1], Refusal::NoRoom);
    assert_eq!(refused[&2], Refusal::TooLarge);
    // Nobody is better off than the first one while nothing may be held.
    assert_eq!(choose(&files, 0).refused[&0], Refusal::TooLarge);
}

#[test]
fn what_bounds_the_bytes_is_told() {
    let ceiling = Ceiling {
        budget: 1000,
        limit: Some(6000),
        available: 100_000,
        held: 0,
    };
    let bound = |ceiling: Ceiling| {
        assert_eq!(
            Allowance::new(ceiling.bytes(), HOUR).bound(&ceiling),
            ceiling.bound()
        );
        ceiling.bound()
    };
    assert_eq!(bound(ceiling), Bound::Budget);
    let limit = Some(300);
    assert_eq!(bound(Ceiling { limit, ..ceiling }), Bound::GroupLimit);
    let available = 400;
    assert_eq!(
        bound(Ceiling {
            available,
            ..ceiling
        }),
        Bound::FreeMemory
    );
    let stalled = Allowance::new(1000, HOUR).under(Pressure::Full, 1000, HOUR);
    assert_eq!(stalled.bound(&ceiling), Bound::Recovery);
    assert!(!stalled.is_calm(HOUR) && !stalled.rests(HOUR));
    let rests = Allowance::new(1000, HOUR).rest(HOUR);
    assert_eq!(rests.bound(&ceiling), Bound::Budget);
    assert!(!rests.is_calm(HOUR) && rests.rests(HOUR));
}
