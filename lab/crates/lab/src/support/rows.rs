//! The rows of docs/support.md, table by table. Pure.

use hugetext_lab_agent::{
    Attempt, Folios, HugePages, Locks, Method, MethodName, Placed, Probe, ProbeOutcome, Promoted,
    Thp,
};
use hugetext_leaf::{Filesystem, Leaf, Topic};
use serde::Serialize;

use crate::kernel::{Flavour, KernelId};
use crate::record::Boot;
use crate::rules::Row;

/// The rows of a table. An empty cell says that it was not measured.
pub(super) fn table(rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |mut row: Vec<String>| {
        for cell in row.iter_mut().filter(|cell| cell.is_empty()) {
            "—".clone_into(cell);
        }
        hugetext_report::as_row(&row)
    };
    rows.map(row).collect::<Vec<_>>().join("\n")
}

/// The results of a probe for the kernel of `boot`: in that boot, or on the other flavour of the
/// version.
fn on<'b>(
    boot: &'b Boot,
    stock: &[&'b Boot],
    fs: Filesystem,
    probe: Probe,
) -> Option<&'b ProbeOutcome> {
    let other = KernelId {
        flavour: match boot.kernel.flavour {
            Flavour::Amd64 => Flavour::Amd64Generic,
            flavour => flavour,
        },
        ..boot.kernel
    };
    let others = stock.iter().filter(|boot| boot.kernel == other);
    std::iter::once(&boot)
        .chain(others)
        .find_map(|boot| boot.outcome(fs.name(), Thp::Madvise, probe))
}

pub(super) fn filesystem(boot: &Boot, stock: &[&Boot]) -> Vec<String> {
    let gives = |fs: Filesystem| match on(boot, stock, fs, Probe::Methods) {
        Some(ProbeOutcome::Methods(methods)) => strongest(methods),
        _ => String::new(),
    };
    std::iter::once(release(boot))
        .chain(Filesystem::NAMED.map(gives))
        .collect()
}

/// The strongest method that worked, in the words of the document's introduction.
fn strongest(methods: &[Method]) -> String {
    let share = |name| {
        let method = methods.iter().find(|method| method.name == name)?;
        method.worked().then(|| {
            if method.found.pmd == method.possible {
                String::new()
            } else {
                format!(" {} %", 100 * method.found.pmd / method.possible.max(1))
            }
        })
    };
    let named = [
        (MethodName::Plain, "always huge"),
        (MethodName::Collapse, "collapse"),
        (MethodName::Readahead, "reread"),
        (MethodName::Write, "replace"),
    ];
    for (name, word) in named {
        if let Some(share) = share(name) {
            return format!("{word}{share}");
        }
    }
    let block = methods.iter().any(|method| method.found.contpte > 0);
    let size = methods
        .iter()
        .flat_map(|method| method.folios.keys())
        .max()
        .copied()
        .unwrap_or(0);
    if block {
        format!("{}, or store", if size >= 2 << 20 { "2M" } else { "64K" })
    } else {
        "store".to_owned()
    }
}

/// A rule, as the template says it in words.
#[derive(Serialize)]
pub(super) struct RuleRow<'r> {
    topic: Topic,
    filesystem: Option<String>,
    /// Whether it holds only where huge folios are.
    requires: bool,
    since: String,
    until: Option<String>,
    condition: Option<String>,
    /// `None` if every leaf.
    largest: Option<String>,
    evidence: &'r str,
    source: &'static str,
}

pub(super) fn rule(row: &Row) -> RuleRow<'_> {
    let rule = &row.rule;
    RuleRow {
        topic: rule.topic,
        filesystem: rule.filesystem.map(|filesystem| filesystem.to_string()),
        requires: rule.requires.is_some(),
        since: rule.since.to_string(),
        until: rule.until.map(|until| until.to_string()),
        condition: rule.condition.map(|condition| condition.to_string()),
        largest: (rule.largest != Leaf::M512).then(|| rule.largest.to_string()),
        evidence: &row.evidence,
        source: rule.source,
    }
}

