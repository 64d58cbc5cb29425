//! What a benchmark found.

use hugetext_bench::names::{AS_FOUND, FIXED, MERGED, SMALL, WARMED};
use hugetext_bench::{Comparison, Finding, Finer, Interval, Measure, Measured, Unit};
use hugetext_leaf::verdict::Verdict;

use super::machine::in_long_runs;
use super::sentence::Meaning;
use crate::output::quoted;
use crate::path::shown;

/// What takes longer than this is work, and not a start, in seconds.
const LONG: f64 = 0.1;
/// The most rounds and pairs that anybody waits for.
const MOST_ROUNDS: u32 = 2000;

/// What one benchmark found. `invocation` is the command line that ran it, `verdict` what is known of the machine.
pub fn bench(comparison: &Comparison, invocation: &str, verdict: Option<Verdict>) -> Meaning {
    let compared = comparison
        .measures
        .first()
        .and_then(|measure| Some((measure, headline(comparison, measure)?)));
    let Some((measure, (side, finding))) = compared else {
        let says = format!("{} compares nothing on this machine.", comparison.benchmark);
        return Meaning::new(says, "hugetext host");
    };
    let thing = Thing::of(comparison, measure);
    if measure.unit == Unit::PerThousand {
        return modelled(comparison, measure);
    }
    match finding {
        Finding::Less(interval) => less(comparison, &thing, side, interval, verdict),
        Finding::More(interval) => {
            let says = sentence(comparison, &thing, side, interval);
            Meaning::new(says, "hugetext host").and(machine(&thing, verdict))
        }
        Finding::Unseen { would, finer } => {
            let says = format!(
                "No difference seen{}: one of {} or more would have been; {} rounds would show one of {}.",
                thing.of_what(),
                share(would),
                finer.rounds,
                share(finer.share),
            );
            let says = says.replace(" rounds ", &format!(" {} ", unit_of_rounds(comparison)));
            Meaning::new(says, more_rounds(comparison, invocation, finer))
        }
        Finding::TooFew(finer) => too_few(comparison, &thing, invocation, finer),
    }
}

/// What several benchmarks found: a sentence for each, and the next command of the first. `None` of none.
pub fn benches(
    found: &[Comparison],
    invocation: &str,
    verdict: Option<Verdict>,
) -> Option<Meaning> {
    let mut told = found
        .iter()
        .map(|one| (one.benchmark.as_str(), bench(one, invocation, verdict)));
    let (name, first) = told.next()?;
    let rest: Vec<String> = told
        .map(|(name, one)| format!("{name}: {}", one.says))
        .collect();
    if rest.is_empty() {
        return Some(first);
    }
    Some(Meaning {
        says: format!("{name}: {}\n{}", first.says, rest.join("\n")),
        next: first.next,
    })
}

/// The side that is spoken of, and what the rounds say about it: of this project's own, the simplest that is within a
/// hundredth of the best; otherwise the last.
fn headline<'c>(comparison: &'c Comparison, measure: &Measure) -> Option<(&'c str, Finding)> {
    let (sides, base) = (comparison.sides.iter().enumerate(), comparison.baseline());
    let found = sides.filter_map(|(index, side)| {
        let ratio = measure.ratio(index, base)?;
        let finding = measure.finding(index, base)?;
        Some((side.name.as_str(), ratio.median, finding))
    });
    let found: Vec<(&str, f64, Finding)> = found.collect();
    let own = |name: &str| [WARMED, FIXED, MERGED].contains(&name);
    let gains = |finding: &Finding| matches!(finding, Finding::Less(_));
    let best = found
        .iter()
        .filter(|(name, _, finding)| own(name) && gains(finding))
        .map(|(_, ratio, _)| *ratio)
        .fold(f64::INFINITY, f64::min);
    let simplest = found
        .iter()
        .find(|(name, ratio, finding)| own(name) && gains(finding) && *ratio <= best + 0.01);
    let chosen = simplest
        .or_else(|| found.iter().find(|(name, ..)| own(name)))
        .or_else(|| found.iter().find(|(name, ..)| *name != SMALL))
        .or_else(|| found.first());
    chosen.map(|(name, _, finding)| (*name, *finding))
}

