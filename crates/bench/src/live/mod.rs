//! `hugetext bench live`: what huge text is worth to a service while it runs.
//!
//! The service's text is moved onto huge pages and back in short periods. A pair of periods is one of
//! each, in random order, so that neither load nor frequency of the machine favours a side. What is
//! compared is the processor time of a unit of work. After a switch the service runs for a moment
//! before it is measured: it fills its page tables again.

mod command;
#[cfg_attr(
    not(any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    path = "no_counters.rs"
)]
mod counters;
mod decide;
mod switch;
mod work;
mod work_error;

use std::time::{Duration, Instant};

use hugetext_engine::HostContext;
use hugetext_host::{Pid, cpu_time};

use self::counters::Counters;
use self::decide::{Decision, Expectation, FIRST_LOOK, LARGEST_TOLD, Plan};
use self::switch::{Switch, TextPlace, named};
use self::work::{Meter, between};
use self::work_error::WorkError;
use crate::comparison::{Comparison, Measure, Measured, Side, Unit};
use crate::error::{BenchError, BenchStop};
use crate::interrupt::{Bounds, Interrupt, NAP};
use crate::observer::Observer;
use crate::quantity::{bytes, count};
use crate::stats::Interval;

pub use self::switch::{Leave, Naming};
pub use self::work::Source;

/// What to measure.
#[derive(Debug)]
pub struct LiveSettings {
    /// The processes of the service.
    pub pids: Vec<Pid>,
    /// How the user named them.
    pub naming: Naming,
    /// The words that name them: their ids, or an option with its value.
    pub named: Vec<String>,
    /// What counts its work.
    pub work: Source,
    /// Length of a period.
    pub period: Duration,
    /// Time after each switch that is not measured.
    pub settle: Duration,
    /// The most pairs of periods.
    pub pairs: u32,
    /// The difference that matters, as a share: the measurement ends when it is sure that there is
    /// none as large.
    pub matters: f64,
    /// What the processes are left with.
    pub leave: Leave,
    /// Stop with an error after this many seconds.
    pub timeout: u64,
}

/// Compares a running service with its text on huge pages and off. However it ends, the processes are
/// left as the settings say.
pub fn bench_live(
    settings: &LiveSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let host = HostContext::with_huge_pages()?;
    let plan = Plan {
        pairs: settings.pairs,
        matters: settings.matters,
    };
    let mut service = Service {
        switch: Switch::new(&settings.pids, settings.naming, settings.leave, host)?,
        meter: Meter::open(&settings.work, &settings.pids).map_err(BenchError::from)?,
        done: None,
        settings,
        bounds: interrupt.within(settings.timeout),
    };
    observer.begin("pairs", u64::from(plan.pairs));
    let mut pairs = Pairs::default();
    let measured = service.measure(plan, &mut pairs, observer);
    observer.end();
    // The processes are left as wanted before any error is shown, and an error of that comes first.
    service.switch.leave()?;
    let decision = measured?;
    Ok(vec![pairs.comparison(plan, decision, &service)])
}

/// A service that is being measured.
struct Service<'a> {
    switch: Switch,
    meter: Meter,
    /// The units of work when they were last read.
    done: Option<f64>,
    settings: &'a LiveSettings,
    bounds: Bounds<'a>,
}

/// What a service did in one period.
#[derive(Debug, Clone)]
struct Period {
    units: f64,
    elapsed: Duration,
    processor_time: Duration,
    counted: Vec<(&'static str, Option<f64>)>,
}

impl Period {
    fn processor_time_per_unit(&self) -> f64 {
        self.processor_time.as_secs_f64() / self.units
    }
}

/// A period without work is prolonged to at most so many.
const LONGEST: u32 = 20;

/// Periods before the first switch, which show how much the service varies by itself.
const PILOT: u32 = 8;

impl Service<'_> {
    /// Periods of the first side alone.
    fn pilot(&mut self) -> Result<Vec<Period>, BenchError> {
        self.bring(TextPlace::SIDES[0])?;
        (0..PILOT).map(|_| self.observe()).collect()
    }

