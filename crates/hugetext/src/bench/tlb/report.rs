//! The result of `hugetext bench tlb`.

use std::fmt::Write;

use hugetext_tlb::{Core, Misses, Source};
use serde::Serialize;

use super::counters::Counted;
use super::layouts::Layout;
use crate::bench::{Comparison, Measure, Side, Unit};
use crate::table::{bytes, count, figures, percent};

/// The whole result. Everything except `run` is the same for the same binaries, input and page
/// cache.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) argv: Vec<String>,
    /// The emulator and its version.
    pub(super) emulator: String,
    /// Instructions executed.
    pub(super) instructions: u64,
    /// How many times execution went from one 4K page to another.
    pub(super) page_changes: u64,
    /// Number of 4K pages from which code was executed.
    pub(super) pages: u64,
    /// Number of files among them.
    pub(super) files: u64,
    pub(super) threads: u64,
    pub(super) layouts: Vec<Text>,
    /// Why the layout `today` is missing, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_today: Option<String>,
    /// Whether the layout `today` includes folios other than PMD leaves (root only).
    pub(super) folios_known: bool,
    pub(super) cores: Vec<CoreReport>,
    pub(super) hardware: Counted,
    pub(super) run: Run,
}

/// The text of all files that executed, under one layout.
#[derive(Debug, Serialize)]
pub(super) struct Text {
    pub(super) layout: Layout,
    pub(super) meaning: &'static str,
    /// Bytes of executable mappings.
    pub(super) text: u64,
    /// The part of it in PMD leaves.
    pub(super) pmd_mapped: u64,
}

/// The result, with the parts of it that a page of HTML shows.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    pub(super) report: Report,
    /// The machine, in one line.
    pub(super) summary: String,
    /// The command line.
    pub(super) invocation: String,
    pub(super) benchmarks: Vec<Comparison>,
}

/// The figures of one core.
#[derive(Debug, Serialize)]
pub(super) struct CoreReport {
    pub(super) core: &'static str,
    /// Whether the second level is shared with data. The model uses it for instructions alone.
    pub(super) l2_shared: bool,
    pub(super) layouts: Vec<Figures>,
    pub(super) sources: &'static [Source],
}

/// The figures of one core under one layout.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) layout: Layout,
    pub(super) l1_misses: u64,
    /// Per thousand instructions.
    pub(super) l1_mpki: f64,
    /// Misses in both levels: page-table walks.
    pub(super) l2_misses: u64,
    /// Per thousand instructions.
    pub(super) l2_mpki: f64,
}

/// The values that differ from run to run.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// Wall time of the emulation, with all models running at the same time.
    pub(super) seconds: f64,
    /// Processor time of both, user and system, over all processors.
    pub(super) processor_seconds: f64,
}

impl Figures {
    pub(super) fn new(layout: Layout, misses: Misses, instructions: u64) -> Figures {
        let mpki = |count: u64| match instructions {
            0 => 0.0,
            _ => 1000.0 * count as f64 / instructions as f64,
        };
        Figures {
            layout,
            l1_misses: misses.l1,
            l1_mpki: mpki(misses.l1),
            l2_misses: misses.l2,
            l2_mpki: mpki(misses.l2),
        }
    }
}

impl CoreReport {
    pub(super) fn new(core: &'static Core, layouts: Vec<Figures>) -> CoreReport {
        CoreReport {
            core: core.name,
            l2_shared: core.l2_shared,
            layouts,
            sources: core.sources,
        }
    }
}

impl Report {
    /// The text of the report.
    pub(super) fn show(&self, verbose: bool) -> String {
        let mut text = self.summary();
        let mut rows = Vec::new();
        for core in &self.cores {
            rows.extend(core.rows());
        }
        rows.extend(self.hardware.row());
        let header = [
            "core",
            "layout",
            "L1 misses",
            "per 1000",
            "vs 4k",
            "L2 misses",
            "per 1000",
            "vs 4k",
        ];
        text.push_str(&figures(&header, &[0, 1], rows));
        text.push_str("\n\n");
        text.push_str(&self.notes());
        if verbose {
            text.push_str(&self.sources());
        }
        text
    }

