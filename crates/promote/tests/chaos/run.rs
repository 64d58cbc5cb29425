//! Carries the steps out, and counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use nix::sys::signal::Signal;

use crate::decide::{Change, Event, Happening, SLOTS, Slot, State, Step, Which, step};
use crate::programs::{Conduct, Program, families};
use crate::report::Figures;
use crate::target::{Health, Target};
use crate::tracer::{Ending, Tracer, TracerProgram, is_alarming, threads_of};

pub(crate) struct Chaos {
    seed: u64,
    families: Vec<Vec<Program>>,
    tracer: TracerProgram,
    slots: [Option<Target>; SLOTS],
    figures: Figures,
    number: u64,
    is_verbose: bool,
    /// Files of programs, while this value lives.
    _work: tempfile::TempDir,
}

/// What may have happened to the targets of a tracer.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    tracer_killed: bool,
    target_killed: bool,
}

impl Chaos {
    pub(crate) fn new(seed: u64) -> Chaos {
        let work = tempfile::tempdir().unwrap();
        let tracer = TracerProgram::of_environment();
        Chaos {
            seed,
            families: families(work.path()),
            figures: Figures::new(seed, tracer.is_command),
            tracer,
            slots: std::array::from_fn(|_| None),
            number: 0,
            is_verbose: std::env::var_os("HUGETEXT_CHAOS_VERBOSE").is_some(),
            _work: work,
        }
    }

    /// Takes steps for this time, and lets all targets end.
    pub(crate) fn run(&mut self, duration: Duration) -> Figures {
        let begun = Instant::now();
        while begun.elapsed() < duration {
            let step_begun = Instant::now();
            let next = step(self.seed, self.number, &self.state());
            self.take(&next);
            self.look_for_ended(&next);
            if self.is_verbose {
                println!(
                    "step {} took {:?}: {next:?}",
                    self.number,
                    step_begun.elapsed()
                );
            }
            self.number += 1;
        }
        for slot in 0..SLOTS {
            let last = Step::Finish { slot };
            self.take(&last);
        }
        self.figures.steps = self.number;
        self.figures.took = begun.elapsed();
        std::mem::take(&mut self.figures)
    }

    fn state(&self) -> State {
        let slot = |target: &Option<Target>| match target {
            None => Slot::Empty,
            Some(target) if target.is_stopped => Slot::Stopped,
            Some(target) if target.is_asked => Slot::Asked,
            Some(_) => Slot::Running,
        };
        State {
            slots: std::array::from_fn(|index| slot(&self.slots[index])),
            families: self.families.iter().map(Vec::len).collect(),
            is_command: self.tracer.is_command,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Start {
                slot,
                family,
                member,
            } => self.start(*slot, *family, *member),
            Step::Ask { slot } => self.ask(*slot, step),
            Step::Finish { slot } => self.finish(*slot, step),
            Step::Kill { slot } => {
                self.slots[*slot] = None;
                self.figures.killed += 1;
            }
            Step::Signal { slot, signals } => {
                if let Some(target) = &mut self.slots[*slot] {
                    target.signal(signals);
                    self.figures.signals += signals.len();
                }
            }
            Step::Trace {
                which,
                change,
                max_pause,
                event,
            } => {
                let chosen: Vec<usize> = match which {
                    Which::One(slot) => vec![*slot],
                    Which::All => (0..SLOTS).collect(),
                };
                let chosen = chosen
                    .into_iter()
                    .filter(|slot| self.slots[*slot].is_some())
                    .collect();
                self.trace(step, chosen, (*change, *max_pause), event.as_ref());
            }
        }
    }

    fn start(&mut self, slot: usize, family: usize, member: usize) {
        let program = &self.families[family][member];
        match Target::start(program) {
            Ok(target) => {
                *self
                    .figures
                    .started
                    .entry(program.name.clone())
                    .or_default() += 1;
                self.slots[slot] = Some(target);
            }
            Err(why) => {
                self.figures.unable.insert(program.name.clone(), why);
            }
        }
    }

    fn ask(&mut self, slot: usize, step: &Step) {
        let Some(target) = &mut self.slots[slot] else {
            return;
        };
        if target.program.conduct == Conduct::Refuses {
            return;
        }
        // The one call of a target that waits ends now.
        target.is_asked = target.program.ends_when_asked();
        self.figures.answers += 1;
        if let Err(wrong) = target.ask() {
            self.find(slot, step, &wrong);
        } else if self.slots[slot]
            .as_ref()
            .is_some_and(|target| target.is_asked)
        {
            self.slots[slot] = None;
        }
    }

    fn finish(&mut self, slot: usize, step: &Step) {
        let Some(mut target) = self.slots[slot].take() else {
            return;
        };
        target.signal(&[crate::decide::Sent::Continue]);
        let pid = target.pid;
        let name = target.program.name.clone();
        self.figures.answers += 1;
        if let Err(wrong) = target.finish() {
            self.record(pid, &name, step, &wrong);
        }
    }