    /// Pairs until the answer is clear or the plan is done. What was measured is in `pairs`, whatever
    /// ends it.
    fn measure(
        &mut self,
        plan: Plan,
        pairs: &mut Pairs,
        observer: &dyn Observer,
    ) -> Result<Decision, BenchError> {
        let pilot = self.pilot()?;
        // Each is compared with the one before it.
        let expected = plan.expects(&ratios(&pilot, pilot.iter().skip(1)));
        observer.tell(&expectation(plan, expected));
        let mut random = fastrand::Rng::new();
        let looks = plan.looks();
        for number in 1..=plan.pairs {
            let mut order = TextPlace::SIDES;
            random.shuffle(&mut order);
            for text in order {
                self.bring(text)?;
                let period = self.observe()?;
                pairs.add(text, period, self.switch.pmd_mapped());
            }
            observer.step();
            if looks.contains(&number) {
                let decision = plan.decide(&ratios(&pairs.reverted, &pairs.promoted));
                if decision != Decision::Open {
                    return Ok(decision);
                }
            }
        }
        Ok(Decision::Open)
    }

    fn bring(&mut self, text: TextPlace) -> Result<(), BenchError> {
        self.switch.to(text)?;
        self.nap(self.settings.settle)
    }

    /// Measures a period. One in which no work was done is prolonged.
    fn observe(&mut self) -> Result<Period, BenchError> {
        let counters = Counters::start(&self.settings.pids);
        let (before, time, begun) = (self.units()?, self.processor_time()?, Instant::now());
        let mut naps = 0;
        let (units, elapsed, later) = loop {
            self.nap(self.settings.period)?;
            naps += 1;
            let (elapsed, later) = (begun.elapsed(), self.processor_time()?);
            match between(before, self.units()?) {
                // A machine with much else to do may run the service seldom.
                Err(WorkError::Stalled { .. }) if naps < LONGEST => {}
                units => break (units?, elapsed, later),
            }
        };
        let counted = counters.stop();
        Ok(Period {
            units,
            elapsed,
            processor_time: later.saturating_sub(time),
            counted,
        })
    }

    /// The units of work so far. A service may also restart between two periods.
    fn units(&mut self) -> Result<f64, BenchError> {
        let now = self.meter.read(&self.bounds)?;
        match self.done.replace(now) {
            Some(before) if now < before => Err(WorkError::WentBack {
                from: before,
                to: now,
            }
            .into()),
            _ => Ok(now),
        }
    }

    fn processor_time(&self) -> Result<Duration, BenchError> {
        // A process that has ended keeps its time until its parent has waited for it.
        self.switch.ensure_running()?;
        let times = self
            .settings
            .pids
            .iter()
            .map(|pid| cpu_time(*pid).map_err(|error| BenchError::new(named(*pid), error)));
        times.sum()
    }