    /// The same result as a comparison of layouts. The counts are the same at every run, so there
    /// is one round.
    pub(super) fn comparison(&self) -> Comparison {
        let sides = self.layouts.iter().map(|layout| Side {
            name: layout.layout.name().to_owned(),
            state: layout.describe(),
        });
        let measures = self.cores.iter().flat_map(|core| {
            let measure = |level, of: fn(&Figures) -> f64| {
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
        }
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        let millions = self.instructions as f64 / 1e6;
        let _ = writeln!(text, "{}", self.argv.join(" "));
        let _ = writeln!(
            text,
            "{millions:.1} million instructions from {} of {}, {}; another \
             page every {:.1} instructions",
            count(self.pages, "page"),
            count(self.files, "file"),
            count(self.threads, "thread"),
            self.instructions as f64 / self.page_changes.max(1) as f64,
        );
        let _ = writeln!(
            text,
            "{} and {} models: {:.0} million instructions per second, {:.0} per second of \
             processor time",
            self.emulator,
            self.cores.len() * self.layouts.len(),
            millions / self.run.seconds,
            millions / self.run.processor_seconds,
        );
        for layout in &self.layouts {
            let _ = writeln!(text, "{:>10}: {}", layout.layout.name(), layout.describe());
        }
        text.push('\n');
        text
    }

    fn notes(&self) -> String {
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

    fn sources(&self) -> String {
        let mut text = String::new();
        for core in &self.cores {
            let _ = writeln!(text, "\n{}", core.core);
            for source in core.sources {
                let basis = if source.published {
                    "published"
                } else {
                    "assumed"
                };
                let _ = writeln!(text, "  {}\n    {basis}: {}", source.what, source.from);
            }
        }
        text
    }
}

impl Text {
    fn describe(&self) -> String {
        format!(
            "{}; {} of {} in PMD leaves",
            self.meaning,
            percent(self.pmd_mapped, self.text),
            bytes(self.text)
        )
    }
}

impl Counted {
    /// A row next to the models' `today`, in the columns of the level that the processor counts.
    fn row(&self) -> Option<Vec<String>> {
        let Counted::Available {
            instructions,
            itlb_misses,
        } = self
        else {
            return None;
        };
        let mpki = 1000.0 * *itlb_misses as f64 / (*instructions).max(1) as f64;
        let counted = [itlb_misses.to_string(), format!("{mpki:.3}"), String::new()];
        let other = || std::iter::repeat_n("-".to_owned(), 3);
        let name = ["hardware".to_owned(), "today".to_owned()].into_iter();
        Some(match Counted::are_walks() {
            true => name.chain(other()).chain(counted).collect(),
            false => name.chain(counted).chain(other()).collect(),
        })
    }
}

impl CoreReport {
    fn rows(&self) -> Vec<Vec<String>> {
        let base = self.layouts.first();
        let row = |figures: &Figures| {
            let against = |of: fn(&Figures) -> u64| match base {
                Some(base) if base.layout != figures.layout => change(of(base), of(figures)),
                _ => String::new(),
            };
            vec![
                self.core.to_owned(),
                figures.layout.name().to_owned(),
                figures.l1_misses.to_string(),
                format!("{:.3}", figures.l1_mpki),
                against(|figures| figures.l1_misses),
                figures.l2_misses.to_string(),
                format!("{:.3}", figures.l2_mpki),
                against(|figures| figures.l2_misses),
            ]
        };
        self.layouts.iter().map(row).collect()
    }
}

/// `-99.3%`.
fn change(before: u64, after: u64) -> String {
    match before {
        0 => "-".to_owned(),
        _ => format!("{:+.1}%", 100.0 * (after as f64 / before as f64 - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_stands_beside_the_level_it_counts() {
        let counted = Counted::Available {
            instructions: 2_000_000,
            itlb_misses: 3000,
        };
        let row = counted.row().unwrap();
        let at = if Counted::are_walks() { 5 } else { 2 };
        assert_eq!((row[at].as_str(), row[at + 1].as_str()), ("3000", "1.500"));
        assert_eq!(row.len(), 8);
        let reason = "none".to_owned();
        assert!(Counted::Missing { reason }.row().is_none());
    }
}
