//! Cold starts: who asks for huge folios while a program is mapped, for which windows, and which of
//! them cannot have one because a page of theirs was read before.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bias::{Bias, ObjectKind};
use crate::geometry::Leaf;
use crate::reach::{Vma, vmas, windows_in_file};
use crate::segment::{Segment, Span};

/// A loader or kernel that may ask for huge folios, before the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asker {
    /// glibc's dynamic loader with the tunable glibc.elf.thp=1. On x86-64 and
    /// LoongArch it asks under every mode of THP, elsewhere under madvise only.
    GlibcTunable,
    /// The kernel under THP=always, without another request.
    ThpAlways,
    /// The kernel series "binfmt_elf: Align eligible read-only PT_LOAD segments to PMD_SIZE for
    /// THP", version 4, under THP=always.
    PmdAlignSeries,
    /// `kernel/align` and `kernel/order` of this repository.
    ExecOrder,
}

impl Asker {
    /// Every asker.
    pub const ALL: [Asker; 4] = [
        Asker::GlibcTunable,
        Asker::ThpAlways,
        Asker::PmdAlignSeries,
        Asker::ExecOrder,
    ];

    /// Its rule.
    pub const fn rule(self) -> &'static AskerRule {
        match self {
            Asker::GlibcTunable => &ASKER_RULES[0],
            Asker::ThpAlways => &ASKER_RULES[1],
            Asker::PmdAlignSeries => &ASKER_RULES[2],
            Asker::ExecOrder => &ASKER_RULES[3],
        }
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Asker::GlibcTunable => "glibc.elf.thp",
            Asker::ThpAlways => "THP=always",
            Asker::PmdAlignSeries => "the PMD alignment series",
            Asker::ExecOrder => "kernel/align and kernel/order",
        })
    }
}

/// What an [`Asker`] does, with the source of that fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AskerRule {
    /// Whom the rule is about.
    pub asker: Asker,
    /// The first release that has it.
    pub since: &'static str,
    /// The PT_LOADs that it asks for, or why none.
    pub asks_for: &'static str,
    /// Whether it raises the alignment of the load address for them.
    pub aligns: &'static str,
    /// The place in its source.
    pub source: &'static str,
    /// What was measured.
    pub evidence: &'static str,
}

/// Every rule, in the order of [`Asker::ALL`].
pub const ASKER_RULES: [AskerRule; 4] = [
    AskerRule {
        asker: Asker::GlibcTunable,
        since: "glibc 2.44",
        asks_for: "readable, not writable, at least a leaf long, p_vaddr and p_offset multiples of the leaf, a leaf of at most 32M; elsewhere than on x86-64 and LoongArch only under THP=madvise",
        aligns: "shared objects; programs are placed by the kernel",
        source: "glibc 2.44, sysdeps/unix/sysv/linux: dl-map-segment-align.h, dl-load-post.h, dl-exec-post.h",
        evidence: "lab/results/self-warming.md: huge under Debian's 2.44-3 in each mode of THP and without /sys, nothing under 2.36 and 2.41; strace: no madvise() of 2.43-7",
    },
    AskerRule {
        asker: Asker::ThpAlways,
        since: "every kernel",
        asks_for: "none: a fault reads huge folios only in a mapping with VM_HUGEPAGE",
        aligns: "no",
        source: "Linux 6.18, mm/filemap.c, do_sync_mmap_readahead()",
        evidence: "lab/results/self-warming.md: no window is huge under always without the tunable",
    },
    AskerRule {
        asker: Asker::PmdAlignSeries,
        since: "not merged; posted for Linux 7.1",
        asks_for: "none: it changes the load address only",
        aligns: "programs with a PT_LOAD that is not writable, at least a PMD long in the file, with p_vaddr and p_offset multiples of a PMD of at most 32M and a smaller p_align",
        source: "its cover letter, [PATCH v4 0/2] of March 2026",
        evidence: "not measured: the series is not in a kernel that is packaged",
    },
    AskerRule {
        asker: Asker::ExecOrder,
        since: "Linux 7.3 with kernel/align and kernel/order",
        asks_for: "every window of text whose pages are all absent, which the mapping and the file hold",
        aligns: "programs with a read-only PT_LOAD that holds a window",
        source: "kernel/order and kernel/align",
        evidence: "lab/results/kernel.md: text by PMDs on a cold start",
    },
];

/// glibc and the kernel series ask for no larger leaf (MAX_THP_PAGESIZE in glibc).
const LARGEST: Leaf = Leaf::M32;

/// Bytes of a file that are read before anyone asks for huge folios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyRead {
    /// What they are.
    pub what: EarlyBytes,
    /// Their offsets in the file.
    pub file: Span,
}

