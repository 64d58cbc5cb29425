//! The protocol between the lab and its guest: one [`Job`] in, one [`Event`] per line out.

mod outcome;

use serde::{Deserialize, Serialize};

pub use outcome::{
    Answer, Attempt, Commands, Compile, Folios, HugePages, Locks, Method, MethodName, Mprotect,
    Placed, Pressure, ProbeOutcome, ProgramText, Promoted, Warmed,
};

/// The path of the job in the initramfs.
pub const JOB: &str = "/lab/job.json";
/// The directory of kernel modules in the initramfs.
pub const MODULES: &str = "/lab/modules";
/// The directory of guest programs, in the initramfs.
pub const PROGRAMS: &str = "/lab/programs";
/// A file of a few PMD windows. The lab puts it on filesystems that guests cannot write to.
pub const READ_ONLY_FILE: &str = "windows";
/// The label of the ext4 disk that is the root directory of a job's command.
pub const ROOT: &str = "lab-root";
/// How many times [`Probe::PromoteRounds`] promotes one busy program and maps it back.
pub const ROUNDS: u32 = 50;
/// The name of the virtio-serial port that events are written to.
pub const PORT: &str = "lab";

/// The work of a guest. It ends with [`Event::Done`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Job {
    /// Paths of kernel modules, each after the modules that it needs. Others in [`MODULES`] follow.
    pub modules: Vec<String>,
    /// The filesystems to mount before the cells run.
    pub places: Vec<Place>,
    /// Whether a disk labelled [`ROOT`] becomes the root directory before the command runs.
    pub root: bool,
    /// The measurements, in this order.
    pub cells: Vec<Cell>,
    /// A command to run after them, if it is not empty.
    pub command: Vec<String>,
    /// Gives the console to a shell instead of ending.
    pub shell: bool,
}

/// A filesystem of the guest, mounted at `/mnt/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name in cells: `ext4`, `overlay`, `hugetmpfs`.
    pub name: String,
    /// Filesystem type for mount(2).
    pub fstype: String,
    /// Whether it is on one of the guest's disks. The mount finds the disk: the names of NVMe
    /// namespaces follow the order in which they were found.
    pub disk: bool,
    /// Options for mount(2).
    pub options: String,
}

/// The setting of /sys/kernel/mm/transparent_hugepage/enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// Huge pages everywhere possible.
    Always,
    /// Huge pages where a program asked for them.
    Madvise,
    /// No huge pages.
    Never,
}

impl Thp {
    /// The word that the kernel reads and prints.
    pub fn word(self) -> &'static str {
        match self {
            Thp::Always => "always",
            Thp::Madvise => "madvise",
            Thp::Never => "never",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Name of the [`Place`] whose files are used.
    pub place: String,
    /// The THP mode it runs under.
    pub thp: Thp,
    /// The kind of measurement.
    pub probe: Probe,
}

/// The kinds of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Which methods of warm put a file into PMD-order folios.
    Methods,
    /// Where programs and shared objects of each kind are placed.
    Placement,
    /// How much text of real programs is mapped huge by a plain start, cold and warm.
    Programs,
    /// The result of the command's own `warm` on a real program.
    Warm,
    /// What `check`, `fix`, `warm`, `stat` and `promote` answer on a real program, one after the other.
    Commands,
    /// The result of the command's own `promote` on a busy program, by each backend.
    Promote,
    /// The same with a copy, promoted and mapped back many times.
    PromoteRounds,
    /// The effect of memory pressure on a warm file.
    Pressure,
    /// What mprotect() costs over base pages and over PTE-mapped large folios.
    Mprotect,
    /// How often an exec takes i_mmap locks.
    Locks,
    /// Cost of a short compilation, cold text against warm text.
    Compile,
}

/// One line from the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The guest has started.
    Hello(Hello),
    /// A module or a place failed; cells that need it fail by name.
    Missing {
        /// Module path or place name.
        what: String,
        /// The kernel's answer.
        error: String,
    },
    /// A cell begins. If the guest dies in it, this event names the cell.
    Begin {
        /// The cell.
        cell: Cell,
    },
    /// A cell ended.
    Result {
        /// The cell.
        cell: Cell,
        /// The result.
        outcome: ProbeOutcome,
    },
    /// The command ended.
    Command(Finished),
    /// Everything ended.
    Done,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Its exit code; `None` if a signal ended it or it could not be started.
    pub exit: Option<i32>,
    /// Its standard output.
    pub printed: String,
    /// Its standard error, or why it could not be started.
    pub said: String,
}

/// The guest's kernel as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// uname -r.
    pub release: String,
    /// uname -m.
    pub machine: String,
    /// Base page, in bytes.
    pub page: u64,
    /// PMD leaf, in bytes; 0 if the kernel has no transparent huge pages.
    pub pmd: u64,
    /// The contpte block that Linux uses on this machine, in bytes; 0 if it uses none.
    pub contpte: u64,
    /// Processors online.
    pub cpus: u64,
    /// Total memory, in bytes.
    pub memory: u64,
}
