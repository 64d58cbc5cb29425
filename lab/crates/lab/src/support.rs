//! docs/support.md: what each kernel and filesystem supports, for readers. Pure.

mod rows;

use std::fmt::Write;

use hugetext_lab_agent::{Probe, ProbeOutcome};

use crate::kernel::Flavour;
use crate::plan::Purpose;
use crate::record::Boot;
use crate::rules::Row;

/// The document, from the record and the rules derived from it.
pub(crate) fn render(boots: &[Boot], rules: &[Row]) -> String {
    let mut text = INTRODUCTION.to_owned();
    table(&mut text, &RULES_HEADER, rules.iter().map(rows::rule));
    line(&mut text, FILESYSTEMS);
    let stock: Vec<&Boot> = of(boots, Purpose::Behaviour).collect();
    // Boots for one filesystem only are shown with the others of their version.
    let main: Vec<&Boot> = stock
        .iter()
        .copied()
        .filter(|boot| main_flavour(boot))
        .collect();
    for flavour in Flavour::ALL {
        let mut of_flavour = main.iter().filter(|boot| boot.kernel.flavour == flavour);
        if of_flavour.clone().next().is_some() {
            line(&mut text, &format!("\n### {}\n", rows::title(flavour)));
            let rows = of_flavour
                .by_ref()
                .map(|boot| rows::filesystem(boot, &stock));
            table(&mut text, &rows::filesystem_header(), rows);
        }
    }
    line(&mut text, RUNNING);
    table(
        &mut text,
        &RUNNING_HEADER,
        main.iter().map(|boot| {
            let same = |other: &&Boot| other.kernel == boot.kernel;
            rows::running(boot, of(boots, Purpose::Rounds).find(same))
        }),
    );
    line(&mut text, PLACEMENT);
    table(
        &mut text,
        &PLACEMENT_HEADER,
        main.iter().map(|boot| rows::placement(boot)),
    );
    line(&mut text, SIZES);
    let arm = main
        .iter()
        .filter(|boot| boot.kernel.flavour.arch() == crate::arch::Arch::Arm64);
    table(
        &mut text,
        &rows::filesystem_header(),
        arm.map(|boot| rows::sizes(boot)),
    );
    line(&mut text, PROGRAMS);
    let mut header = rows::filesystem_header();
    header.insert(1, "file");
    let programs = main.iter().flat_map(|boot| rows::programs(boot, &stock));
    table(&mut text, &header, programs);
    line(&mut text, COMMANDS);
    table(
        &mut text,
        &COMMANDS_HEADER,
        main.iter().flat_map(|boot| rows::commands(boot)),
    );
    line(&mut text, MODES);
    line(&mut text, &rows::modes(boots));
    line(&mut text, PRESSURE);
    line(&mut text, &rows::pressure_verdict(&main));
    line(&mut text, "");
    table(
        &mut text,
        &PRESSURE_HEADER,
        main.iter().flat_map(|boot| rows::pressure(boot)),
    );
    line(&mut text, TIMES);
    let timed = of(boots, Purpose::Times).map(rows::times);
    table(&mut text, &TIMES_HEADER, timed);
    line(&mut text, LOCKS);
    let layouts = rows::lock_layouts(&main);
    let header: Vec<&str> = std::iter::once("kernel")
        .chain(layouts.iter().copied())
        .collect();
    table(
        &mut text,
        &header,
        main.iter().map(|boot| rows::locks(boot, &layouts)),
    );
    line(&mut text, NOT_MEASURED);
    for boot in boots
        .iter()
        .filter(|boot| boot.purpose == Purpose::Behaviour || boot.died.is_some())
    {
        for what in gaps(boot) {
            line(&mut text, &format!("- {}: {what}", boot.kernel));
        }
    }
    text
}

const INTRODUCTION: &str = "\
# What works where

Written by `make -C lab rules` from the record of the lab (lab/records/matrix.jsonl). Every entry was measured on
that kernel, a stock Debian build, in a virtual machine. `make -C lab matrix` measures again. A dash means that
it was not measured; the last section gives the reasons.

Text is *huge* where one page-table entry of the middle level (a PMD leaf) maps it: 2M on 4K pages, 32M
on 16K pages. For that the page cache must hold one folio of that size there. Text is *warm* where the
page cache holds such folios.