/// The answers of the commands, filesystem by filesystem.
pub(super) fn commands(boot: &Boot) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (cell, outcome) in boot.outcomes(Probe::Commands) {
        let ProbeOutcome::Commands(found) = outcome else {
            continue;
        };
        let mut row = |command: &str, exit: String, said: String| {
            let place = cell.place.clone();
            rows.push(vec![release(boot), place, command.to_owned(), exit, said]);
        };
        for answer in &found.answers {
            let exit = answer
                .exit
                .map_or_else(String::new, |exit| exit.to_string());
            row(&format!("`{}`", answer.command), exit, answer.said.clone());
        }
        let huge = format!("{}/{}", mib(found.found.pmd), mib(found.text));
        row("text on PMD leaves", String::new(), huge);
    }
    rows
}

/// What could be done to running programs, and how often if a boot tried it repeatedly.
pub(super) fn running(boot: &Boot, rounds: Option<&Boot>) -> Vec<String> {
    let method = |name| {
        list(boot, Probe::Methods, |outcome| {
            let ProbeOutcome::Methods(methods) = outcome else {
                return None;
            };
            let method = methods.iter().find(|method| method.name == name)?;
            Some(method.worked())
        })
    };
    let worked = |attempt: &Attempt| attempt.exit == Some(0) && attempt.huge > 0;
    let promoted = |of: fn(&Promoted) -> Option<&Attempt>| {
        list(boot, Probe::Promote, |outcome| match outcome {
            ProbeOutcome::Promoted(found) => of(found).map(worked),
            _ => None,
        })
    };
    vec![
        boot.kernel.to_string(),
        method(MethodName::CollapseInUse),
        method(MethodName::CollapseRemote),
        promoted(|found| found.collapse.as_ref()),
        promoted(|found| Some(&found.remap)),
        rounds
            .map(|boot| boot.rounds().to_string())
            .unwrap_or_default(),
    ]
}

/// The filesystems on which something holds, among those on which `found` can tell.
fn list(boot: &Boot, probe: Probe, found: impl Fn(&ProbeOutcome) -> Option<bool>) -> String {
    let tell = |fs: Filesystem| Some((fs, found(boot.outcome(fs.name(), Thp::Madvise, probe)?)?));
    let told: Vec<(Filesystem, bool)> = Filesystem::NAMED
        .into_iter()
        .filter(|fs| *fs != Filesystem::HugeTmpfs)
        .filter_map(tell)
        .collect();
    let holds: Vec<&str> = told
        .iter()
        .filter(|(_, holds)| *holds)
        .map(|(fs, _)| fs.name())
        .collect();
    match (told.is_empty(), holds.is_empty()) {
        (true, _) => String::new(),
        (false, true) => "none".to_owned(),
        (false, false) => holds.join(", "),
    }
}

/// The usual folio of a file that was read, and of the same file when warm.
pub(super) fn sizes(boot: &Boot) -> Vec<String> {
    let usual = |folios: &Folios| {
        folios
            .iter()
            .max_by_key(|(_, bytes)| **bytes)
            .map(|(size, _)| *size)
    };
    let shown = |fs: Filesystem| {
        let Some(ProbeOutcome::Methods(methods)) =
            boot.outcome(fs.name(), Thp::Madvise, Probe::Methods)
        else {
            return String::new();
        };
        let plain = methods
            .iter()
            .find(|method| method.name == MethodName::Plain);
        let plain = plain.and_then(|method| usual(&method.folios)).unwrap_or(0);
        let best = methods
            .iter()
            .filter_map(|method| usual(&method.folios))
            .max()
            .unwrap_or(0);
        if best > plain {
            format!("{} → {}", size(plain), size(best))
        } else {
            size(plain)
        }
    };
    std::iter::once(boot.kernel.to_string())
        .chain(Filesystem::NAMED.map(shown))
        .collect()
}

