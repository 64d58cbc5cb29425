//! The command line of the lab.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use hugetext_lab_agent::{Cell, Probe, Thp};
use hugetext_leaf::Filesystem;

use crate::boot::{Kernel, Options, Work};
use crate::disk::{self, filesystem};
use crate::error::{LabError, Result};
use crate::kernel::{Flavour, KernelId};
use crate::plan::Extent;

/// Boots stock kernels in QEMU and measures what each does with program text.
#[derive(Debug, Parser)]
#[command(name = "hugetext-lab", version)]
pub(crate) struct Args {
    /// The directory of kernels and programs.
    #[arg(long, default_value = ".cache/lab", value_name = "DIR")]
    pub(crate) cache: PathBuf,
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Fetch kernels and guest programs into the cache, and list its content.
    Fetch {
        /// Fetch these only, such as 6.18-amd64 or 7.2-arm64-16k.
        kernels: Vec<KernelId>,
        /// Fetch cached files again.
        #[arg(long)]
        again: bool,
    },
    /// Boot one kernel, run the requested measurements, print the results as JSON.
    Boot(BootArgs),
    /// Measure every kernel of the cache, fetch missing ones, and compare with the rules.
    Matrix(MatrixArgs),
    /// Write docs/support.md and the rules of leaf from the record.
    Docs {
        /// The record.
        #[arg(long, value_name = "FILE", default_value = "lab/records/matrix.jsonl")]
        record: PathBuf,
        /// Write nothing; exit with 1 if they differ from the record.
        #[arg(long)]
        check: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct MatrixArgs {
    /// Measure these kernels only.
    pub(crate) only: Vec<KernelId>,
    /// Measure two kernels and two filesystems only.
    #[arg(long)]
    slice: bool,
    /// Only promote a busy program and map it back, this many times, on the kernels of two Debian
    /// releases and the newest.
    #[arg(long, value_name = "N", conflicts_with = "slice")]
    rounds: Option<u32>,
    /// Write the results into this record, in place of older results of the same kernels.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

impl MatrixArgs {
    pub(crate) fn extent(&self) -> Extent {
        match (self.rounds, self.slice) {
            (Some(rounds), _) => Extent::Rounds(rounds),
            (None, true) => Extent::Slice,
            (None, false) => Extent::Whole,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct BootArgs {
    /// A kernel of the cache, such as 6.18-amd64.
    #[arg(required_unless_present = "kernel")]
    id: Option<KernelId>,
    /// Boot this kernel image instead of a cached one.
    #[arg(long, value_name = "PATH", conflicts_with = "id")]
    kernel: Option<PathBuf>,
    /// Architecture and page size of --kernel: amd64, arm64 or arm64-16k.
    #[arg(long, default_value = "amd64")]
    flavour: Flavour,
    /// Append an initramfs archive; may be repeated. Modules in its /lab/modules are loaded.
    #[arg(long, value_name = "FILE")]
    initrd_add: Vec<PathBuf>,
    /// More words for the kernel's command line.
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        hide_default_value = true
    )]
    append: String,
    /// Give the console to a shell.
    #[arg(long)]
    pub(crate) shell: bool,
    /// Count instructions as time, so that figures hardly differ from run to run; uses one host
    /// thread.
    #[arg(long)]
    icount: bool,
    /// Processors of the guest.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    smp: u32,
    /// Memory of the guest in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..))]
    memory: u32,
    /// NUMA nodes of the guest, each with an equal part of processors and memory.
    #[arg(long, value_name = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    numa: u32,
    /// Seconds without output from the guest before it counts as hung.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Size in MiB of each filesystem's disk, sparse. The default is a little more than the minimum of
    /// mkfs.xfs.
    #[arg(long, value_name = "MIB", default_value_t = disk::SIZE, value_parser = clap::value_parser!(u32).range(i64::from(disk::SIZE)..=1 << 20))]
    disk: u32,
    /// Filesystems to mount.
    #[arg(long, value_delimiter = ',', default_value = "ext4,xfs,hugetmpfs", value_parser = filesystem)]
    fs: Vec<Filesystem>,
    /// Put this directory, such as a Debian root, on a disk of the guest. The command runs with it as
    /// its root directory, as root.
    #[arg(long, value_name = "DIR", requires = "command")]
    root: Option<PathBuf>,
    /// THP modes to measure under.
    #[arg(long, value_delimiter = ',', default_value = "madvise", value_parser = thp)]
    thp: Vec<Thp>,
    /// What to measure on each filesystem under each mode.
    #[arg(long, value_delimiter = ',', value_parser = probe)]
    probe: Vec<Probe>,
    /// A command to run in the guest, such as `-- hugetext check /lab/programs/cc1`; exit with 1 if
    /// it fails.
    #[arg(last = true)]
    command: Vec<String>,
}

impl BootArgs {
    pub(crate) fn kernel(&self) -> Result<Kernel> {
        match (&self.id, &self.kernel) {
            (Some(id), _) => Ok(Kernel::Stock(*id)),
            (None, Some(path)) => Ok(Kernel::Other {
                path: path.clone(),
                flavour: self.flavour,
            }),
            (None, None) => Err(LabError::Usage("name a kernel".to_owned())),
        }
    }

    pub(crate) fn options(&self) -> Options {
        let mut filesystems = self.fs.clone();
        if filesystems.contains(&Filesystem::Overlay) {
            // The place below it is mounted first.
            filesystems.push(Filesystem::Ext4);
        }
        filesystems.sort();
        filesystems.dedup();
        Options {
            filesystems,
            cpus: self.smp,
            memory: self.memory,
            disk: self.disk,
            nodes: self.numa,
            icount: self.icount,
            patience: Duration::from_secs(self.timeout),
            more: self.initrd_add.clone(),
            append: self.append.clone(),
            root: self.root.clone(),
        }
    }

    pub(crate) fn work(&self) -> Work {
        Work {
            cells: self.cells(),
            command: self.command.clone(),
            shell: self.shell,
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for fs in &self.fs {
            for thp in &self.thp {
                for probe in &self.probe {
                    cells.push(Cell {
                        place: fs.name().to_owned(),
                        thp: *thp,
                        probe: *probe,
                    });
                }
            }
        }
        cells
    }
}

/// A word that serde knows as a value of `T`.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| error.to_string())
}

fn thp(text: &str) -> std::result::Result<Thp, String> {
    word(text)
}

fn probe(text: &str) -> std::result::Result<Probe, String> {
    word(text)
}
