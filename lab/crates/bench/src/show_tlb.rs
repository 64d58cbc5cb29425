//! Formats the instruction-TLB misses of a command as text.

use std::fmt::Write;

use crate::tlb::{CoreMisses, Counted, LayoutMisses, TlbReport};

use hugetext_answer::table::{count, figures};

/// The text of a report; with `verbose`, with the sources of the models.
pub(super) fn text(report: &TlbReport, verbose: bool) -> String {
    let mut text = summary(report);
    let mut rows = Vec::new();
    for core in &report.cores {
        rows.extend(rows_of(core));
    }
    rows.extend(hardware_row(&report.hardware));
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
    text.push_str(&report.notes());
    if verbose {
        text.push_str(&sources(report));
    }
    text
}

fn summary(report: &TlbReport) -> String {
    let mut text = String::new();
    let millions = report.instructions as f64 / 1e6;
    let _ = writeln!(text, "{}", report.argv.join(" "));
    let _ = writeln!(
        text,
        "{millions:.1} million instructions from {} of {}, {}; another \
             page every {:.1} instructions",
        count(report.pages, "page"),
        count(report.files, "file"),
        count(report.threads, "thread"),
        report.instructions as f64 / report.page_changes.max(1) as f64,
    );
    let _ = writeln!(
        text,
        "{} and {} models: {:.0} million instructions per second, {:.0} per second of \
             processor time",
        report.emulator,
        report.cores.len() * report.layouts.len(),
        millions / report.run.wall.as_secs_f64(),
        millions / report.run.processor.as_secs_f64(),
    );
    for layout in &report.layouts {
        let _ = writeln!(text, "{:>10}: {}", layout.layout.name(), layout.describe());
    }
    text.push('\n');
    text
}

fn sources(report: &TlbReport) -> String {
    let mut text = String::new();
    for core in &report.cores {
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

/// A row next to the models' `today`, in the columns of the level that the processor counts.
fn hardware_row(counted: &Counted) -> Option<Vec<String>> {
    let Counted::Available {
        instructions,
        itlb_misses,
    } = counted
    else {
        return None;
    };
    let mpki = 1000.0 * *itlb_misses as f64 / (*instructions).max(1) as f64;
    let counted = [itlb_misses.to_string(), format!("{mpki:.3}"), String::new()];
    let other = || std::iter::repeat_n("-".to_owned(), 3);
    let name = ["hardware".to_owned(), "today".to_owned()].into_iter();
    Some(if Counted::are_walks() {
        name.chain(other()).chain(counted).collect()
    } else {
        name.chain(counted).chain(other()).collect()
    })
}

/// The rows of one core.
fn rows_of(core: &CoreMisses) -> Vec<Vec<String>> {
    let base = core.layouts.first();
    let row = |figures: &LayoutMisses| {
        let against = |of: fn(&LayoutMisses) -> u64| match base {
            Some(base) if base.layout != figures.layout => change(of(base), of(figures)),
            _ => String::new(),
        };
        vec![
            core.core.to_owned(),
            figures.layout.name().to_owned(),
            figures.l1_misses.to_string(),
            format!("{:.3}", figures.l1_mpki),
            against(|figures| figures.l1_misses),
            figures.l2_misses.to_string(),
            format!("{:.3}", figures.l2_mpki),
            against(|figures| figures.l2_misses),
        ]
    };
    core.layouts.iter().map(row).collect()
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
        let row = hardware_row(&counted).unwrap();
        let at = if Counted::are_walks() { 5 } else { 2 };
        assert_eq!((row[at].as_str(), row[at + 1].as_str()), ("3000", "1.500"));
        assert_eq!(row.len(), 8);
        let reason = "none".to_owned();
        assert!(hardware_row(&Counted::Missing { reason }).is_none());
    }
}
