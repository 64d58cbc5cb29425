//! Boots a kernel, runs a list of cells in the guest and returns the results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use hugetext_lab_agent::{Cell, Job, ROOT};
use hugetext_leaf::Filesystem;

use crate::arch::Arch;
use crate::cache::{Cache, Unit};
use crate::disk;
use crate::error::{At, LabError, Result};
use crate::guest::{self, Built, Optimisation};
use crate::image::{Contents, initramfs};
use crate::kernel::{Flavour, KernelId};
use crate::qemu::{self, Machine};
use crate::tool;
use crate::watch::{self, Said};

/// A kernel to boot.
#[derive(Debug, Clone)]
pub(crate) enum Kernel {
    /// A kernel of the cache.
    Stock(KernelId),
    /// Another kernel, with all drivers built in or in an added initramfs.
    Other { path: PathBuf, flavour: Flavour },
}

impl Kernel {
    pub(crate) fn name(&self) -> String {
        match self {
            Kernel::Stock(id) => id.to_string(),
            Kernel::Other { path, .. } => path.display().to_string(),
        }
    }

    fn flavour(&self) -> Flavour {
        match self {
            Kernel::Stock(id) => id.flavour,
            Kernel::Other { flavour, .. } => *flavour,
        }
    }
}

/// The settings of a guest.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) filesystems: Vec<Filesystem>,
    pub(crate) cpus: u32,
    /// In MiB.
    pub(crate) memory: u32,
    /// Size of each filesystem's disk in MiB.
    pub(crate) disk: u32,
    /// NUMA nodes.
    pub(crate) nodes: u32,
    pub(crate) icount: bool,
    /// How long a guest may print nothing.
    pub(crate) patience: Duration,
    /// More initramfs archives.
    pub(crate) more: Vec<PathBuf>,
    /// More words for the kernel's command line.
    pub(crate) append: String,
    /// A directory whose copy is the root directory of the command.
    pub(crate) root: Option<PathBuf>,
}

/// The work of a guest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    pub(crate) cells: Vec<Cell>,
    /// A command to run after them, if it is not empty.
    pub(crate) command: Vec<String>,
    /// Whether the terminal gets a shell after that.
    pub(crate) shell: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            filesystems: vec![Filesystem::Ext4, Filesystem::Xfs, Filesystem::HugeTmpfs],
            cpus: 2,
            memory: 1024,
            disk: disk::SIZE,
            nodes: 1,
            icount: false,
            patience: Duration::from_secs(120),
            more: Vec::new(),
            append: String::new(),
            root: None,
        }
    }
}

impl Options {
    /// The filesystems that the guest mounts: those of the places, and that of the root.
    fn mounted(&self) -> Vec<Filesystem> {
        let mut mounted = self.filesystems.clone();
        if self.root.is_some() && !mounted.contains(&Filesystem::Ext4) {
            mounted.push(Filesystem::Ext4);
        }
        mounted
    }
}

/// The cache, with the files built for each architecture, so that each is built once.
pub(crate) struct Lab {
    pub(crate) cache: Cache,
    /// Disks of this lab's running guests.
    runs: PathBuf,
    optimisation: Optimisation,
    built: Mutex<BTreeMap<Arch, Built>>,
}

impl Lab {
    pub(crate) fn new(cache: Cache, optimisation: Optimisation) -> Result<Lab> {
        remove_stale(&cache.runs());
        let runs = cache.runs().join(std::process::id().to_string());
        for directory in [&runs, &cache.consoles()] {
            fs::create_dir_all(directory).at(directory)?;
        }
        Ok(Lab {
            cache,
            runs,
            optimisation,
            built: Mutex::default(),
        })
    }

