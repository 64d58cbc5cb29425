//! What the next step is: a pure function of the seed, the number of the step, and what runs.

use std::time::Duration;

/// How many targets run at the same time.
pub(crate) const SLOTS: usize = 4;

/// What a decision depends on.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) slots: [Slot; SLOTS],
    /// The families of programs that this machine has, each with its number of members.
    pub(crate) families: Vec<usize>,
    /// Whether the tracer is the whole command, which can do more.
    pub(crate) is_command: bool,
}

/// A place for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Empty,
    Running,
    /// Its one call ends when it is asked.
    Asked,
    /// It was stopped by SIGSTOP.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Starts a program in an empty place.
    Start {
        slot: usize,
        family: usize,
        member: usize,
    },
    /// Asks for a sign of life: the right answer.
    Ask { slot: usize },
    /// Asks, ends the input and waits for the end of the program.
    Finish { slot: usize },
    /// Ends it by SIGKILL.
    Kill { slot: usize },
    /// Sends signals to it.
    Signal { slot: usize, signals: Vec<Sent> },
    /// Runs the tracer.
    Trace {
        which: Which,
        change: Change,
        max_pause: Option<u32>,
        event: Option<Event>,
    },
}

/// The targets of a tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    One(usize),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Promote,
    Merge,
    Revert,
    Jit,
}

/// A signal that a program ignores unless it says otherwise, or that stops it or releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Child,
    Urgent,
    Window,
    Stop,
    Continue,
}

/// What happens while the tracer works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) after: Duration,
    /// Counted from the moment at which the target is seen traced; otherwise from the start.
    pub(crate) once_traced: bool,
    pub(crate) what: Happening,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    KillTracer,
    /// SIGSTOP, and after this time SIGCONT.
    HoldTracer(Duration),
    TerminateTracer,
    KillTarget,
    SignalTarget(Vec<Sent>),
    /// Another tracer for the same targets.
    SecondTracer(Change),
}

/// The next step.
pub(crate) fn step(seed: u64, number: u64, state: &State) -> Step {
    // A generator of its own for each step: a step depends on no draw of another.
    let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let random = &mut random;
    let slot = random.usize(..SLOTS);
    let now = state.slots.get(slot).copied().unwrap_or(Slot::Empty);
    match (now, random.u32(..100)) {
        (Slot::Empty, _) => {
            let family = random.usize(..state.families.len().max(1));
            let members = state.families.get(family).copied().unwrap_or(1);
            let member = random.usize(..members.max(1));
            Step::Start {
                slot,
                family,
                member,
            }
        }
        (Slot::Stopped, 0..50) => Step::Signal {
            slot,
            signals: vec![Sent::Continue],
        },
        (_, 50..52) => Step::Kill { slot },
        (Slot::Running, 52..64) => Step::Ask { slot },
        (Slot::Running | Slot::Asked, 64..66) => Step::Finish { slot },
        (_, 66..72) => Step::Signal {
            slot,
            signals: signals(random),
        },
        (_, draw) => Step::Trace {
            which: if draw == 99 {
                Which::All
            } else {
                Which::One(slot)
            },
            change: change(random, state.is_command),
            max_pause: (random.u32(..5) == 0).then(|| random.u32(..4)),
            event: (random.u32(..3) == 0).then(|| event(random)),
        },
    }
}

fn change(random: &mut fastrand::Rng, is_command: bool) -> Change {
    match random.u32(..10) {
        0..3 => Change::Promote,
        3..6 => Change::Merge,
        6 if is_command => Change::Jit,
        _ => Change::Revert,
    }
}

fn event(random: &mut fastrand::Rng) -> Event {
    let what = match random.u32(..12) {
        0..3 => Happening::KillTracer,
        3..5 => Happening::HoldTracer(Duration::from_micros(random.u64(..20_000))),
        5 => Happening::TerminateTracer,
        6 => Happening::KillTarget,
        7..10 => Happening::SignalTarget(signals(random)),
        _ => Happening::SecondTracer(change(random, false)),
    };
    let once_traced = random.bool();
    let most = if once_traced { 4_000 } else { 60_000 };
    Event {
        after: Duration::from_micros(random.u64(..most)),
        once_traced,
        what,
    }
}

fn signals(random: &mut fastrand::Rng) -> Vec<Sent> {
    let all = [
        Sent::Child,
        Sent::Urgent,
        Sent::Window,
        Sent::Stop,
        Sent::Continue,
    ];
    (0..=random.usize(..6))
        .filter_map(|_| all.get(random.usize(..all.len())).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(slot: Slot) -> State {
        State {
            slots: [slot; SLOTS],
            families: vec![2, 30, 1],
            is_command: true,
        }
    }

    #[test]
    fn a_seed_decides_the_same_steps_again() {
        let steps = |seed| -> Vec<Step> {
            (0..200)
                .map(|number| step(seed, number, &state(Slot::Running)))
                .collect()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_kind_of_step_is_drawn_and_fits_what_runs() {
        let draw = |slot| (0..3000).map(move |number| step(1, number, &state(slot)));
        assert!(draw(Slot::Empty).all(|step| matches!(step, Step::Start { .. })));
        assert!(
            !draw(Slot::Stopped).any(|step| matches!(step, Step::Ask { .. } | Step::Finish { .. }))
        );
        assert!(!draw(Slot::Asked).any(|step| matches!(step, Step::Ask { .. })));
        let steps: Vec<Step> = draw(Slot::Running).collect();
        let has = |wanted: fn(&Step) -> bool| assert!(steps.iter().any(wanted));
        has(|step| matches!(step, Step::Kill { .. }));
        has(|step| matches!(step, Step::Finish { .. }));
        has(|step| matches!(step, Step::Signal { .. }));
        has(|step| {
            matches!(
                step,
                Step::Trace {
                    which: Which::All,
                    ..
                }
            )
        });
        has(|step| {
            matches!(
                step,
                Step::Trace {
                    change: Change::Jit,
                    ..
                }
            )
        });
        has(|step| {
            matches!(
                step,
                Step::Trace {
                    event: Some(_),
                    max_pause: Some(0),
                    ..
                }
            )
        });
    }
}
