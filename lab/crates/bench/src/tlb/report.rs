//! The instruction-TLB misses that were counted.

use std::fmt::Write;
use std::time::Duration;

use hugetext_tlb::{Core, Misses, Source};
use schemars::JsonSchema;
use serde::Serialize;

use super::counted::Counted;
use super::layouts::Layout;
use hugetext_bench::quantity::{bytes, percent};
use hugetext_bench::{Comparison, Measure, Side, Unit};

/// The whole result. Everything except `run` is the same for the same binaries, input and page
/// cache.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TlbReport {
    /// The command and its arguments.
    pub(crate) argv: Vec<String>,
    /// The emulator and its version.
    pub(crate) emulator: String,
    /// Instructions executed.
    pub(crate) instructions: u64,
    /// How many times execution went from one 4K page to another.
    pub(crate) page_changes: u64,
    /// Number of 4K pages from which code was executed.
    pub(crate) pages: u64,
    /// Number of files among them.
    pub(crate) files: u64,
    /// Threads of the process.
    pub(crate) threads: u64,
    /// The text under each layout.
    pub(crate) layouts: Vec<LayoutText>,
    /// Why the layout `today` is missing, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_today: Option<String>,
    /// Whether the layout `today` includes folios other than PMD leaves (root only).
    pub(crate) folios_known: bool,
    /// The figures, core by core.
    pub(crate) cores: Vec<CoreMisses>,
    /// What the processor counted during the native run.
    pub(crate) hardware: Counted,
    /// How long the emulation took.
    pub(crate) run: EmulationTime,
}

/// The text of all files that executed, under one layout.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct LayoutText {
    /// The layout.
    pub(crate) layout: Layout,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// Bytes of executable mappings.
    pub(crate) text: u64,
    /// The part of it in PMD leaves.
    pub(crate) pmd_mapped: u64,
}

/// The figures of one core.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct CoreMisses {
    /// Its name.
    pub(crate) core: &'static str,
    /// Whether the second level is shared with data. The model uses it for instructions alone.
    pub(crate) l2_shared: bool,
    /// The figures under each layout.
    pub(crate) layouts: Vec<LayoutMisses>,
    /// Where the facts about the core come from.
    pub(crate) sources: &'static [Source],
}

/// The figures of one core under one layout.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct LayoutMisses {
    /// The layout.
    pub(crate) layout: Layout,
    /// Misses of the first level.
    pub(crate) l1_misses: u64,
    /// Per thousand instructions.
    pub(crate) l1_mpki: f64,
    /// Misses in both levels: page-table walks.
    pub(crate) l2_misses: u64,
    /// Per thousand instructions.
    pub(crate) l2_mpki: f64,
}

/// The values that differ from run to run.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct EmulationTime {
    /// Wall time of the emulation, with all models running at the same time.
    #[serde(rename = "wall_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub(crate) wall: Duration,
    /// Processor time of both, user and system, over all processors.
    #[serde(rename = "processor_ns", serialize_with = "hugetext_host::nanoseconds")]
    #[schemars(with = "u64")]
    pub(crate) processor: Duration,
}

impl LayoutMisses {
    pub(super) fn new(layout: Layout, misses: Misses, instructions: u64) -> LayoutMisses {
        let mpki = |count: u64| match instructions {
            0 => 0.0,
            _ => 1000.0 * count as f64 / instructions as f64,
        };
        LayoutMisses {
            layout,
            l1_misses: misses.l1,
            l1_mpki: mpki(misses.l1),
            l2_misses: misses.l2,
            l2_mpki: mpki(misses.l2),
        }
    }
}

impl CoreMisses {
    pub(super) fn new(core: &'static Core, layouts: Vec<LayoutMisses>) -> CoreMisses {
        CoreMisses {
            core: core.name,
            l2_shared: core.l2_shared,
            layouts,
            sources: core.sources,
        }
    }
}

impl TlbReport {
    /// The same result as a comparison of layouts. The counts are the same at every run, so there
    /// is one round.
    pub(crate) fn comparison(&self) -> Comparison {
        let sides = self.layouts.iter().map(|layout| Side {
            name: layout.layout.name().to_owned(),
            state: layout.describe(),
        });
        let measures = self.cores.iter().flat_map(|core| {
            let measure = |level, of: fn(&LayoutMisses) -> f64| {
                let sides = core.layouts.iter().map(|figures| vec![of(figures)]);
                Measure::new(
                    format!("{}, {level} per 1000 instructions", core.core),
                    Unit::PerThousand,
                    sides.collect(),
                )
            };
            [
                measure("L1 misses", |figures| figures.l1_mpki),
                measure("L2 misses", |figures| figures.l2_mpki),
            ]
        });
        Comparison {
            benchmark: "tlb".to_owned(),
            title: format!(
                "instruction-TLB misses of {}, {:.1} million instructions, modelled",
                self.argv.join(" "),
                self.instructions as f64 / 1e6
            ),
            sides: sides.collect(),
            measures: measures.flatten().collect(),
            notes: self.notes().lines().map(str::to_owned).collect(),
            measured: None,
        }
    }

    /// What the reader needs to judge the figures, one line each.
    pub(crate) fn notes(&self) -> String {
        let mut text = String::new();
        if let Some(reason) = &self.no_today {
            let _ = writeln!(text, "no layout \"today\": {reason}");
        } else if !self.folios_known {
            let _ = writeln!(
                text,
                "today: PMD leaves only; smaller folios are visible to root only"
            );
        }
        let _ = match &self.hardware {
            Counted::Missing { reason } => {
                writeln!(
                    text,
                    "hardware counters: not available ({reason}); only the models count"
                )
            }
            Counted::Available {
                instructions,
                itlb_misses,
            } => writeln!(
                text,
                "hardware counters: {itlb_misses} iTLB misses in {instructions} instructions of the \
                 native run, in user mode",
            ),
        };
        let shared: Vec<&str> = self
            .cores
            .iter()
            .filter(|core| core.l2_shared)
            .map(|core| core.core)
            .collect();
        if !shared.is_empty() {
            let _ = writeln!(
                text,
                "L2 of {}: shared with data, here all for instructions, so its misses are a lower \
                 bound",
                shared.join(", "),
            );
        }
        text
    }
}

impl LayoutText {
    /// The layout in one line.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{}; {} of {} in PMD leaves",
            self.meaning,
            percent(self.pmd_mapped, self.text),
            bytes(self.text)
        )
    }
}