/// What is read of a file before it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarlyBytes {
    /// The ELF header.
    ElfHeader,
    /// The program header table.
    ProgramHeaders,
    /// The name of the interpreter (PT_INTERP).
    Interpreter,
    /// The notes that PT_GNU_PROPERTY names.
    GnuProperty,
}

impl fmt::Display for EarlyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EarlyBytes::ElfHeader => "the ELF header",
            EarlyBytes::ProgramHeaders => "the program headers",
            EarlyBytes::Interpreter => "the name of the interpreter",
            EarlyBytes::GnuProperty => "the notes of PT_GNU_PROPERTY",
        })
    }
}

/// An image as its loader sees it.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// How the image is loaded.
    pub kind: ObjectKind,
    /// Its PT_LOADs.
    pub segments: &'a [Segment],
    /// What is read before anyone asks: headers and what they name.
    pub early: &'a [EarlyRead],
    /// Base page.
    pub page: Leaf,
    /// The leaf that is asked for.
    pub leaf: Leaf,
    /// The part of the load bias that kernel and loader promise without an asker.
    pub bias: Bias,
    /// Readahead of the device, bytes: an early read brings as much into the page cache, and at
    /// least its own page.
    pub readahead: u64,
}

/// What becomes of a window of text on a cold start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum WindowOutcome {
    /// A huge folio is asked for, and nothing that is known of the file hinders it. What a program
    /// executes first may still cost a window: the kernel's readahead can bring small folios into
    /// the window behind the next one.
    Huge,
    /// Nobody asks for a huge folio.
    NotAsked,
    /// One is asked for in vain, because a page of the window was read before: small folios are read.
    Spoiled {
        /// What was read, with the readahead behind it.
        by: EarlyBytes,
    },
    /// One is asked for, but the load address may be such that no leaf maps it.
    Unaligned,
}

impl fmt::Display for WindowOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowOutcome::Huge => write!(f, "huge"),
            WindowOutcome::NotAsked => write!(f, "not asked for"),
            WindowOutcome::Spoiled { by } => write!(f, "spoiled by the read of {by}"),
            WindowOutcome::Unaligned => write!(f, "at an address that is not aligned"),
        }
    }
}

/// Windows that follow each other and have the same outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct WindowRun {
    /// Their addresses in the image, multiples of the leaf.
    pub addresses: Span,
    /// What becomes of them.
    #[serde(flatten)]
    pub outcome: WindowOutcome,
}

/// The windows of an image's text on a cold start. The numbers are those of the runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct ColdStart {
    /// Whole windows of its read-only text mappings at an aligned load bias.
    pub windows: u64,
    /// Those for which huge folios are asked.
    pub asked: u64,
    /// Those among them in which a page was read before. If the program runs through its text in
    /// ascending order from there, readahead spoils the windows behind too.
    pub spoiled: u64,
    /// Those that are huge, at most.
    pub huge: u64,
    /// Every window, in ascending order of the addresses.
    pub runs: Vec<WindowRun>,
}

impl ColdStart {
    /// The windows of these runs, of `leaf` each.
    fn of(runs: Vec<WindowRun>, leaf: Leaf) -> ColdStart {
        let number = |counts: fn(WindowOutcome) -> bool| {
            let counted = runs.iter().filter(|run| counts(run.outcome));
            counted.map(|run| run.addresses.len() / leaf.bytes()).sum()
        };
        ColdStart {
            windows: number(|_| true),
            asked: number(|outcome| outcome != WindowOutcome::NotAsked),
            spoiled: number(|outcome| matches!(outcome, WindowOutcome::Spoiled { .. })),
            huge: number(|outcome| outcome == WindowOutcome::Huge),
            runs,
        }
    }

    /// Whether every window of the text becomes huge.
    pub const fn is_complete(&self) -> bool {
        self.huge == self.windows
    }
}

impl fmt::Display for ColdStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.huge > 0 { "at most " } else { "" };
        let plural = if self.windows == 1 { "" } else { "s" };
        write!(f, "{bound}{} of {} window{plural}", self.huge, self.windows)
    }
}

/// The cold start of an image with `asker` at work.
pub fn cold_start(asker: Asker, start: &Start<'_>) -> ColdStart {
    let leaf = start.leaf;
    let bias = placed(asker, start);
    let mut runs: Vec<WindowRun> = Vec::new();
    for vma in vmas(start.segments, start.page) {
        if !vma.perms.exec || vma.perms.write {
            continue;
        }
        for addresses in windows(&vma, leaf) {
            let outcome = outcome(asker, start, bias, &vma, addresses);
            match runs.last_mut() {
                Some(run) if run.outcome == outcome && run.addresses.end == addresses.start => {
                    run.addresses.end = addresses.end;
                }
                _ => runs.push(WindowRun { addresses, outcome }),
            }
        }
    }
    ColdStart::of(runs, leaf)
}