    fn trace(
        &mut self,
        step: &Step,
        chosen: Vec<usize>,
        (change, max_pause): (Change, Option<u32>),
        event: Option<&Event>,
    ) {
        let Some(first) = chosen.first().copied() else {
            return;
        };
        let pids: Vec<Pid> = chosen
            .iter()
            .filter_map(|slot| Some(self.slots[*slot].as_ref()?.pid))
            .collect();
        let mut tracer = self.tracer.start(change, max_pause, &pids);
        let (mut expected, mut second) = (Expected::default(), None);
        if let Some(event) = event {
            self.wait_for(event, first, &mut tracer);
            (expected, second) = self.happen(&event.what, &pids, (first, &tracer));
        }
        let endings = [Some(tracer), second]
            .into_iter()
            .flatten()
            .map(Tracer::wait);
        let endings: Vec<Ending> = endings.collect();
        for ending in endings {
            self.count(change, &ending, expected);
            let alarm = ending.words.iter().find(|words| is_alarming(words));
            if let Some(threads) = &ending.late_in {
                self.find(first, step, &format!("the tracer did not end: {threads}"));
            } else if let Some(words) = alarm.filter(|_| !expected.target_killed) {
                self.find(first, step, words);
            }
        }
        for slot in chosen {
            // One target alone was killed.
            let target_killed = expected.target_killed && slot == first;
            let expected = Expected {
                target_killed,
                ..expected
            };
            self.audit(slot, step, expected);
        }
    }

    /// Waits for the moment of an event.
    fn wait_for(&self, event: &Event, slot: usize, tracer: &mut Tracer) {
        if event.once_traced {
            while let Some(target) = &self.slots[slot]
                && !target.is_traced()
                && !tracer.has_ended()
            {
                std::hint::spin_loop();
            }
        }
        // Shorter than any sleep is exact.
        let begun = Instant::now();
        while begun.elapsed() < event.after {
            std::hint::spin_loop();
        }
    }

    fn happen(
        &mut self,
        what: &Happening,
        pids: &[Pid],
        (slot, tracer): (usize, &Tracer),
    ) -> (Expected, Option<Tracer>) {
        let (mut expected, mut second) = (Expected::default(), None);
        match what {
            Happening::KillTracer => {
                tracer.signal(Signal::SIGKILL);
                expected.tracer_killed = true;
                self.figures.tracers_killed += 1;
            }
            Happening::HoldTracer(time) => {
                tracer.signal(Signal::SIGSTOP);
                std::thread::sleep(*time);
                tracer.signal(Signal::SIGCONT);
                self.figures.tracers_held += 1;
            }
            Happening::TerminateTracer => {
                tracer.signal(Signal::SIGTERM);
                expected.tracer_killed = true;
                self.figures.tracers_terminated += 1;
            }
            Happening::KillTarget => {
                if let Some(target) = &mut self.slots[slot] {
                    target.signal_kill();
                }
                expected.target_killed = true;
                self.figures.killed += 1;
            }
            Happening::SignalTarget(signals) => {
                if let Some(target) = &mut self.slots[slot] {
                    target.signal(signals);
                }
                self.figures.signals += signals.len();
            }
            Happening::SecondTracer(change) => {
                second = Some(self.tracer.start(*change, None, pids));
            }
        }
        (expected, second)
    }

    fn count(&mut self, change: Change, ending: &Ending, expected: Expected) {
        self.figures.runs += 1;
        self.figures.stops.extend(&ending.stops);
        let how = match ending.code {
            Some(0) => "done",
            Some(1) => "no",
            Some(_) => "error",
            None if expected.tracer_killed => "killed",
            None => "ended by a signal that was not sent",
        };
        *self
            .figures
            .endings
            .entry((format!("{change:?}"), how.to_owned()))
            .or_default() += 1;
        if !expected.target_killed {
            for words in &ending.words {
                *self.figures.words.entry(words.clone()).or_default() += 1;
            }
        }
    }

    /// Looks whether a target is as it was.
    fn audit(&mut self, slot: usize, step: &Step, expected: Expected) {
        let Some(target) = &mut self.slots[slot] else {
            return;
        };
        target.is_disturbed |= expected.tracer_killed;
        if expected.target_killed {
            self.slots[slot] = None;
            return;
        }
        // There is no code that ends a change without its tracer (src/arch).
        target.may_die |= expected.tracer_killed && !cfg!(target_arch = "x86_64");
        target.is_abandoned |= expected.tracer_killed;
        // What a killed tracer has left to do is done when the process runs again.
        let stands_still = target.is_abandoned && target.is_stopped;
        if target.health() != Health::Running || stands_still {
            return;
        }
        self.figures.audits += 1;
        let found = target.audit();
        if !found.is_empty() {
            self.find(slot, step, &found.join("; "));
        } else if !expected.tracer_killed {
            target.may_die = false;
        }
    }

    /// A target that ended though nobody ended it is a finding.
    fn look_for_ended(&mut self, step: &Step) {
        for slot in 0..SLOTS {
            let Some(target) = &mut self.slots[slot] else {
                continue;
            };
            match target.health() {
                Health::Running => {}
                Health::Killed if target.may_die => {
                    self.figures.ended_with_tracer += 1;
                    self.slots[slot] = None;
                }
                Health::Killed => self.find(slot, step, "it was killed"),
                Health::Ended(how) => match target.last_words() {
                    None => self.slots[slot] = None,
                    Some(said) => {
                        self.find(slot, step, &format!("it ended by {how}, and said {said:?}"))
                    }
                },
            }
        }
    }

    /// Records a finding and gives the target up.
    fn find(&mut self, slot: usize, step: &Step, what: &str) {
        if let Some(target) = self.slots[slot].take() {
            let what = format!("{what}; it: {}", threads_of(target.pid));
            self.record(target.pid, &target.program.name, step, &what);
        }
    }

    fn record(&mut self, pid: Pid, name: &str, step: &Step, what: &str) {
        let line = format!(
            "seed {} step {} pid {pid} ({name}): {what} [{step:?}]",
            self.seed, self.number
        );
        println!("finding: {line}");
        self.figures.findings.push(line);
    }
}

/// Counts by name.
pub(crate) type Counts = BTreeMap<String, u64>;