pub(super) fn placement(boot: &Boot) -> Vec<String> {
    let on = |fs: Filesystem| match boot.outcome(fs.name(), Thp::Madvise, Probe::Placement) {
        Some(ProbeOutcome::Placement(placed)) => Some(placed),
        _ => None,
    };
    let all: Vec<(Filesystem, &Vec<Placed>)> = Filesystem::NAMED
        .into_iter()
        .filter_map(|fs| Some((fs, on(fs)?)))
        .collect();
    // The minimum over all filesystems: the part of the cost that comes from none of them.
    let least = |kind: &str, loader: Option<&str>, large: bool| {
        let of = |one: &&Placed| {
            one.kind == kind && one.loader.as_deref() == loader && (one.p_align == 2 << 20) == large
        };
        let found = all.iter().flat_map(|(_, placed)| placed.iter().filter(of));
        found
            .map(|one| one.bias_align)
            .min()
            .map(size)
            .unwrap_or_default()
    };
    let aligned = |placed: &[Placed]| {
        let of = |one: &&Placed| one.kind == "so" && one.p_align != 2 << 20;
        placed
            .iter()
            .filter(of)
            .all(|one| one.bias_align >= 2 << 20)
    };
    let filesystems: Vec<&str> = all
        .iter()
        .filter(|(_, placed)| aligned(placed))
        .map(|(fs, _)| fs.name())
        .collect();
    vec![
        boot.kernel.to_string(),
        least("pie", None, true),
        least("static-pie", None, true),
        least("so", Some("glibc"), true),
        least("so", Some("musl"), true),
        least("pie", None, false),
        if filesystems.is_empty() {
            "none".to_owned()
        } else {
            filesystems.join(", ")
        },
    ]
}

pub(super) fn programs(boot: &Boot, stock: &[&Boot]) -> Vec<Vec<String>> {
    let blocks = boot.hello.as_ref().is_some_and(|hello| hello.pmd > 2 << 20);
    let huge = |found: &HugePages| if blocks { found.contpte } else { found.pmd };
    let row = |file: &str| {
        let of = |fs: Filesystem| match on(boot, stock, fs, Probe::Programs) {
            Some(ProbeOutcome::Programs(texts)) => texts.iter().find(|text| text.file == file),
            _ => None,
        };
        let shown = |fs: Filesystem| {
            let Some(text) = of(fs) else {
                return String::new();
            };
            let windows = if blocks { text.text } else { text.possible };
            let cold = match huge(&text.cold) {
                0 => String::new(),
                cold => format!("{} → ", mib(cold)),
            };
            format!("{cold}{}/{}", mib(huge(&text.warm)), mib(windows))
        };
        let head = [boot.kernel.to_string(), file.to_owned()];
        head.into_iter()
            .chain(Filesystem::NAMED.map(shown))
            .collect()
    };
    ["cc1", "libgccjit.so.0"].map(row).to_vec()
}

/// Whether the THP mode made a difference, and where.
#[derive(Default, Serialize)]
pub(super) struct Modes {
    compared: usize,
    different: Vec<Different>,
}

/// Where the THP mode made a difference: what worked under each.
#[derive(Serialize)]
struct Different {
    place: &'static str,
    kernel: String,
    always: String,
    madvise: String,
    never: String,
}

pub(super) fn modes(boots: &[Boot]) -> Modes {
    let mut modes = Modes::default();
    for boot in boots {
        for fs in Filesystem::NAMED {
            let of = |thp| match boot.outcome(fs.name(), thp, Probe::Methods) {
                Some(ProbeOutcome::Methods(methods)) => Some(strongest(methods)),
                _ => None,
            };
            let found = [of(Thp::Always), of(Thp::Madvise), of(Thp::Never)];
            if let [Some(always), Some(madvise), Some(never)] = found {
                modes.compared += 1;
                if always != madvise || madvise != never {
                    modes.different.push(Different {
                        place: fs.name(),
                        kernel: boot.kernel.to_string(),
                        always,
                        madvise,
                        never,
                    });
                }
            }
        }
    }
    modes
}

/// Which file lost more under pressure.
#[derive(Default, Serialize)]
pub(super) struct Pressure {
    runs: u32,
    huge_lost_more: u32,
    huge_lost_less: u32,
    split: u32,
    rows: String,
}