## What follows from it

These are the rules by which `check` and the other commands decide. If several rules concern the same
thing, one that holds is enough. `if` is what must be true of the kernel apart from its version. `up to`
is the largest page size for which a rule held. The rules are in lab/crates/lab/rules.toml; the record
adds what was measured, and contradicts what is wrong.

btrfs is not among the filesystems with huge folios: it limits a folio to 64 blocks, which are 256K
with blocks of 4K. So MADV_COLLAPSE returns EINVAL there, on every kernel.

";
const RULES_HEADER: [&str; 7] = [
    "what", "where", "since", "if", "up to", "measured", "source",
];

const FILESYSTEMS: &str = "
## Kernel and filesystem

The tables show the cheapest way that puts program text on huge pages there:

- **always huge**: text is huge, however the file was written.
- **collapse**: the kernel gathers text at once, also while the program runs (`hugetext warm`,
  `hugetext promote`).
- **reread**: `hugetext warm` drops the file and reads it again, while nobody runs it.
- **replace**: `hugetext warm --replace` writes the file anew.
- **64K**, **2M**: `hugetext warm` makes no PMD leaves, but blocks of that size, which the processor maps
  as one.
- **store**: there is no way on this filesystem. `hugetext run --backend store` runs a copy from a
  huge=always tmpfs, and `hugetext promote` maps a copy into a running program.

Once text is warm, every plain start of the program by anyone maps it huge. A percentage is the part of
the file that was huge, where it was not all of the file. `overlay` lies over ext4; the filesystem below
an overlay decides. `hugetmpfs` is a tmpfs with huge=always.

Debian builds its kernels without CONFIG_READ_ONLY_THP_FOR_FS, so the lab has no kernel with that option.
On kernels 6.1 to 7.1 that have it, `hugetext` uses **collapse** on every filesystem, for files that
nobody has open for writing. It reads the kernel's configuration from /boot, /lib/modules or
/proc/config.gz.";

const RUNNING: &str = "
## Running programs

The table lists the filesystems on which the text of a program was put on huge pages while it ran.
MADV_COLLAPSE was called by a process that maps the same file, and by process_madvise() on the program.
`hugetext promote` was tried with each backend on ext4, xfs and btrfs, on a program whose threads execute
all their text, sleep, poll, fork, take signals and check every answer. Rounds (`make -C lab matrix-rounds`) count how
often such programs were promoted on ext4, each 50 times in its life, and which failures occurred. After a
copy, the text was mapped back. After a collapse, the kernel was made to reclaim the text, which the threads then
read again in small folios. hugetmpfs is huge from the start and is not counted. On 16K pages the text of
these programs is smaller than a window of 32M.
";
const RUNNING_HEADER: [&str; 6] = [
    "kernel",
    "MADV_COLLAPSE, file in use",
    "process_madvise",
    "promote by collapse",
    "promote by a copy",
    "rounds",
];

const PLACEMENT: &str = "
## Where programs are placed

Text can only be huge if it lies at the right address. The address was a multiple of this many bytes in
every one of five starts. `p_align 2M` is what `hugetext fix` makes of a program. Shared objects without
it are aligned where the filesystem's mmap aligns them, unless their loader aligns by p_align instead, as
glibc does with the 64K of linkers for arm64. The last column lists the filesystems where they are aligned
with both loaders.
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

const SIZES: &str = "
## Page sizes on arm64

The table has the folio sizes in which the page cache held most of a file of four windows (two on 16K
pages): after a program that starts read it in, and after the best way of `hugetext warm`. The processor
maps an aligned block of 64K (of 2M on 16K pages) by one TLB entry if it lies in one folio (contpte), and
2M (32M) by a PMD leaf.
";

const PROGRAMS: &str = "
## Real programs

The programs are Debian's gcc 12 compiler (`cc1`, not position-independent) and the same as a shared
object (`libgccjit`), both unmodified. The first figure is the text, in MiB, that a plain start maps by PMD
leaves after warming (on 16K pages: in 2M blocks). The second is the text in whole windows as placed.
Before warming it was nothing, or the figure before an arrow. 0/0 means that the text lies where no window
fits; `hugetext fix` changes that.
";

