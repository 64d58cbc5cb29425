//! The words of `hugetext host`.

use hugetext_engine::AsFound;
use hugetext_leaf::verdict::{Agreement, Calls, Change, Doubt, Hypervisor, Spread, Verdict};

use crate::documents::host::HostReport;
use crate::meaning::Meaning;
use crate::table::bytes;

/// The whole report. Its last line is what it means.
pub(super) fn report(report: &HostReport) -> String {
    let mut lines = vec![machine(report), String::new()];
    lines.extend(rows(report).map(|(name, text)| format!("{name:<14} {text}")));
    lines.push(String::new());
    lines.extend(report.found.changes.iter().map(|change| advice(*change)));
    lines.push(meaning_of(report).to_string());
    lines.join("\n")
}

fn machine(report: &HostReport) -> String {
    let guest = match report.found.platform.hypervisor {
        None => "",
        Some(Hypervisor::Kvm) => ", a guest of KVM",
        Some(Hypervisor::Xen) => ", a guest of Xen",
        Some(Hypervisor::HyperV) => ", a guest of Hyper-V",
        Some(Hypervisor::Vmware) => ", a guest of VMware",
        Some(Hypervisor::Other) => ", a guest",
    };
    let signature = report.found.platform.signature;
    let signature = signature
        .map(|number| format!(" ({number})"))
        .unwrap_or_default();
    format!("{}{signature}{guest}", report.machine)
}

fn rows(report: &HostReport) -> impl Iterator<Item = (&'static str, String)> {
    let judgement = &report.found.judgement;
    let rows = [
        ("text on disk", mounts(report)),
        ("as found", report.as_found.as_ref().map(as_found)),
        ("calls", judgement.calls.map(calls)),
        ("behind leaves", judgement.missed.map(behind_leaves)),
        ("a system call", judgement.system_call.map(system_call)),
        (
            "a fault",
            report.fault.map(|time| format!("takes {time:.0} ns")),
        ),
        (
            "a fill",
            report
                .fill
                .map(|time| format!("takes {:.0} µs for each window", time / 1e3)),
        ),
        ("readahead", readahead(report)),
        ("loader", Some(loader(report))),
        ("confinement", confinement(report)),
        ("how sure", judgement.agreement.map(agreement)),
        ("other work", report.load.and_then(load)),
    ];
    rows.into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
}

