use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::Serialize;

use crate::{Scheme, Workload};

/// The throughput of a number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StormOutcome {
    /// Cores that start processes.
    pub cores: u32,
    /// Process starts per second, of all cores together.
    pub starts_per_second: f64,
    /// Share of the cores' time spent waiting for a lock, 0 to 1.
    pub waiting: f64,
}

/// A lock: the cores that wait, and the core that had it last.
#[derive(Default)]
struct Lock {
    waiting: VecDeque<(usize, u64)>,
    busy: bool,
    last: Option<usize>,
}

/// A core on its way through one process start.
struct Core {
    step: usize,
    starts: u64,
    waited: u64,
}

/// The next event of a core: it requests the lock of its step, or releases it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Want,
    Done,
}

/// Runs `cores` cores until each has done about `starts` process starts, after a tenth of that to
/// settle. The work between trips is exponentially distributed around its mean, from `seed`.
///
/// Without cores, trips or starts, the outcome is all zeros.
pub fn simulate(
    workload: &Workload,
    scheme: Scheme,
    cores: u32,
    starts: u32,
    seed: u64,
) -> StormOutcome {
    let route = workload.route();
    let mut none = StormOutcome {
        cores,
        starts_per_second: 0.0,
        waiting: 0.0,
    };
    if cores == 0 || starts == 0 || route.is_empty() {
        return none;
    }
    let mut run = Run::new(workload, scheme, cores as usize, route, seed);
    let target = u64::from(starts) * u64::from(cores);
    run.until(target / 10);
    let from = run.now;
    run.cores.iter_mut().for_each(|core| core.waited = 0);
    let before = run.started();
    run.until(before + target);

    let elapsed = (run.now - from) as f64;
    let waited: u64 = run.cores.iter().map(|core| core.waited).sum();
    if elapsed > 0.0 {
        none.starts_per_second = (run.started() - before) as f64 / elapsed * 1e12;
        none.waiting = waited as f64 / (elapsed * f64::from(cores));
    }
    none
}

/// Time is in picoseconds, so that it is exact and ordered.
struct Run {
    now: u64,
    events: BinaryHeap<Reverse<(u64, usize, Event)>>,
    cores: Vec<Core>,
    locks: Vec<Lock>,
    locks_per_file: usize,
    route: Vec<usize>,
    pieces_ns: f64,
    hold: u64,
    transfer: u64,
    random: fastrand::Rng,
}

impl Run {
    fn new(
        workload: &Workload,
        scheme: Scheme,
        cores: usize,
        route: Vec<usize>,
        seed: u64,
    ) -> Self {
        let locks_per_file = scheme.locks() as usize;
        let mut run = Self {
            now: 0,
            events: BinaryHeap::new(),
            cores: (0..cores)
                .map(|_| Core {
                    step: 0,
                    starts: 0,
                    waited: 0,
                })
                .collect(),
            locks: (0..workload.files.len() * locks_per_file)
                .map(|_| Lock::default())
                .collect(),
            locks_per_file,
            pieces_ns: workload.work_ns / route.len() as f64,
            route,
            hold: picoseconds(scheme.hold_ns(workload)),
            transfer: picoseconds(scheme.transfer_ns(workload)),
            random: fastrand::Rng::with_seed(seed),
        };
        for core in 0..cores {
            run.work(core);
        }
        run
    }

    fn started(&self) -> u64 {
        self.cores.iter().map(|core| core.starts).sum()
    }

    fn until(&mut self, starts: u64) {
        let mut done = self.started();
        while done < starts {
            let Some(Reverse((time, core, event))) = self.events.pop() else {
                return;
            };
            self.now = time;
            match event {
                Event::Want => self.want(core),
                Event::Done => done += self.done(core),
            }
        }
    }

    /// The work before the next trip.
    fn work(&mut self, core: usize) {
        let piece = -self.pieces_ns * (1.0 - self.random.f64()).ln();
        self.events
            .push(Reverse((self.now + picoseconds(piece), core, Event::Want)));
    }

    fn lock_of(&self, core: usize) -> usize {
        let file = self.route[self.cores[core].step];
        file * self.locks_per_file + core % self.locks_per_file
    }

    fn want(&mut self, core: usize) {
        let lock = self.lock_of(core);
        self.locks[lock].waiting.push_back((core, self.now));
        self.serve(lock);
    }

    fn serve(&mut self, lock: usize) {
        let state = &mut self.locks[lock];
        if state.busy {
            return;
        }
        let Some((core, since)) = state.waiting.pop_front() else {
            return;
        };
        let travels = state.last.is_some_and(|last| last != core);
        state.busy = true;
        state.last = Some(core);
        self.cores[core].waited += self.now - since;
        let time = self.hold + if travels { self.transfer } else { 0 };
        self.events
            .push(Reverse((self.now + time, core, Event::Done)));
    }

    /// Releases the lock. Returns how many process starts that completes: 0 or 1.
    fn done(&mut self, core: usize) -> u64 {
        let lock = self.lock_of(core);
        self.locks[lock].busy = false;
        self.serve(lock);
        let state = &mut self.cores[core];
        state.step += 1;
        let complete = state.step == self.route.len();
        if complete {
            state.step = 0;
            state.starts += 1;
        }
        self.work(core);
        u64::from(complete)
    }
}

fn picoseconds(ns: f64) -> u64 {
    (ns.max(0.0) * 1000.0).round() as u64
}