pub(super) fn pressure(boots: &[&Boot]) -> Pressure {
    let mut pressure = Pressure::default();
    let mut rows = Vec::new();
    for boot in boots {
        for (cell, outcome) in boot.outcomes(Probe::Pressure) {
            let ProbeOutcome::Pressure(found) = outcome else {
                continue;
            };
            // If nothing was huge, nothing can be compared.
            if found.huge_before > 0 {
                pressure.runs += 1;
                pressure.huge_lost_more += u32::from(found.huge_resident < found.small_resident);
                pressure.huge_lost_less += u32::from(found.small_resident < found.huge_resident);
                pressure.split += u32::from(found.splits > 0);
            }
            rows.push(vec![
                boot.kernel.to_string(),
                cell.place.clone(),
                mib(found.bytes),
                mib(found.huge_before),
                mib(found.huge_resident),
                mib(found.small_resident),
                found.splits.to_string(),
            ]);
        }
    }
    pressure.rows = table(rows.into_iter());
    pressure
}

pub(super) fn times(boot: &Boot) -> Vec<String> {
    let mut row = vec![boot.kernel.to_string()];
    let mprotect = boot
        .outcomes(Probe::Mprotect)
        .find_map(|(_, outcome)| match outcome {
            ProbeOutcome::Mprotect(times) => Some(times),
            _ => None,
        });
    // On xfs, if it is measured: it has held huge folios for longer.
    let compile = [Filesystem::Xfs, Filesystem::Ext4]
        .into_iter()
        .find_map(
            |fs| match boot.outcome(fs.name(), Thp::Madvise, Probe::Compile) {
                Some(ProbeOutcome::Compile(found)) => Some((fs, found)),
                _ => None,
            },
        );
    match mprotect {
        Some(times) => {
            let ratio = |ns: u64| format!("{:.2}", ns as f64 / times.base_ns.max(1) as f64);
            row.push(ratio(times.pte_mapped_ns));
            row.push(times.folio_64k_ns.map(ratio).unwrap_or_default());
        }
        None => row.extend([String::new(), String::new()]),
    }
    match compile {
        Some((fs, found)) => {
            row.push(fs.name().to_owned());
            let millions = |ns: u64| format!("{:.1} M", ns as f64 / 1e6);
            row.push(millions(found.cold_ns));
            let change = 100.0 * (found.warm_ns as f64 / found.cold_ns.max(1) as f64 - 1.0);
            row.push(format!("{} ({change:+.1} %)", millions(found.warm_ns)));
            row.push(format!("{} → {}", found.cold_faults, found.warm_faults));
        }
        None => row.extend([const { String::new() }; 4]),
    }
    row
}

fn measured_locks(boot: &Boot) -> impl Iterator<Item = &Locks> {
    boot.outcomes(Probe::Locks)
        .flat_map(|(_, outcome)| match outcome {
            ProbeOutcome::Locks(layouts) => layouts.as_slice(),
            _ => &[],
        })
}

pub(super) fn lock_layouts<'b>(boots: &[&'b Boot]) -> Vec<&'b str> {
    let longest = boots.iter().max_by_key(|boot| measured_locks(boot).count());
    longest
        .iter()
        .flat_map(|boot| measured_locks(boot))
        .map(|locks| locks.layout.as_str())
        .collect()
}

pub(super) fn locks(boot: &Boot, layouts: &[&str]) -> Vec<String> {
    let of = |layout: &&str| {
        let found = measured_locks(boot).find(|locks| locks.layout == *layout);
        let shown = found.map(|l| format!("{} + {} ({})", l.start, l.exit, l.mappings));
        shown.unwrap_or_default()
    };
    std::iter::once(boot.kernel.to_string())
        .chain(layouts.iter().map(of))
        .collect()
}

fn release(boot: &Boot) -> String {
    match &boot.hello {
        Some(hello) => hello.release.clone(),
        None => boot.kernel.to_string(),
    }
}

fn mib(bytes: u64) -> String {
    (bytes >> 20).to_string()
}

/// The size of a folio.
fn size(bytes: u64) -> String {
    Leaf::from_bytes(bytes).map_or_else(|| bytes.to_string(), |leaf| leaf.to_string())
}
