//! The options of the benchmarks, and the settings that they stand for.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hugetext_answer::RoundsArgument;
use hugetext_answer::output::Detail;

use crate::calls::CallSettings;
use crate::mprotect::MprotectSettings;
use crate::numa::NumaSettings;
use crate::rmap::RmapSettings;
use crate::syscalls::SyscallSettings;
use crate::tlb::TlbSettings;
use hugetext_tlb::{Core, EmulatorKind};

/// Call text of a big file in small folios, in huge folios, misaligned, and on a huge tmpfs
#[derive(Debug, Args)]
pub(crate) struct CallArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Size of the file
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    size: u64,
    /// Random calls in a round
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    calls: u32,
    /// Directory for the files, which have no name and leave nothing behind [default: the directory
    /// for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Stop with an error after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

impl CallArguments {
    pub(crate) fn settings(&self) -> CallSettings {
        CallSettings {
            rounds: self.rounds.into(),
            size: self.size,
            calls: self.calls,
            directory: self.directory.clone(),
            timeout: self.timeout,
        }
    }
}

/// Measure what a system call costs text on huge pages, side by side; `hugetext host` says it in a second
#[derive(Debug, Args)]
pub(crate) struct SyscallArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Base pages of text in use: each is called once in a pass
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages: u32,
    /// Passes in a round
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    passes: u32,
    /// Directory for the files, which have no name and leave nothing behind [default: the directory
    /// for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Stop with an error after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

impl SyscallArguments {
    pub(crate) fn settings(&self) -> SyscallSettings {
        SyscallSettings {
            rounds: self.rounds.into(),
            pages: self.pages,
            passes: self.passes,
            directory: self.directory.clone(),
            timeout: self.timeout,
        }
    }
}

/// Change the access rights of base pages and of large folios mapped page by page
#[derive(Debug, Args)]
pub(crate) struct MprotectArguments {
    /// Rounds; each measures every side
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Size of the memory; files are a quarter of it
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    size: u64,
    /// Changes to read-only and back in a round
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    loops: u32,
    /// Directory for the files, which have no name [default: the directory for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Stop with an error after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

impl MprotectArguments {
    pub(crate) fn settings(&self) -> MprotectSettings {
        MprotectSettings {
            rounds: self.rounds,
            size: self.size,
            loops: self.loops,
            directory: self.directory.clone(),
            timeout: self.timeout,
        }
    }
}

/// Start a small dynamic program from many workers at once, with its files unchanged, merged, and
/// replicated
#[derive(Debug, Args)]
pub(crate) struct RmapArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Starts by each worker in a round
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_round: u32,
    /// The largest number of workers; 1, 2, 4 and so on up to it are measured [default: the
    /// processors]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Copies of the loader and libraries that the workers share; several numbers are measured beside each
    /// other [default: one for each worker]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    replicas: Vec<u32>,
    /// The program, run without arguments
    #[arg(long, value_name = "PATH", default_value = "/bin/true")]
    program: PathBuf,
    /// Directory for the files, which are removed afterwards [default: the directory for temporary
    /// files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Kill a start after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl RmapArguments {
    pub(crate) fn settings(&self) -> RmapSettings {
        RmapSettings {
            rounds: self.rounds.into(),
            per_round: self.per_round,
            workers: self.workers,
            replicas: self.replicas.clone(),
            program: self.program.clone(),
            directory: self.directory.clone(),
            timeout: self.timeout,
        }
    }
}

/// Measure what it costs to call text on another NUMA node
///
/// Needs a machine with memory on two nodes. One thread is bound to a node and calls each page of a file once,
/// at random, with empty caches, so that most calls fetch text from memory.
#[derive(Debug, Args)]
pub(crate) struct NumaArguments {
    #[command(flatten)]
    rounds: RoundsArgument,
    /// Size of the text on each node
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    size: u64,
    /// Memory that is written before each measurement, to empty the caches: several times the largest cache
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    flush: u64,
    /// Directory for the files, which have no name [default: the directory for temporary files]
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Stop with an error after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

impl NumaArguments {
    pub(crate) fn settings(&self) -> NumaSettings {
        NumaSettings {
            rounds: self.rounds.into(),
            size: self.size,
            flush: self.flush,
            directory: self.directory.clone(),
            timeout: self.timeout,
        }
    }
}

/// Count the instruction-TLB misses of a command under several page layouts
///
/// The command runs once natively and once under an emulator. Its output is discarded, and its
/// environment holds PATH, HOME, LC_ALL=C and TZ=UTC, so that the same binaries and arguments give
/// the same counts. The emulator is QEMU's user mode if it loads plugins (Debian 12: qemu-user).
/// Otherwise, as on Debian 13, it is Valgrind (packages valgrind and gcc), which is slower. The
/// output names the emulator. Only the process itself is counted, not the programs that it executes:
/// name the compiler proper (cc1), not its driver. Every thread has its own processor, with cold
/// TLBs at its start.
#[derive(Debug, Args)]
pub(crate) struct TlbArguments {
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Model this core only (repeatable): zen4, zen5, golden-cove, neoverse-v2, cortex-a53,
    /// cortex-a72
    #[arg(long = "core", value_name = "NAME", value_parser = core_named)]
    cores: Vec<&'static Core>,
    /// Add a variable to the command's environment (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Use this emulator only; Valgrind runs programs of this machine only [default: qemu if it
    /// loads plugins, otherwise valgrind]
    #[arg(long, value_name = "NAME", value_enum)]
    emulator: Option<EmulatorName>,
    /// Give the command this file as its standard input [default: none]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Stop with an error if a run takes longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl TlbArguments {
    pub(crate) fn settings(&self) -> TlbSettings {
        TlbSettings {
            cores: self.cores.clone(),
            variables: self.variables.clone(),
            emulator: self.emulator.map(EmulatorKind::from),
            input: self.input.clone(),
            timeout: self.timeout,
            command: self.command.clone(),
        }
    }
}

/// The emulators, by their names on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EmulatorName {
    Qemu,
    Valgrind,
}

impl From<EmulatorName> for EmulatorKind {
    fn from(name: EmulatorName) -> EmulatorKind {
        match name {
            EmulatorName::Qemu => EmulatorKind::Qemu,
            EmulatorName::Valgrind => EmulatorKind::Valgrind,
        }
    }
}

fn core_named(name: &str) -> Result<&'static Core, String> {
    let names: Vec<&str> = Core::ALL.iter().map(|core| core.name).collect();
    Core::named(name).ok_or_else(|| format!("the known cores are {}", names.join(", ")))
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Run every benchmark, tlb with an empty compile by cc1
#[derive(Debug, Args)]
pub(crate) struct AllArguments {
    /// Use smaller sizes and fewer rounds, as a functional test; the figures are unreliable
    #[arg(long)]
    pub(crate) quick: bool,
}
