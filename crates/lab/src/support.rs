//! docs/support.md: what each kernel and filesystem gives, for readers. Pure.

use std::fmt::Write;

use hugetext_lab_agent::{HugePages, Locks, Outcome, Placed, Probe, Rung, RungName, Thp};

use crate::image::Fs;
use crate::kernel::Flavour;
use crate::record::Boot;

/// The document.
pub(crate) fn render(boots: &[Boot]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for flavour in Flavour::ALL {
        let of_flavour = |boot: &&Boot| boot.kernel.flavour == flavour && !boot.icount;
        let boots: Vec<&Boot> = boots.iter().filter(of_flavour).collect();
        if !boots.is_empty() {
            line(&mut text, &format!("\n### {}\n", title(flavour)));
            table(
                &mut text,
                &filesystem_header(),
                boots.iter().map(|boot| filesystem_row(boot)),
            );
        }
    }
    line(&mut text, PLACEMENT);
    let stock: Vec<&Boot> = boots.iter().filter(|boot| !boot.icount).collect();
    table(
        &mut text,
        &PLACEMENT_HEADER,
        stock.iter().map(|boot| placement_row(boot)),
    );
    line(&mut text, PROGRAMS);
    let mut header = filesystem_header();
    header.insert(1, "file");
    table(
        &mut text,
        &header,
        stock.iter().flat_map(|boot| program_rows(boot)),
    );
    line(&mut text, MODES);
    line(&mut text, &modes(boots));
    line(&mut text, PRESSURE);
    table(
        &mut text,
        &PRESSURE_HEADER,
        stock.iter().flat_map(|boot| pressure_rows(boot)),
    );
    line(&mut text, TIMES);
    let timed = boots.iter().filter(|boot| boot.icount);
    table(&mut text, &TIMES_HEADER, timed.map(time_row));
    line(&mut text, LOCKS);
    let layouts = lock_layouts(&stock);
    let header: Vec<&str> = std::iter::once("kernel")
        .chain(layouts.iter().copied())
        .collect();
    table(
        &mut text,
        &header,
        stock.iter().map(|boot| lock_row(boot, &layouts)),
    );
    line(&mut text, NOT_MEASURED);
    for boot in boots
        .iter()
        .filter(|boot| !boot.icount || boot.died.is_some())
    {
        for what in gaps(boot) {
            line(&mut text, &format!("- {}: {what}", boot.kernel));
        }
    }
    text
}

const INTRODUCTION: &str = "\
# What works where

Written by `make lab-docs` from the record of the lab (docs/matrix.jsonl): every entry was measured
on that kernel, a stock Debian build, in a virtual machine. `make lab` measures again.

## Kernel and filesystem

The strongest way in which program text gets onto huge pages there:

- **always huge**: however it was written.
- **collapse**: at once, also while the program runs (`hugetext warm`, `hugetext promote`).
- **reread**: while nobody runs it, by dropping and reading it again (`hugetext warm`).
- **replace**: by writing the file anew (`hugetext warm --replace`).
- **64K**, **2M**: no PMD leaves, but blocks of that size which the processor maps as one.
- **store**: not on this filesystem; from a huge=always tmpfs (`hugetext run --backend store`).

Once warm, every plain start of the program by anyone maps it huge. A percentage tells how much of
the file was huge where it was not all of it.
";

const PLACEMENT: &str = "
## Where programs are placed

Text can only be huge if it lies at the right address. The address is a multiple of this many bytes
in every one of five starts; `p_align 2M` is what `hugetext fix` makes of a program. Shared objects
without it are aligned where the filesystem's mmap does so.
";
const PLACEMENT_HEADER: [&str; 7] = [
    "kernel",
    "PIE, p_align 2M",
    "static PIE, p_align 2M",
    "shared object, p_align 2M, glibc",
    "shared object, p_align 2M, musl",
    "PIE as linked",
    "shared object as linked is aligned on",
];

const PROGRAMS: &str = "
## Real programs

Text of Debian's gcc 12 compiler (`cc1`, not position-independent) and of the same as a shared object
(`libgccjit`), unmodified: MiB that a plain start maps by PMD leaves (on 16K pages: in 2M blocks)
after warming, of MiB in whole windows as placed. Read in by the start itself it was nothing, or
what stands before an arrow. 0/0: placed where no window fits.
";

const MODES: &str = "
## THP modes

Every rung was tried with /sys/kernel/mm/transparent_hugepage/enabled set to always, madvise and
never.
";

const PRESSURE: &str = "
## Memory pressure

