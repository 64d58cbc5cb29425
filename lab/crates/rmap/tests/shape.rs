//! Compares the simulation with known results for closed networks, and with the machines in the
//! thread that reported the lock.

use hugetext_rmap::{File, Scheme, Workload, simulate};
use proptest::prelude::*;

fn workload(trips: &[u32]) -> Workload {
    let file = |&trips: &u32| File {
        name: "library".to_owned(),
        trips,
    };
    Workload {
        work_ns: 200_000.0,
        tree_ns: 800.0,
        lock_ns: 300.0,
        lock_transfer_ns: 700.0,
        tree_transfer_ns: 0.0,
        files: trips.iter().map(file).collect(),
    }
}

#[test]
fn one_core_never_waits() {
    let outcome = simulate(&workload(&[10]), Scheme::OneLock, 1, 2000, 7);
    let expected = 1e9 / (200_000.0 + 10.0 * 1_100.0);
    assert_eq!(outcome.waiting, 0.0);
    assert!(
        (outcome.starts_per_second / expected - 1.0).abs() < 0.02,
        "{outcome:?}"
    );
}

#[test]
fn many_cores_end_at_the_locks_ceiling() {
    let outcome = simulate(&workload(&[10]), Scheme::OneLock, 384, 30, 7);
    let ceiling = 1e9 / (10.0 * 1_800.0);
    assert!(
        (outcome.starts_per_second / ceiling - 1.0).abs() < 0.02,
        "{outcome:?}"
    );
    assert!(outcome.waiting > 0.9, "{outcome:?}");
}

#[test]
fn a_shard_for_each_core_scales_with_the_cores() {
    let one = simulate(&workload(&[10, 5]), Scheme::Shards(64), 1, 300, 7);
    let all = simulate(&workload(&[10, 5]), Scheme::Shards(64), 64, 100, 7);
    assert!(
        all.starts_per_second / one.starts_per_second > 60.0,
        "{all:?}"
    );
    assert_eq!(all.waiting, 0.0);
}

/// Leaving libc and the loader out of the trees, the lock kept, gained about 80 % on machines of 64
/// cores and more: the times are chosen so that it does here. What follows from that is that shards
/// are worth more than twice as much, and that cores wait nine tenths of their time without.
#[test]
fn keeping_the_lock_gains_what_was_reported() {
    let workload = workload(&[20, 13, 15]);
    let run = |scheme| simulate(&workload, scheme, 128, 30, 7).starts_per_second;
    let gain = run(Scheme::LockOnly) / run(Scheme::OneLock);
    assert!((1.7..1.9).contains(&gain), "{gain}");
    assert!(run(Scheme::Shards(64)) > 2.0 * run(Scheme::LockOnly));
    assert!(simulate(&workload, Scheme::OneLock, 112, 30, 7).waiting > 0.85);
}

#[test]
fn nothing_to_do_is_no_throughput() {
    for outcome in [
        simulate(&workload(&[]), Scheme::OneLock, 4, 10, 7),
        simulate(&workload(&[1]), Scheme::OneLock, 0, 10, 7),
        simulate(&workload(&[1]), Scheme::Shards(0), 1, 0, 7),
    ] {
        assert_eq!(outcome.starts_per_second, 0.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No scheme beats its cores or its busiest lock, and the same seed gives the same outcome.
    #[test]
    fn bounds_hold(cores in 1u32..96, trips in proptest::collection::vec(1u32..20, 1..4), shards in 1u32..65) {
        let workload = workload(&trips);
        let scheme = Scheme::Shards(shards);
        let outcome = simulate(&workload, scheme, cores, 60, 3);
        let all: u32 = trips.iter().sum();
        let cycle = workload.work_ns + f64::from(all) * scheme.hold_ns(&workload);
        prop_assert!(outcome.starts_per_second <= f64::from(cores) / cycle * 1e9 * 1.15);
        prop_assert!((0.0..=1.0).contains(&outcome.waiting));
        prop_assert_eq!(outcome, simulate(&workload, scheme, cores, 60, 3));
    }
}