fn mounts(report: &HostReport) -> Option<String> {
    let each = report.mounts.iter().map(|mount| {
        let path = mount.path.display();
        let gets = if mount.leaf > report.machine.page {
            format!("leaves of {}", mount.leaf)
        } else {
            "small folios, so copies serve".to_owned()
        };
        format!("{path} ({}): {gets}", mount.filesystem)
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// The text of the programs that run.
fn as_found(found: &AsFound) -> String {
    match found {
        AsFound::Folios(text) => format!("{} of text that runs: {found}", bytes(text.cached)),
        AsFound::Hidden => format!("the text that runs lies {found}"),
    }
}

fn calls(calls: Calls) -> String {
    format!(
        "{:.0} ns into small folios, {:.0} into huge ones behind tables, {:.0} behind leaves, {:.0} without misses",
        calls.small, calls.tables, calls.leaves, calls.gathered
    )
}

fn behind_leaves(missed: Spread) -> String {
    format!(
        "calls take {} longer than calls that miss nothing in the TLB ({})",
        share(missed.median),
        range(missed)
    )
}

fn system_call(cost: Spread) -> String {
    match cost.median {
        more if more < 0.05 => "costs text behind leaves no more than other text".to_owned(),
        more => format!(
            "costs text behind leaves {} more for a pass over 1M of text ({})",
            share(more),
            range(cost)
        ),
    }
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn range(spread: Spread) -> String {
    format!(
        "{:.0} to {:.0}",
        spread.lowest * 100.0,
        spread.highest * 100.0
    )
}

fn readahead(report: &HostReport) -> Option<String> {
    let first = report.mounts.first()?;
    Some(format!(
        "{} at {}",
        bytes(first.readahead?),
        first.path.display()
    ))
}

fn loader(report: &HostReport) -> String {
    match (&report.loader.glibc, report.loader.asks) {
        (Some(version), true) => format!("glibc {version} asks for huge text (glibc.elf.thp=1)"),
        (Some(version), false) => format!("glibc {version} does not ask for huge text"),
        (None, _) => "unknown: this command is static".to_owned(),
    }
}

fn confinement(report: &HostReport) -> Option<String> {
    let namespace = report.confinement.no_namespace.as_ref();
    let namespace = namespace.map(|why| format!("`run` cannot show copies: {why}"));
    let memory = report
        .confinement
        .memory
        .map(|limit| format!("{} of memory", bytes(limit)));
    let quota = report.confinement.quota;
    let quota = quota.map(|quota| format!("{quota:.1} processors of time (cpu.max)"));
    let limits = memory.into_iter().chain(quota);
    let each: Vec<String> = namespace.into_iter().chain(limits).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// How many trials say what the verdict says.
fn agreement(sure: Agreement) -> String {
    format!("{} of {} trials agree", sure.agree, sure.trials)
}

/// Above one task for each processor, trials are disturbed.
fn load(load: f64) -> Option<String> {
    let text = || format!("{load:.1} tasks for each processor, so these times are less sure");
    (load > 1.0).then(text)
}

/// What the verdict means, in a sentence or two.
fn conclusion(report: &HostReport) -> String {
    let judgement = &report.found.judgement;
    match (judgement.verdict, judgement.doubt) {
        (Verdict::WorthIt, _) => {
            "Huge text is worth it here: programs start faster, and their text runs with fewer TLB misses.".to_owned()
        }
        (Verdict::StartsOnly, _) => {
            format!("Programs start faster with huge text here. {} Programs that run for long gain almost nothing.", split(report))
        }
        (Verdict::Harmful, _) => format!(
            "Programs start faster with huge text here. {} Programs of many system calls lose by leaves.",
            split(report)
        ),
        (Verdict::CannotTell, Some(Doubt::NoHugePages)) => {
            "Huge text is not possible here: this kernel has no huge pages.".to_owned()
        }
        (Verdict::CannotTell, doubt) => {
            let doubt = doubt.map(|doubt| format!(", because {doubt}")).unwrap_or_default();
            format!("Whether text runs faster on huge pages cannot be told here{doubt}. Starts gain wherever leaves map text.")
        }
    }
}

/// How many entries of the TLB a leaf takes, and why.
fn split(report: &HostReport) -> &'static str {
    match (
        report.found.judgement.is_one_entry(),
        report.found.platform.hypervisor,
    ) {
        (true, _) => "A huge leaf takes one TLB entry.",
        (false, Some(_)) => {
            "The host backs this guest by small pages, so a huge leaf takes many TLB entries."
        }
        (false, None) => {
            "The processor has few large TLB entries, so a huge leaf takes many small ones."
        }
    }
}

fn advice(change: Change) -> String {
    let text = match change {
        Change::HugePagesOnTheHost => {
            "back the memory of this guest by huge pages on its host (Firecracker: huge_pages; QEMU and libvirt: \
             hugepages or THP on the host; in a cloud, another type of machine)"
        }
        Change::NxHugePagesOff => {
            "or, if its host is affected by iTLB multihit and trusts its guests, kvm.nx_huge_pages=off there"
        }
        Change::LaterProcessor => "a processor with more large entries in its instruction TLB",
        Change::KernelWithHugePages => "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        Change::QuietMachine => "ask again while less other work runs",
    };
    format!("What would change it: {text}.")
}

fn meaning_of(report: &HostReport) -> Meaning {
    match report.found.judgement.doubt {
        Some(Doubt::NoHugePages) => Meaning::last(conclusion(report)),
        _ => Meaning::new(conclusion(report), "hugetext check PROGRAM"),
    }
}