const COMMANDS: &str = "
## The commands on another architecture

On 64-bit RISC-V, the commands ran one after the other on Debian's gcc compiler as a shared object
(`libgccjit`): `check`, `fix` into a copy, `warm` of the copy, then `stat` and `promote` of a process that
maps it. The table has the exit status, and the line that answers. The last row of a filesystem is what a
plain start mapped of the copy by PMD leaves and in all, in MiB. `promote` needs the registers and system
calls of an architecture; it says where it does not know them.
";
const COMMANDS_HEADER: [&str; 5] = ["kernel", "filesystem", "command", "exit", "answer"];

const MODES: &str = "
## THP modes

Every method was tried with /sys/kernel/mm/transparent_hugepage/enabled set to always, madvise and
never.
";

const PRESSURE: &str = "
## Memory pressure

Two files have the same size, one in huge folios and one in small ones. Both were touched a moment before,
and nobody maps them. Then a program takes all free memory and half of what can be reclaimed. The table has
the MiB of each file that are still in memory, and the large folios that were split. Nothing was written to
either file, so reclaim only drops pages.
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

Times are counted in instructions (QEMU -icount). They hardly differ from run to run, even on a busy
machine, but they do not include caches or TLBs. T1, T2 and T3 are mprotect of 64 MiB to read-only and
back, five times: of huge folios mapped by PTEs, of folios of 64 KiB, and of base pages. A ratio well below 1
means that the kernel changes the entries of a folio in batches. A ratio above 1 means that large folios
cost more than base pages. Compile is `cc1` on a one-line program, with text in small folios and with warm
text.
";
const TIMES_HEADER: [&str; 7] = [
    "kernel",
    "T1 / T3",
    "T2 / T3",
    "compiler on",
    "compile, small",
    "compile, warm",
    "faults, small → warm",
];

const LOCKS: &str = "
## i_mmap locks

The table has the write acquisitions of i_mmap locks, counted by kprobes: from exec until the program is
up, plus those from then until the program has ended. The file mappings of the program are in brackets.
";

const NOT_MEASURED: &str = "
## Not measured

Debian's cloud kernels lack f2fs. It was measured on two kernels that have it, and is shown with the others
of their version. On arm64 it was not measured: no cloud kernel has it, and on 16K pages it needs a newer
mkfs than Debian 12 has. Of Linux 6.19 to 7.1, Debian's archive has kept the kernels but not their modules,
so only what is built in was measured.
";

/// The boots for `purpose`.
fn of(boots: &[Boot], purpose: Purpose) -> impl Iterator<Item = &Boot> {
    boots.iter().filter(move |boot| boot.purpose == purpose)
}

/// Whether a boot measures everything, as opposed to the one filesystem that others lack.
fn main_flavour(boot: &Boot) -> bool {
    boot.kernel.flavour != Flavour::Amd64Generic
}

/// The questions that a boot could not answer, and why.
fn gaps(boot: &Boot) -> Vec<String> {
    let mut gaps: Vec<String> = boot.died.iter().cloned().collect();
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, why) in &boot.missing {
        match by_reason.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, things)) => things.push(what),
            None => by_reason.push((why, vec![what])),
        }
    }
    let missing = by_reason.iter();
    gaps.extend(missing.map(|(why, things)| format!("{}: {why}", things.join(", "))));
    let promotes = boot.kernel.flavour.arch().facts().promotes;
    if main_flavour(boot) && promotes && boot.outcomes(Probe::Promote).next().is_none() {
        gaps.push("promotion: its results are older than that measurement".to_owned());
    }
    let is_missing = |place: &str| boot.missing.iter().any(|(what, _)| what == place);
    for (cell, outcome) in &boot.results {
        if let ProbeOutcome::Failed(why) = outcome
            && !is_missing(&cell.place)
        {
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

fn table(text: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    line(text, &format!("| {} |", header.join(" | ")));
    line(text, &format!("|{}", "---|".repeat(header.len())));
    for row in rows {
        let cell = |cell: String| {
            if cell.is_empty() {
                "—".to_owned()
            } else {
                cell
            }
        };
        let row: Vec<String> = row.into_iter().map(cell).collect();
        line(text, &format!("| {} |", row.join(" | ")));
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
