//! The results of the probes. Sizes are in bytes, times in nanoseconds of the guest's clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOutcome {
    /// The probe could not run, with the reason.
    Failed(String),
    /// Of [`crate::Probe::Methods`].
    Methods(Vec<Method>),
    /// Of [`crate::Probe::Placement`].
    Placement(Vec<Placed>),
    /// Of [`crate::Probe::Programs`].
    Programs(Vec<ProgramText>),
    /// Of [`crate::Probe::Warm`].
    Warm(Warmed),
    /// Of [`crate::Probe::Commands`].
    Commands(Commands),
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

/// How a span of a mapped file is mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Bytes mapped by PMD leaves (FilePmdMapped and ShmemPmdMapped of smaps).
    pub pmd: u64,
    /// Bytes in aligned contpte blocks that lie in one folio; 0 if the machine has no such blocks.
    pub contpte: u64,
}

/// Folios of one size, counted in mapped bytes.
pub type Folios = BTreeMap<u64, u64>;

/// A method to bring a file's page cache into PMD-order folios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// No method: read through a plain executable mapping.
    Plain,
    /// MADV_COLLAPSE of a mapping that no other process has.
    Collapse,
    /// MADV_COLLAPSE while a running program has the file as its text.
    CollapseInUse,
    /// process_madvise(MADV_COLLAPSE) on the text of a running program.
    CollapseRemote,
    /// Page cache dropped, then read through a mapping with MADV_HUGEPAGE.
    Readahead,
    /// A new inode, written in aligned PMD-sized chunks.
    Write,
}

/// The result of one method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// The method.
    pub name: MethodName,
    /// The kernel's refusal, if it refused.
    pub error: Option<String>,
    /// Whole PMD windows of the file or text.
    pub possible: u64,
    /// How a later, plain executable mapping (or a plain start) maps the file.
    pub found: HugePages,
    /// Sizes of the folios that it maps.
    pub folios: Folios,
}

impl Method {
    /// Whether the kernel did what was asked. MADV_COLLAPSE also answers EAGAIN if another process
    /// used one of the pages at that moment: if all is huge after that, it succeeded.
    pub fn worked(&self) -> bool {
        self.found.pmd > 0 && (self.error.is_none() || self.found.pmd == self.possible)
    }
}

/// The addresses of programs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// `exec`, `pie`, `static-pie`, `so`.
    pub kind: String,
    /// `glibc` or `musl` if a dynamic loader takes part.
    pub loader: Option<String>,
    /// Its largest p_align.
    pub p_align: u64,
    /// The largest power of two, at most 1 GiB, that divided (address − file offset) in every run.
    pub bias_align: u64,
    /// Number of runs.
    pub runs: u32,
    /// Whole PMD windows of the text at the best address.
    pub possible: u64,
    /// How its text was mapped in the last run, after the file was warmed.
    pub found: HugePages,
}

/// Text of a real program or shared object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramText {
    /// File name.
    pub file: String,
    /// Bytes of its executable mappings.
    pub text: u64,
    /// Whole PMD windows in them at their addresses.
    pub possible: u64,
    /// The method that warmed it, if one did.
    pub method: Option<MethodName>,
    /// Plain start with a dropped page cache.
    pub cold: HugePages,
    /// Plain start after warming.
    pub warm: HugePages,
}

/// The result of `hugetext warm --json` on a real program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warmed {
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// Its standard output; null if that is not JSON.
    pub document: serde_json::Value,
    /// Its standard error.
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

/// The answers of the command's subcommands about one program, which each leaves to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The answers, in order.
    pub answers: Vec<Answer>,
    /// Bytes of the program's executable mappings, in the end.
    pub text: u64,
    /// How they were mapped after `fix` and `warm`, by a plain start.
    pub found: HugePages,
}

/// What one run of a subcommand answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The subcommand.
    pub command: String,
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The line that it answered with, on standard output or else on standard error.
    pub said: String,
}

/// The result of `hugetext promote` on a running program that checks all its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Bytes of the text that it executes in every round.
    pub text: u64,
    /// With the file's own pages collapsed: the state after the last round.
    pub collapse: Option<Attempt>,
    /// With a copy mapped: the state after the last round.
    pub remap: Attempt,
    /// How many times it was promoted by a copy and mapped back.
    pub rounds: u32,
    /// How many times its text was collapsed, and reclaimed before the next time. 0 where one round
    /// of each was asked for.
    #[serde(default)]
    pub collapse_rounds: u32,
    /// The error of the program or of mapping back; `None` if none occurred.
    pub wrong: Option<String>,
}

/// One run of `hugetext promote`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// Bytes of executable mappings on PMD leaves afterwards.
    pub huge: u64,
    /// Why text stayed unchanged, as far as it printed that.
    pub said: String,
}

/// The effect of memory pressure on two unmapped files of the same size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Bytes of each file.
    pub bytes: u64,
    /// Bytes of the warm file that were mapped by PMD leaves before.
    pub huge_before: u64,
    /// Bytes of the warm file that are still in memory.
    pub huge_resident: u64,
    /// Bytes of its PMD windows that are still wholly in memory.
    pub huge_windows: u64,
    /// Bytes of the file in small folios that are still in memory.
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
    /// T2: 64 KiB folios, if the kernel makes them.
    pub folio_64k_ns: Option<u64>,
    /// T3: base pages.
    pub base_ns: u64,
}

/// i_mmap locks that one start of a program took for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    /// The layout of the program.
    pub layout: String,
    /// Its file mappings after its start.
    pub mappings: u64,
    /// Lock acquisitions from exec until the program had started.
    pub start: u64,
    /// Lock acquisitions from there until it had ended.
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