    /// The programs for guests of `arch`. They are built now if they do not exist yet.
    pub(crate) fn built(&self, arch: Arch) -> Result<Built> {
        let mut built = match self.built.lock() {
            Ok(built) => built,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(built) = built.get(&arch) {
            return Ok(built.clone());
        }
        let new = guest::build(&self.cache, arch, self.optimisation)?;
        built.insert(arch, new.clone());
        Ok(new)
    }

    /// Boots `kernel` and runs `work`. Returns the guest's results, even if it died before the end.
    pub(crate) fn boot(&self, kernel: &Kernel, options: &Options, work: Work) -> Result<Said> {
        let directory = self.run_directory()?;
        let mut machine = self.prepare(kernel, options, work, directory.path())?;
        machine.console = Some(self.console(kernel, options));
        watch::watch(&machine, options.patience)
    }

    /// The path of the console log of `kernel`.
    fn console(&self, kernel: &Kernel, options: &Options) -> PathBuf {
        let end = if options.icount { "-icount" } else { "" };
        let name = kernel.name().replace('/', "_") + end + ".log";
        self.cache.consoles().join(name)
    }

    /// As [`Lab::boot`], but a guest that dies or hangs is an error.
    pub(crate) fn boot_to_end(
        &self,
        kernel: &Kernel,
        options: &Options,
        work: Work,
    ) -> Result<Said> {
        let said = self.boot(kernel, options, work)?;
        match &said.died {
            None => Ok(said),
            Some(what) => Err(LabError::Guest {
                kernel: kernel.name(),
                what: what.clone(),
                console: self.console(kernel, options),
            }),
        }
    }

    /// Opens a shell in a guest on this terminal.
    pub(crate) fn shell(&self, kernel: &Kernel, options: &Options, work: Work) -> Result<()> {
        let directory = self.run_directory()?;
        let machine = self.prepare(kernel, options, work, directory.path())?;
        watch::interact(&machine)
    }

    fn run_directory(&self) -> Result<tempfile::TempDir> {
        tempfile::tempdir_in(&self.runs).at(&self.runs)
    }

    /// Makes the initramfs and the disks in `directory`.
    fn prepare(
        &self,
        kernel: &Kernel,
        options: &Options,
        work: Work,
        directory: &Path,
    ) -> Result<Machine> {
        let arch = kernel.flavour().arch();
        // The check comes before anything is built for it.
        tool::run(Command::new(qemu::program(arch)).arg("--version"))?;
        let missing =
            || LabError::Usage("no programs in the cache: run 'hugetext-lab fetch'".into());
        let programs = Unit::open(&self.cache.programs(arch))?.ok_or_else(missing)?;
        let unit = match kernel {
            Kernel::Stock(id) => {
                let unit = Unit::open(&self.cache.kernel(*id))?;
                Some(unit.ok_or(LabError::NotFetched(*id))?)
            }
            Kernel::Other { .. } => None,
        };
        let nvme = unit
            .as_ref()
            .is_some_and(|unit| !unit.loads.contains_key("virtio_blk"));
        let vmlinuz = match (&unit, kernel) {
            (_, Kernel::Other { path, .. }) => path.clone(),
            (Some(unit), _) => {
                unit.read("vmlinuz")?;
                unit.path("vmlinuz")?
            }
            (None, Kernel::Stock(id)) => return Err(LabError::NotFetched(*id)),
        };

        let built = self.built(arch)?;
        let places = options
            .filesystems
            .iter()
            .map(|fs| disk::place(*fs))
            .collect();
        let mut disks = Vec::new();
        for fs in &options.filesystems {
            if disk::on_disk(*fs) {
                let disk = directory.join(fs.name());
                disk::make(
                    *fs,
                    &disk,
                    options.disk,
                    directory,
                    kernel.flavour(),
                    &programs,
                    &built,
                )?;
                disks.push(disk);
            }
        }
        if let Some(root) = &options.root {
            let disk = directory.join(ROOT);
            disk::make_root(&disk, root)?;
            disks.push(disk);
        }
        let modules = unit.as_ref().map(|unit| modules(unit, &options.mounted()));
        let modules = modules.unwrap_or_default();
        let job = Job {
            modules: modules.iter().map(|name| format!("/lab/{name}")).collect(),
            places,
            root: options.root.is_some(),
            cells: work.cells,
            command: work.command,
            shell: work.shell,
        };
        let initrd = directory.join("initramfs");
        let contents = Contents {
            arch,
            job: &job,
            kernel: unit.as_ref().map(|unit| (unit, modules.as_slice())),
            programs: &programs,
            built: &built,
            more: &options.more,
        };
        initramfs(&initrd, &contents)?;
        Ok(Machine {
            arch,
            kernel: vmlinuz,
            initramfs: initrd,
            disks,
            nvme,
            cpus: options.cpus,
            memory: options.memory,
            nodes: options.nodes,
            icount: options.icount,
            append: options.append.clone(),
            console: None,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.runs);
    }
}

/// Removes the directories of killed labs. They are named after processes that have ended.
fn remove_stale(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let process = Path::new("/proc").join(entry.file_name());
        if !process.exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The module files that guests with these filesystems load, in order.
fn modules(unit: &Unit, filesystems: &[Filesystem]) -> Vec<String> {
    let other = |module: &str| {
        let fs = Filesystem::NAMED.into_iter().find(|fs| fs.name() == module);
        fs.is_some_and(|fs| !filesystems.contains(&fs))
    };
    let mut files: Vec<String> = Vec::new();
    // Modules that are no filesystems come first: filesystems ask for checksums when mounted.
    let (later, first): (Vec<_>, Vec<_>) = unit
        .loads
        .iter()
        .filter(|(module, _)| !other(module))
        .partition(|(module, _)| Filesystem::NAMED.iter().any(|fs| fs.name() == *module));
    for file in first.into_iter().chain(later).flat_map(|(_, files)| files) {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    files
}
