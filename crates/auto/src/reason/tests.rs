use std::collections::BTreeSet;

use hugetext_host::Pid;

use super::*;

fn user() -> Holder {
    let (pid, name) = (Pid::own(), "make".to_owned());
    Holder { pid, name }
}

/// Each reason as it is said, with what is done.
fn all() -> Vec<(Why, State, &'static str, &'static str)> {
    let (tried, windows) = (|| "EINVAL".to_owned(), Gain::Windows(4));
    let hindered = |hindrance| Why::Hindered(hindrance, Duration::from_secs(7));
    let large = |shortage| Why::TooLarge(9, 5, shortage);
    let worth = |saves| Why::NotWorthIt {
        unit: "a window".to_owned(),
        saves,
        costs: 2e6,
        counts_time: false,
    };
    let missing = Some((2, Hindrance::NotHuge(tried())));
    use State::{Held, Refused, Waiting, WouldHold};
    vec![
        (
            Why::Held(Place::Group, windows, None),
            Held,
            "group_share",
            "share of its control group",
        ),
        (
            Why::Held(Place::User, windows, missing),
            Held,
            "user_share",
            "2 windows are not: the kernel made no huge folios: EINVAL",
        ),
        (
            Why::Held(Place::Rest, Gain::Folios, None),
            Held,
            "spare",
            "in the largest folios",
        ),
        (
            Why::HeldUndecided,
            Held,
            "not_decided",
            "decided in a second",
        ),
        (
            Why::WouldHold(Place::Rest),
            WouldHold,
            "spare",
            "no share needed",
        ),
        (
            hindered(Hindrance::InUse(tried(), vec![user()])),
            Waiting,
            "in_use",
            "in use by make",
        ),
        (
            hindered(Hindrance::InUse(tried(), vec![])),
            Waiting,
            "in_use",
            "in use; tried again in 7 s",
        ),
        (
            hindered(Hindrance::NotHuge(tried())),
            Waiting,
            "not_huge",
            "EINVAL; tried again",
        ),
        (
            hindered(Hindrance::ChargedElsewhere),
            Waiting,
            "charged_elsewhere",
            "memory limit may pay",
        ),
        (
            hindered(Hindrance::NoAnswer),
            Waiting,
            "no_answer",
            "did not answer",
        ),
        (
            hindered(Hindrance::Failed(tried())),
            Waiting,
            "failed",
            "EINVAL",
        ),
        (Why::Pressure, Waiting, "pressure", "memory was short"),
        (Why::Rests, Waiting, "rests", "though it is plenty"),
        (Why::LeftAlone, Waiting, "left_alone", "does not answer"),
        (Why::Soon(windows), Waiting, "soon", "made huge"),
        (Why::Soon(Gain::Folios), Waiting, "soon", "larger folios"),
        (
            Why::NotDecided,
            Waiting,
            "not_decided",
            "after the last decision",
        ),
        (Why::Filesystem(tried()), Refused, "filesystem", "EINVAL"),
        (Why::Excluded(Exclusion::Listed), Held, "listed", "listed"),
        (
            Why::Excluded(Exclusion::GroupShort),
            Refused,
            "cgroup_pressure",
            "at its memory limit",
        ),
        (
            Why::Excluded(Exclusion::Denied(3)),
            Refused,
            "denied",
            "by rule 3",
        ),
        (
            Why::Excluded(Exclusion::NotRun),
            Refused,
            "not_run",
            "not run",
        ),
        (
            Why::Excluded(Exclusion::Filesystem),
            Refused,
            "filesystem",
            "cannot hold it",
        ),
        (
            Why::Excluded(Exclusion::Unmountable),
            Refused,
            "unmountable",
            "may be unmounted",
        ),
        (
            Why::Excluded(Exclusion::RuleBudget(2)),
            Refused,
            "rule_budget",
            "budget of rule 2",
        ),
        (
            large(Shortage::Bound(Bound::Budget)),
            Refused,
            "budget",
            "the budget",
        ),
        (
            large(Shortage::Bound(Bound::GroupLimit)),
            Refused,
            "own_limit",
            "memory limit of the daemon",
        ),
        (
            large(Shortage::Bound(Bound::FreeMemory)),
            Refused,
            "free_memory",
            "free memory",
        ),
        (
            large(Shortage::Bound(Bound::Recovery)),
            Refused,
            "recovery",
            "memory was short",
        ),
        (
            large(Shortage::ListsFirst),
            Refused,
            "lists_first",
            "the lists",
        ),
        (Why::NoRoom(3, 5), Refused, "no_room", "others take the 5"),
        (
            worth(1e6),
            Refused,
            "not_worth_it",
            "1000 µs and costs 2000 µs",
        ),
        (
            worth(2.5e6),
            Refused,
            "not_yet_worth_it",
            "must save 1.5 times",
        ),
    ]
}

#[test]
fn each_reason_has_a_state_a_name_and_words_of_its_own() {
    let mut said = BTreeSet::new();
    for (why, state, name, part) in all() {
        assert_eq!((why.state(), why.cause().label()), (state, name), "{why:?}");
        assert!(why.to_string().contains(part), "{why}");
        assert!(said.insert(why.to_string()), "said twice: {why}");
        let written = serde_json::to_value(why.cause()).unwrap();
        assert_eq!(written, name, "documents and metrics have one name");
    }
}