Two files of the same size, one in huge folios and one in small ones, touched a moment before, mapped
by nobody, while a program takes all free memory and half of what can be reclaimed. MiB still in
memory, and large folios that were split.
";
const PRESSURE_HEADER: [&str; 7] = [
    "kernel",
    "filesystem",
    "size",
    "huge before",
    "huge file left",
    "small file left",
    "splits",
];

const TIMES: &str = "
## Times

Counted in instructions (QEMU -icount), so they are the same in every run; they know nothing of
caches or TLBs. mprotect of 64 MiB to read-only and back, five times: T1 huge folios mapped by PTEs,
T2 folios of 64 KiB, T3 base pages. Compile: `cc1` on a one-line program, text in small folios against
warm text.
";
const TIMES_HEADER: [&str; 6] = [
    "kernel",
    "T1 / T3",
    "T2 / T3",
    "compile, small",
    "compile, warm",
    "faults, small → warm",
];

const LOCKS: &str = "
## i_mmap locks

Write acquisitions of i_mmap locks, counted by kprobes: from exec until the program is up, and from
there until it is gone; in brackets its file mappings.
";

const NOT_MEASURED: &str = "
## Not measured
";

fn title(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Amd64 | Flavour::Amd64Generic => "x86-64, huge is 2M",
        Flavour::Arm64 => "arm64, 4K pages, huge is 2M",
        Flavour::Arm64_16k => "arm64, 16K pages, huge is 32M",
    }
}

fn filesystem_header() -> Vec<&'static str> {
    std::iter::once("kernel")
        .chain(Fs::ALL.map(Fs::name))
        .collect()
}

fn filesystem_row(boot: &Boot) -> Vec<String> {
    let gives = |fs: Fs| match boot.outcome(fs.name(), Thp::Madvise, Probe::Rungs) {
        Some(Outcome::Rungs(rungs)) => strongest(rungs),
        _ => String::new(),
    };
    std::iter::once(release(boot))
        .chain(Fs::ALL.map(gives))
        .collect()
}

/// The strongest rung that worked, in the words of the introduction.
fn strongest(rungs: &[Rung]) -> String {
    let of = |name| {
        rungs
            .iter()
            .find(|rung| rung.name == name && rung.error.is_none())
    };
    let share = |name| {
        let rung: &Rung = of(name)?;
        (rung.found.pmd > 0).then(|| match rung.found.pmd == rung.possible {
            true => String::new(),
            false => format!(" {} %", 100 * rung.found.pmd / rung.possible.max(1)),
        })
    };
    let named = [
        (RungName::Plain, "always huge"),
        (RungName::Collapse, "collapse"),
        (RungName::Readahead, "reread"),
        (RungName::Write, "replace"),
    ];
    for (name, word) in named {
        if let Some(share) = share(name) {
            return format!("{word}{share}");
        }
    }
    let block = rungs.iter().any(|rung| rung.found.contpte > 0);
    let size = rungs
        .iter()
        .flat_map(|rung| rung.folios.keys())
        .max()
        .copied()
        .unwrap_or(0);
    match block {
        true => format!("{}, or store", if size >= 2 << 20 { "2M" } else { "64K" }),
        false => "store".to_owned(),
    }
}

fn placement_row(boot: &Boot) -> Vec<String> {
    let on = |fs: Fs| match boot.outcome(fs.name(), Thp::Madvise, Probe::Placement) {
        Some(Outcome::Placement(placed)) => Some(placed),
        _ => None,
    };
    let all: Vec<(Fs, &Vec<Placed>)> = Fs::ALL
        .into_iter()
        .filter_map(|fs| Some((fs, on(fs)?)))
        .collect();
    // The least over all filesystems: what does not come from one of them.
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
        match filesystems.is_empty() {
            true => "none".to_owned(),
            false => filesystems.join(", "),
        },
    ]
}