    fn nap(&self, duration: Duration) -> Result<(), BenchError> {
        let begun = Instant::now();
        loop {
            self.bounds.check()?;
            let left = duration.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// The ratio of processor time for a unit of work, pair by pair.
fn ratios<'p>(first: &[Period], other: impl IntoIterator<Item = &'p Period>) -> Vec<f64> {
    let ratios = first
        .iter()
        .zip(other)
        .map(|(first, other)| other.processor_time_per_unit() / first.processor_time_per_unit());
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// What the user may expect, before anything is switched.
fn expectation(plan: Plan, expected: Option<Expectation>) -> String {
    match expected {
        None => "the service did not use any processor time".to_owned(),
        Some(Expectation::Finds(share)) => format!(
            "up to {} find a difference of {:.2} % in four of five measurements",
            count(plan.pairs, "pair"),
            share * 100.0
        ),
        Some(Expectation::TooFew(pairs)) => format!(
            "the service varies much by itself: {} may show nothing, and {pairs} would show a difference of {:.0} %; a \
             longer --period varies less",
            count(plan.pairs, "pair"),
            LARGEST_TOLD * 100.0
        ),
    }
}

/// What was measured so far.
#[derive(Debug, Default)]
struct Pairs {
    reverted: Vec<Period>,
    promoted: Vec<Period>,
    /// The most bytes that PMD leaves mapped in periods that should have had none.
    most_reverted: u64,
    /// The fewest bytes that they mapped in the other periods.
    least_promoted: Option<u64>,
}

impl Pairs {
    /// Adds a period, at whose end `pmd_mapped` bytes of text were on huge pages.
    fn add(&mut self, text: TextPlace, period: Period, pmd_mapped: u64) {
        match text {
            TextPlace::Reverted => {
                self.reverted.push(period);
                self.most_reverted = self.most_reverted.max(pmd_mapped);
            }
            TextPlace::Promoted => {
                self.promoted.push(period);
                let least = self.least_promoted.unwrap_or(u64::MAX);
                self.least_promoted = Some(least.min(pmd_mapped));
            }
        }
    }

    fn comparison(&self, plan: Plan, decision: Decision, service: &Service<'_>) -> Comparison {
        let mut notes = vec![answer(decision, plan, self.reverted.len())];
        notes.extend(Counters::start(&service.settings.pids).refused());
        if let Source::Instructions = service.settings.work {
            notes.push("a unit of work is a million instructions in user mode".to_owned());
        }
        let sides = [
            ("reverted", "at most", self.most_reverted),
            ("promoted", "at least", self.least_promoted.unwrap_or(0)),
        ];
        let sides = sides.map(|(name, bound, pmd_mapped)| Side {
            name: name.to_owned(),
            state: format!(
                "{bound} {} of text on huge pages in each period",
                bytes(pmd_mapped)
            ),
        });
        Comparison {
            benchmark: "live".to_owned(),
            title: format!(
                "{}, {} of {} ms, {} of text moved",
                count(service.settings.pids.len() as u64, "process"),
                count(self.reverted.len() as u64, "pair"),
                service.settings.period.as_millis(),
                bytes(service.switch.promoted()),
            ),
            sides: sides.into(),
            measures: self.measures(),
            notes,
            measured: Some(Measured::Processes {
                words: service.settings.named.clone(),
            }),
        }
    }

    fn measures(&self) -> Vec<Measure> {
        let both = |value: &dyn Fn(&Period) -> Option<f64>| {
            let sides = [&self.reverted, &self.promoted];
            let each = sides.map(|side| side.iter().map(value).collect::<Option<Vec<f64>>>());
            each.into_iter().collect::<Option<Vec<Vec<f64>>>>()
        };
        let mut measures = vec![
            both(&|period| Some(period.processor_time_per_unit()))
                .and_then(|sides| Measure::new("processor time per unit", Unit::Seconds, sides)),
            both(&|period| Some(period.units / period.elapsed.as_secs_f64()))
                .and_then(|sides| Measure::new("units per second", Unit::PerSecond, sides)),
        ];
        let counted = self.reverted.first().map(|period| period.counted.len());
        for index in 0..counted.unwrap_or(0) {
            let name = self
                .reverted
                .first()
                .and_then(|period| period.counted.get(index));
            let per_unit = both(&|period| Some((period.counted.get(index)?.1)? / period.units));
            measures.push(name.zip(per_unit).and_then(|((name, _), sides)| {
                Measure::new(format!("{name} per unit"), Unit::Count, sides)
            }));
        }
        measures.into_iter().flatten().collect()
    }
}

/// The decision in words.
fn answer(decision: Decision, plan: Plan, pairs: usize) -> String {
    let percent = |interval: Interval| {
        let (low, high) = ((interval.low - 1.0) * 100.0, (interval.high - 1.0) * 100.0);
        let sure = plan.confidence() * 100.0;
        format!("{low:+.2} % to {high:+.2} %, with {sure:.1} % confidence, after {pairs} pairs")
    };
    match decision {
        Decision::Less(interval) => {
            format!("huge text saves processor time: {}", percent(interval))
        }
        Decision::More(interval) => {
            format!("huge text costs processor time: {}", percent(interval))
        }
        Decision::Same(interval) => {
            format!("no difference that matters: {}", percent(interval))
        }
        Decision::Open if pairs < FIRST_LOOK as usize => {
            format!("undecided: {pairs} pairs are too few; raise --pairs")
        }
        Decision::Open => format!("undecided after {pairs} pairs; raise --pairs or --period"),
    }
}