/// A model gives the same figure each time, so there is no interval.
fn modelled(comparison: &Comparison, measure: &Measure) -> Meaning {
    let sides = comparison.sides.iter().zip(&measure.values);
    let ratios = sides.filter_map(|(side, value)| Some((side, value.ratio?.median)));
    let best = ratios.min_by(|(_, one), (_, other)| one.total_cmp(other));
    let first = comparison
        .sides
        .first()
        .map_or("", |side| side.name.as_str());
    let says = match best {
        Some((side, ratio)) if ratio < 1.0 => format!(
            "{}: {} less with {} than with {first}, in the model.",
            measure.name,
            share(1.0 - ratio),
            side.name
        ),
        _ => format!(
            "{}: no side has fewer than {first}, in the model.",
            measure.name
        ),
    };
    Meaning::new(says, "hugetext host")
}

/// What is compared, as a sentence names it.
enum Thing {
    /// The start of a program.
    Start,
    /// Work that takes long.
    Work,
    /// A unit of the work of a service.
    Unit,
    /// Anything else: a quantity, and whether more of it is better.
    Measure { name: String, unit: Unit },
}

impl Thing {
    fn of(comparison: &Comparison, measure: &Measure) -> Thing {
        let seconds = measure.values.first().map(|value| value.estimate.median);
        match &comparison.measured {
            Some(Measured::Command { .. }) if seconds.is_some_and(|time| time < LONG) => {
                Thing::Start
            }
            Some(Measured::Command { .. } | Measured::Work { .. }) => Thing::Work,
            Some(Measured::Processes { .. }) => Thing::Unit,
            None => Thing::Measure {
                name: measure.name.clone(),
                unit: measure.unit,
            },
        }
    }

    /// The end of "no difference seen".
    fn of_what(&self) -> String {
        match self {
            Thing::Start => " in its starts".to_owned(),
            Thing::Work => " in this work".to_owned(),
            Thing::Unit => " in the processor time of its work".to_owned(),
            Thing::Measure { name, .. } => format!(" in {name}"),
        }
    }
}

/// Whether a side is faster or slower, and by how much.
fn sentence(comparison: &Comparison, thing: &Thing, side: &str, interval: Interval) -> String {
    let base = comparison.baseline();
    let first = comparison
        .sides
        .get(base)
        .map_or("", |side| side.name.as_str());
    let measure = comparison.measures.first();
    let at = comparison.sides.iter().position(|one| one.name == side);
    let ratio = measure
        .zip(at)
        .and_then(|(measure, at)| measure.ratio(at, base))
        .map_or(1.0, |ratio| ratio.median);
    let is_less = ratio < 1.0;
    let by = difference(ratio, interval);
    match thing {
        Thing::Start | Thing::Work => {
            let verb = if matches!(thing, Thing::Start) {
                "starts"
            } else {
                "is done"
            };
            let how = if is_less { "faster" } else { "slower" };
            format!(
                "It {verb} {by} {how} {} than {}.",
                state(side),
                state(first)
            )
        }
        Thing::Unit => {
            let how = if is_less { "less" } else { "more" };
            format!(
                "A unit of its work takes {by} {how} processor time with its text on huge pages."
            )
        }
        Thing::Measure { name, unit } => {
            let how = match unit {
                Unit::Seconds => {
                    if is_less {
                        "less"
                    } else {
                        "longer"
                    }
                }
                _ => {
                    if is_less {
                        "less"
                    } else {
                        "more"
                    }
                }
            };
            format!("{name}, {side}: {by} {how} than {first}.")
        }
    }
}

/// A side in a sentence.
fn state(side: &str) -> String {
    match side {
        WARMED => "with its text warmed".to_owned(),
        FIXED => "fixed and warmed".to_owned(),
        MERGED => "merged and warmed".to_owned(),
        AS_FOUND => AS_FOUND.to_owned(),
        other => format!("in {other}"),
    }
}