fn program_rows(boot: &Boot) -> Vec<Vec<String>> {
    let blocks = boot.hello.as_ref().is_some_and(|hello| hello.pmd > 2 << 20);
    let huge = |found: &HugePages| if blocks { found.contpte } else { found.pmd };
    let row = |file: &str| {
        let of = |fs: Fs| match boot.outcome(fs.name(), Thp::Madvise, Probe::Programs) {
            Some(Outcome::Programs(texts)) => texts.iter().find(|text| text.file == file),
            _ => None,
        };
        let shown = |fs: Fs| {
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
        head.into_iter().chain(Fs::ALL.map(shown)).collect()
    };
    ["cc1", "libgccjit.so.0"].map(row).to_vec()
}

/// Whether the THP mode made a difference, and where.
fn modes(boots: &[Boot]) -> String {
    let (mut compared, mut different) = (0, Vec::new());
    for boot in boots {
        for fs in Fs::ALL {
            let of = |thp| match boot.outcome(fs.name(), thp, Probe::Rungs) {
                Some(Outcome::Rungs(rungs)) => Some(strongest(rungs)),
                _ => None,
            };
            let found = [of(Thp::Always), of(Thp::Madvise), of(Thp::Never)];
            if let [Some(always), Some(madvise), Some(never)] = found {
                compared += 1;
                if always != madvise || madvise != never {
                    different.push(format!(
                        "{} on {}: always {always}, madvise {madvise}, never {never}",
                        fs.name(),
                        boot.kernel
                    ));
                }
            }
        }
    }
    match different.is_empty() {
        true => format!("It made no difference on any of {compared} kernels and filesystems."),
        false => format!(
            "It made a difference on {} of {compared} kernels and filesystems: {}.",
            different.len(),
            different.join("; ")
        ),
    }
}

fn pressure_rows(boot: &Boot) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (cell, outcome) in boot.outcomes(Probe::Pressure) {
        let Outcome::Pressure(found) = outcome else {
            continue;
        };
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
    rows
}

fn time_row(boot: &Boot) -> Vec<String> {
    let mut row = vec![boot.kernel.to_string()];
    let mprotect = boot
        .outcomes(Probe::Mprotect)
        .find_map(|(_, outcome)| match outcome {
            Outcome::Mprotect(times) => Some(times),
            _ => None,
        });
    let compile = boot
        .outcomes(Probe::Compile)
        .find_map(|(_, outcome)| match outcome {
            Outcome::Compile(found) => Some(found),
            _ => None,
        });
    match mprotect {
        Some(times) => {
            let ratio = |ns: u64| format!("{:.2}", ns as f64 / times.base_ns.max(1) as f64);
            row.push(ratio(times.pte_mapped_ns));
            row.push(times.folio_64k_ns.map(ratio).unwrap_or_default());
        }
        None => row.extend([String::new(), String::new()]),
    }
    match compile {
        Some(found) => {
            let millions = |ns: u64| format!("{:.1} M", ns as f64 / 1e6);
            row.push(millions(found.cold_ns));
            let change = 100.0 * (found.warm_ns as f64 / found.cold_ns.max(1) as f64 - 1.0);
            row.push(format!("{} ({change:+.1} %)", millions(found.warm_ns)));
            row.push(format!("{} → {}", found.cold_faults, found.warm_faults));
        }
        None => row.extend([String::new(), String::new(), String::new()]),
    }
    row
}

fn locks(boot: &Boot) -> impl Iterator<Item = &Locks> {
    boot.outcomes(Probe::Locks)
        .flat_map(|(_, outcome)| match outcome {
            Outcome::Locks(layouts) => layouts.as_slice(),
            _ => &[],
        })
}

fn lock_layouts<'b>(boots: &[&'b Boot]) -> Vec<&'b str> {
    let longest = boots.iter().max_by_key(|boot| locks(boot).count());
    longest
        .iter()
        .flat_map(|boot| locks(boot))
        .map(|locks| locks.layout.as_str())
        .collect()
}

fn lock_row(boot: &Boot, layouts: &[&str]) -> Vec<String> {
    let of = |layout: &&str| {
        let found = locks(boot).find(|locks| locks.layout == *layout);
        let shown = found.map(|l| format!("{} + {} ({})", l.start, l.exit, l.mappings));
        shown.unwrap_or_default()
    };
    std::iter::once(boot.kernel.to_string())
        .chain(layouts.iter().map(of))
        .collect()
}

/// What a boot could not tell, and why.
fn gaps(boot: &Boot) -> Vec<String> {
    let mut gaps: Vec<String> = boot.died.iter().cloned().collect();
    let missing = |place: &str| boot.missing.iter().find(|(what, _)| what == place);
    gaps.extend(
        boot.missing
            .iter()
            .map(|(what, error)| format!("{what}: {error}")),
    );
    for (cell, outcome) in &boot.results {
        if let (Outcome::Failed(why), None) = (outcome, missing(&cell.place)) {
            let probe = serde_json::to_value(cell.probe).unwrap_or_default();
            let probe = probe.as_str().unwrap_or_default().to_owned();
            gaps.push(format!(
                "{probe} on {} under {}: {why}",
                cell.place,
                cell.thp.word()
            ));
        }
    }
    gaps
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

fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{}K", bytes >> 10),
        _ => format!("{}M", bytes >> 20),
    }
}

fn table(text: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    line(text, &format!("| {} |", header.join(" | ")));
    line(text, &format!("|{}", "---|".repeat(header.len())));
    for row in rows {
        line(text, &format!("| {} |", row.join(" | ")));
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
