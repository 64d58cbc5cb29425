//! docs/support.md: what each kernel and filesystem supports, for readers. Pure.

mod rows;

use hugetext_lab_agent::{Probe, ProbeOutcome};
use hugetext_leaf::Filesystem;
use hugetext_report::PageError;
use serde::Serialize;

use crate::kernel::Flavour;
use crate::plan::Purpose;
use crate::record::Boot;
use crate::rules::Row;

/// The document, with all of its prose.
const TEMPLATE: &str = include_str!("../support.md");

/// What the template shows: tables as lines of Markdown, without their heads.
#[derive(Serialize)]
struct Support<'s> {
    rules: Vec<rows::RuleRow<'s>>,
    filesystems: [&'static str; Filesystem::NAMED.len()],
    flavours: Vec<OfFlavour>,
    running: String,
    placement: String,
    sizes: String,
    programs: String,
    commands: String,
    modes: rows::Modes,
    pressure: rows::Pressure,
    times: String,
    layouts: Vec<&'s str>,
    locks: String,
    gaps: Vec<GapOf>,
}

/// The kernels of one architecture and page size.
#[derive(Serialize)]
struct OfFlavour {
    name: &'static str,
    rows: String,
}

/// What a boot could not answer.
#[derive(Serialize)]
struct GapOf {
    kernel: String,
    #[serde(flatten)]
    gap: Gap,
}

/// A question without an answer, and why.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Gap {
    /// The guest ended early.
    Died { why: String },
    /// Modules or places that the guest lacks.
    Missing { what: Vec<String>, why: String },
    /// The record is older than the probe.
    Older { probe: Probe },
    /// A probe failed.
    Failed {
        probe: Probe,
        place: String,
        thp: &'static str,
        why: String,
    },
}

/// The document, from the record and the rules derived from it.
pub(crate) fn render(boots: &[Boot], rules: &[Row]) -> Result<String, PageError> {
    let stock: Vec<&Boot> = of(boots, Purpose::Behaviour).collect();
    // Boots for one filesystem only are shown with the others of their version.
    let main: Vec<&Boot> = stock
        .iter()
        .copied()
        .filter(|boot| main_flavour(boot))
        .collect();
    let flavours = Flavour::ALL.map(|flavour| {
        let of_flavour = main.iter().filter(|boot| boot.kernel.flavour == flavour);
        OfFlavour {
            name: flavour.name(),
            rows: rows::table(of_flavour.map(|boot| rows::filesystem(boot, &stock))),
        }
    });
    let measured = |of: &OfFlavour| !of.rows.is_empty();
    let running = main.iter().map(|boot| {
        let same = |other: &&Boot| other.kernel == boot.kernel;
        rows::running(boot, of(boots, Purpose::Rounds).find(same))
    });
    let arm = main
        .iter()
        .filter(|boot| boot.kernel.flavour.arch() == crate::arch::Arch::Arm64);
    let programs = main.iter().flat_map(|boot| rows::programs(boot, &stock));
    let layouts = rows::lock_layouts(&main);
    let support = Support {
        rules: rules.iter().map(rows::rule).collect(),
        filesystems: Filesystem::NAMED.map(Filesystem::name),
        flavours: flavours.into_iter().filter(measured).collect(),
        running: rows::table(running),
        placement: rows::table(main.iter().map(|boot| rows::placement(boot))),
        sizes: rows::table(arm.map(|boot| rows::sizes(boot))),
        programs: rows::table(programs),
        commands: rows::table(main.iter().flat_map(|boot| rows::commands(boot))),
        modes: rows::modes(boots),
        pressure: rows::pressure(&main),
        times: rows::table(of(boots, Purpose::Times).map(rows::times)),
        locks: rows::table(main.iter().map(|boot| rows::locks(boot, &layouts))),
        layouts,
        gaps: all_gaps(boots),
    };
    hugetext_report::render("lab/crates/lab/support.md", TEMPLATE, &support)
}

/// The boots for `purpose`.
fn of(boots: &[Boot], purpose: Purpose) -> impl Iterator<Item = &Boot> {
    boots.iter().filter(move |boot| boot.purpose == purpose)
}

/// Whether a boot measures everything, as opposed to the one filesystem that others lack.
fn main_flavour(boot: &Boot) -> bool {
    boot.kernel.flavour != Flavour::Amd64Generic
}

/// The questions that boots could not answer, and why.
fn all_gaps(boots: &[Boot]) -> Vec<GapOf> {
    let shown = |boot: &&Boot| boot.purpose == Purpose::Behaviour || boot.died.is_some();
    let of_boot = |boot: &Boot| {
        let kernel = boot.kernel.to_string();
        let gaps = gaps(boot).into_iter();
        gaps.map(move |gap| GapOf {
            kernel: kernel.clone(),
            gap,
        })
    };
    boots.iter().filter(shown).flat_map(of_boot).collect()
}

/// The questions that a boot could not answer, and why.
fn gaps(boot: &Boot) -> Vec<Gap> {
    let died = boot.died.iter().cloned();
    let mut gaps: Vec<Gap> = died.map(|why| Gap::Died { why }).collect();
    let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
    for (what, why) in &boot.missing {
        match by_reason.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, things)) => things.push(what.clone()),
            None => by_reason.push((why, vec![what.clone()])),
        }
    }
    gaps.extend(by_reason.into_iter().map(|(why, what)| Gap::Missing {
        what,
        why: why.to_owned(),
    }));
    let promotes = boot.kernel.flavour.arch().facts().promotes;
    if main_flavour(boot) && promotes && boot.outcomes(Probe::Promote).next().is_none() {
        let probe = Probe::Promote;
        gaps.push(Gap::Older { probe });
    }
    let is_missing = |place: &str| boot.missing.iter().any(|(what, _)| what == place);
    for (cell, outcome) in &boot.results {
        if let ProbeOutcome::Failed(why) = outcome
            && !is_missing(&cell.place)
        {
            gaps.push(Gap::Failed {
                probe: cell.probe,
                place: cell.place.clone(),
                thp: cell.thp.word(),
                why: why.clone(),
            });
        }
    }
    gaps
}