fn less(
    comparison: &Comparison,
    thing: &Thing,
    side: &str,
    interval: Interval,
    verdict: Option<Verdict>,
) -> Meaning {
    let says = sentence(comparison, thing, side, interval);
    let next = match &comparison.measured {
        Some(Measured::Command { program, words }) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            match side {
                WARMED => format!("hugetext warm {}", quoted(&shown(program))),
                MERGED => format!("hugetext run --merge -- {}", words.join(" ")),
                _ => format!("hugetext run -- {}", words.join(" ")),
            }
        }
        Some(Measured::Work { program }) => match side {
            WARMED => format!("hugetext warm {}", quoted(&shown(program))),
            _ => format!("hugetext fix --dry-run {}", quoted(&shown(program))),
        },
        Some(Measured::Processes { words }) => format!("hugetext promote {}", words.join(" ")),
        None => "hugetext host".to_owned(),
    };
    Meaning::new(says, next).and(machine(thing, verdict))
}

/// What the machine adds: only starts say nothing about long runs.
fn machine(thing: &Thing, verdict: Option<Verdict>) -> Option<&'static str> {
    match thing {
        Thing::Start => in_long_runs(verdict),
        Thing::Work | Thing::Unit | Thing::Measure { .. } => None,
    }
}

fn too_few(
    comparison: &Comparison,
    thing: &Thing,
    invocation: &str,
    finer: Option<Finer>,
) -> Meaning {
    let rounds = unit_of_rounds(comparison);
    let Some(finer) = finer else {
        let says = format!("So few {rounds} tell nothing{}.", thing.of_what());
        let usual = Finer {
            rounds: 12,
            share: 0.0,
        };
        return Meaning::new(says, more_rounds(comparison, invocation, usual));
    };
    if finer.rounds > MOST_ROUNDS {
        let says = format!(
            "Nothing can be told{}: the {rounds} differ too much by themselves, so other work should rest.",
            thing.of_what()
        );
        return Meaning::new(says, "hugetext host");
    }
    let says = format!(
        "Nothing can be told{} from so few {rounds}: {} would show a difference of {}.",
        thing.of_what(),
        finer.rounds,
        share(finer.share)
    );
    Meaning::new(says, more_rounds(comparison, invocation, finer))
}

/// What a round of the benchmark is called.
fn unit_of_rounds(comparison: &Comparison) -> &'static str {
    match comparison.measured {
        Some(Measured::Processes { .. }) => "pairs",
        _ => "rounds",
    }
}

/// The same command line with another number of rounds.
fn more_rounds(comparison: &Comparison, invocation: &str, finer: Finer) -> String {
    let option = format!("--{}", unit_of_rounds(comparison));
    let number = finer.rounds.min(MOST_ROUNDS).to_string();
    let mut words = shlex::split(invocation).unwrap_or_default();
    // Who reads the sentence is no program.
    let end = words.iter().position(|word| word == "--");
    let own = end.unwrap_or(words.len());
    if let Some(at) = words.iter().take(own).position(|word| word == "--json") {
        words.remove(at);
    }
    let end = words.iter().position(|word| word == "--");
    let end = end.unwrap_or(words.len());
    let given = words.iter().take(end).position(|word| *word == option);
    let joined = format!("{option}=");
    let same_word = words
        .iter()
        .take(end)
        .position(|word| word.starts_with(&joined));
    match (given, same_word) {
        (Some(at), _) if words.len() > at + 1 => {
            words.splice(at + 1..=at + 1, [number]);
        }
        (_, Some(at)) => {
            words.splice(at..=at, [option, number]);
        }
        _ => {
            // Behind the name of the benchmark, whose option it is.
            let name = words
                .iter()
                .position(|word| word == "bench")
                .map_or(1, |at| at + 1);
            let name = words
                .iter()
                .enumerate()
                .skip(name)
                .find(|(_, word)| !word.starts_with('-'));
            let at = name.map_or(end, |(at, _)| (at + 1).min(end));
            words.splice(at..at, [option, number]);
        }
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// `12 % (10 to 14 %)`: how far a ratio and its interval are from 1.
fn difference(ratio: f64, interval: Interval) -> String {
    let off = |value: f64| (value - 1.0).abs() * 100.0;
    let (one, other) = (off(interval.low), off(interval.high));
    let (low, high) = (one.min(other), one.max(other));
    let places = usize::from(off(ratio) < 9.95);
    format!(
        "{:.places$} % ({low:.places$} to {high:.places$} %)",
        off(ratio)
    )
}

/// A share in percent, short.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent >= 9.95 || (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests;
