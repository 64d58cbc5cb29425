//! The families of metrics, by the names that docs/metrics.md promises.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::{GivenBack, Snapshot};

/// A snapshot in the text format of OpenMetrics 1.0.
///
/// # Errors
/// None is known: text in memory can always be written.
pub fn openmetrics(snapshot: &Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("hugetext");
    registry.register_collector(Box::new(Families(snapshot.clone())));
    let mut written = String::new();
    text::encode(&mut written, &registry)?;
    Ok(written)
}

#[derive(Debug)]
struct Families(Snapshot);

/// A name, what it means, and its unit.
type Described = (&'static str, &'static str, Option<Unit>);
/// Names of labels with their values.
type Labels<'l, const N: usize> = [(&'static str, &'l str); N];

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (state, to) = (&self.0, &mut encoder);
        let version = ("build_info", "The version that runs", None);
        gauges(to, version, [([("version", state.version)], 1.0)])?;
        let host = ("host_info", "What huge text gives on this machine", None);
        gauges(to, host, [([("verdict", state.verdict)], 1.0)])?;
        let acts = "Whether it holds text (1) or only observes (0)";
        gauge(to, ("acts", acts, None), f64::from(u8::from(state.acts)))?;
        memory(to, state)?;
        seen(to, state)?;
        decided(to, state)?;
        own(to, state)
    }
}

fn memory(to: &mut DescriptorEncoder<'_>, state: &Snapshot) -> fmt::Result {
    for (name, help, bytes) in [
        (
            "budget",
            "What the administrator allows to hold",
            state.budget,
        ),
        ("allowed", "What may be held now", state.allowed),
        ("held", "Text held on huge pages", state.held),
        (
            "listed",
            "Part of what is held that lists name",
            state.listed,
        ),
        (
            "reachable",
            "Text of known files that huge leaves can map",
            state.reachable,
        ),
        (
            "own_memory",
            "Anonymous memory of the autopilot",
            state.own_bytes,
        ),
    ] {
        gauge(to, (name, help, Some(Unit::Bytes)), bytes as f64)?;
    }
    let saving = "What is held is expected to save so much over a half-life";
    let described = ("expected_saving", saving, Some(Unit::Seconds));
    gauge(to, described, state.expected_saving)
}

fn seen(to: &mut DescriptorEncoder<'_>, state: &Snapshot) -> fmt::Result {
    let starts = "Starts of programs and mappings of libraries that were seen";
    counters(to, ("starts", starts, None), [([], state.starts as f64)])?;
    let help = "Text in memory that processes map, by leaf, once for each process";
    let leaves = state.text.iter().map(|text| text.leaf.to_string());
    let leaves: Vec<String> = leaves.collect();
    let series = state.text.iter().zip(&leaves);
    let series = series.map(|(text, leaf)| {
        let labels = [("leaf", leaf.as_str()), ("unit", text.unit.as_str())];
        (labels, text.bytes as f64)
    });
    gauges(to, ("text", help, Some(Unit::Bytes)), series)?;
    let help = "Known files, by what is done about them and why";
    let series = state.files.iter().map(|files| {
        let labels = [("state", files.state), ("reason", files.reason)];
        (labels, files.files as f64)
    });
    gauges(to, ("files", help, None), series)
}

fn decided(to: &mut DescriptorEncoder<'_>, state: &Snapshot) -> fmt::Result {
    let series = state.decisions.iter().map(|(decision, times)| {
        let labels = [("decision", decision.decision), ("reason", decision.reason)];
        (labels, *times as f64)
    });
    let help = "Files that were held or released, and why";
    counters(to, ("decisions", help, None), series)?;
    let help = "Text released because memory was short";
    let described = ("given_back", help, Some(Unit::Bytes));
    counters(to, described, by_pressure(&state.given_back))?;
    let help = "How often memory was short";
    let stalls = state.stalls.iter();
    let series = stalls.map(|(pressure, times)| ([("pressure", *pressure)], *times as f64));
    counters(to, ("stalls", help, None), series)?;
    let errors = state.errors.iter();
    let series = errors.map(|(error, times)| ([("error", *error)], *times as f64));
    counters(to, ("errors", "What was lost or went wrong", None), series)
}

fn own(to: &mut DescriptorEncoder<'_>, state: &Snapshot) -> fmt::Result {
    let help = "Processor time of the autopilot";
    let described = ("own_cpu", help, Some(Unit::Seconds));
    counters(to, described, [([], state.own_seconds)])
}

fn by_pressure(numbers: &GivenBack) -> [(Labels<'static, 1>, f64); 3] {
    [
        ([("pressure", "some")], numbers.some as f64),
        ([("pressure", "full")], numbers.full as f64),
        ([("pressure", "cgroup")], numbers.cgroup as f64),
    ]
}

fn gauge(to: &mut DescriptorEncoder<'_>, described: Described, value: f64) -> fmt::Result {
    gauges(to, described, [([], value)])
}

fn gauges<'l, const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    described: Described,
    series: impl IntoIterator<Item = (Labels<'l, N>, f64)>,
) -> fmt::Result {
    let series = series.into_iter();
    family(
        to,
        described,
        series.map(|(labels, value)| (labels, ConstGauge::new(value))),
    )
}

fn counters<'l, const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    described: Described,
    series: impl IntoIterator<Item = (Labels<'l, N>, f64)>,
) -> fmt::Result {
    let series = series.into_iter();
    family(
        to,
        described,
        series.map(|(labels, value)| (labels, ConstCounter::new(value))),
    )
}

/// Writes a family, if it has any series.
fn family<'l, M: EncodeMetric, const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    (name, help, unit): Described,
    series: impl Iterator<Item = (Labels<'l, N>, M)>,
) -> fmt::Result {
    let mut series = series.peekable();
    let Some((_, first)) = series.peek() else {
        return Ok(());
    };
    // The text format ends the help with this dot.
    let help = format!("{help}.");
    let mut family = to.encode_descriptor(name, &help, unit.as_ref(), first.metric_type())?;
    for (labels, metric) in series {
        // A family of one series without labels.
        if N == 0 {
            return metric.encode(family);
        }
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::Leaf;

    use super::*;
    use crate::snapshot::{Decision, FilesIn, UnitText};

    #[test]
    fn a_snapshot_is_openmetrics() {
        let decision = Decision {
            decision: "hold",
            reason: "group_share",
        };
        let snapshot = Snapshot {
            version: "1.2.3",
            verdict: "harmful",
            acts: true,
            held: 4 << 20,
            starts: 7,
            decisions: [(decision, 2)].into(),
            files: vec![FilesIn {
                state: "held",
                reason: "group_share",
                files: 2,
            }],
            text: vec![UnitText {
                unit: "a\"b.service".to_owned(),
                leaf: Leaf::M2,
                bytes: 6 << 20,
            }],
            ..Snapshot::default()
        };
        let text = openmetrics(&snapshot).unwrap();
        for line in [
            "# TYPE hugetext_held_bytes gauge",
            "# UNIT hugetext_held_bytes bytes",
            "hugetext_held_bytes 4194304.0",
            "hugetext_host_info{verdict=\"harmful\"} 1.0",
            "hugetext_starts_total 7.0",
            "hugetext_decisions_total{decision=\"hold\",reason=\"group_share\"} 2.0",
            "hugetext_text_bytes{leaf=\"2M\",unit=\"a\\\"b.service\"} 6291456.0",
            "hugetext_given_back_bytes_total{pressure=\"full\"} 0.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