/// What becomes of a window of a mapping.
fn outcome(asker: Asker, start: &Start<'_>, bias: Bias, vma: &Vma, window: Span) -> WindowOutcome {
    let leaf = start.leaf;
    if !is_asked(asker, start, &window) {
        return WindowOutcome::NotAsked;
    }
    let offset = window.start - vma.addresses.start + vma.offset;
    if let Some(by) = spoiler(start, Span::new(offset, offset + leaf.bytes())) {
        return WindowOutcome::Spoiled { by };
    }
    let delta = window.start.wrapping_sub(offset).wrapping_add(bias.residue);
    if bias.align >= leaf && leaf.is_aligned(delta) {
        WindowOutcome::Huge
    } else {
        WindowOutcome::Unaligned
    }
}

/// The windows of a mapping whose bias is a multiple of the leaf.
fn windows(vma: &Vma, leaf: Leaf) -> impl Iterator<Item = Span> + use<> {
    let first = leaf.align_up(vma.addresses.start);
    let end = leaf.align_down(vma.addresses.end);
    let count = end.saturating_sub(first) / leaf.bytes();
    (0..count).map(move |index| {
        let at = first + index * leaf.bytes();
        Span::new(at, at + leaf.bytes())
    })
}

/// Whether `asker` asks for a huge folio in this window.
fn is_asked(asker: Asker, start: &Start<'_>, window: &Span) -> bool {
    let mut segments = start.segments.iter();
    match asker {
        Asker::ThpAlways | Asker::PmdAlignSeries => false,
        // A mapping of several PT_LOADs is one to the kernel, and the rule looks at no address.
        Asker::ExecOrder => true,
        Asker::GlibcTunable => segments.any(|segment| {
            let end = start.page.align_up(segment.file_backed().end);
            glibc_asks(segment, start) && Span::new(segment.vaddr, end).intersect(window) == *window
        }),
    }
}

/// The rule of glibc for one PT_LOAD. For shared objects it looks at the pages that are mapped from
/// the file, for programs at the header.
fn glibc_asks(segment: &Segment, start: &Start<'_>) -> bool {
    let Start { page, leaf, .. } = *start;
    let (begin, offset, len) = match start.kind {
        ObjectKind::SharedObject => {
            let begin = page.align_down(segment.vaddr);
            let end = page.align_up(segment.file_backed().end);
            (begin, page.align_down(segment.offset), end - begin)
        }
        _ => (segment.vaddr, segment.offset, segment.memsz),
    };
    segment.perms.read
        && !segment.perms.write
        && leaf <= LARGEST
        && len >= leaf.bytes()
        && leaf.is_aligned(begin)
        && leaf.is_aligned(offset)
}

/// The rule of the kernel series for one PT_LOAD.
fn series_aligns(segment: &Segment, leaf: Leaf) -> bool {
    !segment.perms.write
        && leaf <= LARGEST
        && segment.filesz >= leaf.bytes()
        && leaf.is_aligned(segment.vaddr)
        && leaf.is_aligned(segment.offset)
}

/// The rule of `kernel/align` for one PT_LOAD: it is not writable, and holds a whole window.
fn holds_window(segment: &Segment, page: Leaf, leaf: Leaf) -> bool {
    !segment.perms.write
        && !windows_in_file(&[*segment], page, leaf, Bias::aligned(leaf)).is_empty()
}

/// The bias with what `asker` adds to it.
fn placed(asker: Asker, start: &Start<'_>) -> Bias {
    let Start {
        segments,
        page,
        leaf,
        bias,
        ..
    } = *start;
    let by_kernel = matches!(start.kind, ObjectKind::Pie | ObjectKind::StaticPie);
    let aligns = match asker {
        Asker::ThpAlways => false,
        Asker::GlibcTunable => {
            start.kind == ObjectKind::SharedObject
                && segments.iter().any(|segment| glibc_asks(segment, start))
        }
        Asker::PmdAlignSeries => {
            by_kernel && segments.iter().any(|segment| series_aligns(segment, leaf))
        }
        Asker::ExecOrder => {
            by_kernel
                && segments
                    .iter()
                    .any(|segment| holds_window(segment, page, leaf))
        }
    };
    if aligns && bias.align < leaf {
        Bias::aligned(leaf)
    } else {
        bias
    }
}

/// The early read that, with its readahead, left a page in this range of the file.
fn spoiler(start: &Start<'_>, window: Span) -> Option<EarlyBytes> {
    let spoils = |read: &&EarlyRead| {
        let from = start.page.align_down(read.file.start);
        let end = start
            .page
            .align_up(read.file.end)
            .max(from.saturating_add(start.readahead));
        !read.file.is_empty() && Span::new(from, end).overlaps(&window)
    };
    start.early.iter().find(spoils).map(|read| read.what)
}

#[cfg(test)]
#[path = "cold_start_tests.rs"]
mod tests;
