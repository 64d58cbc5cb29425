//! What the probes find. Sizes are in bytes, times in nanoseconds of the guest's clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The answer of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The probe could not run, and why.
    Failed(String),
    /// Of [`crate::Probe::Rungs`].
    Rungs(Vec<Rung>),
    /// Of [`crate::Probe::Placement`].
    Placement(Vec<Placed>),
    /// Of [`crate::Probe::Programs`].
    Programs(Vec<Text>),
    /// Of [`crate::Probe::Warm`].
    Warm(Warmed),
    /// Of [`crate::Probe::Promote`] and [`crate::Probe::PromoteRounds`].
    Promoted(Promoted),
    /// Of [`crate::Probe::Pressure`].
    Pressure(Pressure),
    /// Of [`crate::Probe::Mprotect`].
    Mprotect(Mprotect),
    /// Of [`crate::Probe::Locks`].
    Locks(Vec<Locks>),
    /// Of [`crate::Probe::Compile`].
    Compile(Compile),
}

/// How a span of a mapped file lies in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Bytes mapped by PMD leaves (FilePmdMapped and ShmemPmdMapped of smaps).
    pub pmd: u64,
    /// Bytes in aligned contpte blocks that lie in one folio; 0 where there are no such blocks.
    pub contpte: u64,
}

/// Folios of one size, counted in mapped bytes.
pub type Folios = BTreeMap<u64, u64>;

/// A way to get a file's page cache into PMD-order folios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RungName {
    /// Nothing: read in through a plain executable mapping.
    Plain,
    /// MADV_COLLAPSE of a mapping that nobody else has.
    Collapse,
    /// MADV_COLLAPSE while a running program has the file as its text.
    CollapseInUse,
    /// process_madvise(MADV_COLLAPSE) on the text of a running program.
    CollapseRemote,
    /// Page cache dropped, then read in through a mapping with MADV_HUGEPAGE.
    Readahead,
    /// A new inode, written in aligned PMD-sized chunks.
    Write,
}

/// What one rung did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Which.
    pub name: RungName,
    /// The kernel's refusal, if it refused.
    pub error: Option<String>,
    /// Whole PMD windows of the file or text.
    pub possible: u64,
    /// What a later, plain executable mapping (or a plain start) of the file got.
    pub found: HugePages,
    /// Sizes of the folios behind it.
    pub folios: Folios,
}

impl Rung {
    /// Whether the kernel did what was asked. MADV_COLLAPSE answers EAGAIN also where somebody else
    /// was at one of the pages just then: if all is huge after that, it did.
    pub fn worked(&self) -> bool {
        self.found.pmd > 0 && (self.error.is_none() || self.found.pmd == self.possible)
    }
}

/// Where programs of one kind are placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// `exec`, `pie`, `static-pie`, `so`.
    pub kind: String,
    /// `glibc` or `musl` where a dynamic loader takes part.
    pub loader: Option<String>,
    /// Its largest p_align.
    pub p_align: u64,
    /// The largest power of two, at most 1 GiB, that (address − file offset) was a multiple of in
    /// every run.
    pub bias_align: u64,
    /// Number of runs.
    pub runs: u32,
    /// Whole PMD windows of the text, had it been placed best.
    pub possible: u64,
    /// What its text got in the last run, after the file was warmed.
    pub found: HugePages,
}

/// Text of a real program or shared object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// File name.
    pub file: String,
    /// Bytes of its executable mappings.
    pub text: u64,
    /// Whole PMD windows in them as they were placed.
    pub possible: u64,
    /// The rung that warmed it, if one did.
    pub rung: Option<RungName>,
    /// Plain start with a dropped page cache.
    pub cold: HugePages,
    /// Plain start after warming.
    pub warm: HugePages,
}

/// What `hugetext warm --json` did to a real program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warmed {
    /// Its exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// What it printed; null if that is no JSON.
    pub document: serde_json::Value,
    /// What it printed as errors.
    pub said: String,
    /// Bytes of the program's executable mappings.
    pub text: u64,
    /// Whole PMD windows in them.
    pub possible: u64,
    /// Plain start before.
    pub cold: HugePages,
    /// Plain start after.
    pub warm: HugePages,
}

/// What `hugetext promote` did to a running program that checks all it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Bytes of the text that it executes in every round.
    pub text: u64,
    /// Gathering the file's own pages; not tried where many rounds were asked for.
    pub collapse: Option<Attempt>,
    /// Mapping a copy: as it was after the last round.
    pub remap: Attempt,
    /// Times that it was promoted by a copy and mapped back.
    pub rounds: u32,
    /// What went wrong in the program or on the way back; none if nothing did.
    pub wrong: Option<String>,
}

/// One run of `hugetext promote`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// Bytes of executable mappings on PMD leaves afterwards.
    pub huge: u64,
    /// Why text was left as it was, as far as it said so.
    pub said: String,
}

/// What memory pressure did to two files of the same size that nobody had mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Bytes of each file.
    pub bytes: u64,
    /// Bytes of the warm file that were mapped by PMD leaves before.
    pub huge_before: u64,
    /// Bytes of the warm file still in memory.
    pub huge_resident: u64,
    /// Bytes of its PMD windows that are still in memory as a whole.
    pub huge_windows: u64,
    /// Bytes of the file in small folios still in memory.
    pub small_resident: u64,
    /// Large folios split meanwhile (thp_split_page of /proc/vmstat).
    pub splits: u64,
}

/// mprotect() to read-only and back, in the manner of the kernel thread on PTE batching.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mprotect {
    /// Bytes protected.
    pub bytes: u64,
    /// Rounds of read-only and read-write.
    pub rounds: u32,
    /// T1: PMD-order folios mapped by PTEs.
    pub pte_mapped_ns: u64,
    /// T2: 64 KiB folios, where the kernel makes them.
    pub folio_64k_ns: Option<u64>,
    /// T3: base pages.
    pub base_ns: u64,
}

/// i_mmap locks that one start of a program took for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    /// How the program is laid out.
    pub layout: String,
    /// Its file mappings when it was up.
    pub mappings: u64,
    /// Lock acquisitions from exec until it was up.
    pub start: u64,
    /// Lock acquisitions from there until it was gone.
    pub exit: u64,
}

/// A short run of the compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compile {
    /// Time with text in small folios.
    pub cold_ns: u64,
    /// Time with warm text.
    pub warm_ns: u64,
    /// Minor faults with text in small folios.
    pub cold_faults: u64,
    /// Minor faults with warm text.
    pub warm_faults: u64,
}
