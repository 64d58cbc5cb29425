//! The boot files of a guest: its initramfs and its disks.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use hugetext_lab_agent::{JOB, Job, MODULES, PROGRAMS, Place, READ_ONLY_FILE};

use crate::cache::Unit;
use crate::cpio::Archive;
use crate::error::{At, Result};
use crate::guest::Built;
use crate::kernel::{Arch, Flavour};
use crate::tool;

/// The content of an initramfs.
pub(crate) struct Contents<'a> {
    pub(crate) arch: Arch,
    pub(crate) job: &'a Job,
    /// The cached kernel, with the modules that the job loads; `None` for another kernel.
    pub(crate) kernel: Option<(&'a Unit, &'a [String])>,
    pub(crate) programs: &'a Unit,
    pub(crate) built: &'a Built,
    /// Archives to append to ours, unchanged.
    pub(crate) more: &'a [PathBuf],
}

/// Writes the initramfs to `path`.
pub(crate) fn initramfs(path: &Path, contents: &Contents<'_>) -> Result<()> {
    let to = BufWriter::new(File::create(path).at(path)?);
    let mut archive = Archive::new(to);
    for directory in [
        "bin", "dev", "etc", "lab", MODULES, PROGRAMS, "lib", "lib64", "mnt", "proc", "sys", "tmp",
    ] {
        archive.directory(directory).at(path)?;
    }
    let job = serde_json::to_vec(contents.job).map_err(std::io::Error::other);
    archive.file(JOB, &job.at(path)?).at(path)?;
    if let Some((kernel, modules)) = contents.kernel {
        for name in modules {
            archive
                .file(&format!("/lab/{name}"), &kernel.read(name)?)
                .at(path)?;
        }
    }
    for name in contents.programs.names() {
        let bytes = contents.programs.read(name)?;
        archive
            .file(&format!("{PROGRAMS}/{name}"), &bytes)
            .at(path)?;
    }
    for (name, built) in contents.built {
        let bytes = fs::read(built).at(built)?;
        archive
            .file(&format!("{PROGRAMS}/{name}"), &bytes)
            .at(path)?;
    }
    for (name, target) in links(contents.arch) {
        archive.link(&name, &target).at(path)?;
    }
    let mut to = archive.finish().at(path)?;
    for more in contents.more {
        to.write_all(&fs::read(more).at(more)?).at(path)?;
    }
    to.flush().at(path)
}

/// The first process, the shell, and the dynamic loaders at their usual paths.
fn links(arch: Arch) -> Vec<(String, String)> {
    let program = |name: &str| format!("{PROGRAMS}/{name}");
    let musl = format!("ld-musl-{}.so.1", arch.machine());
    let (directory, glibc) = match arch {
        Arch::Amd64 => ("lib64", "ld-linux-x86-64.so.2"),
        Arch::Arm64 => ("lib", "ld-linux-aarch64.so.1"),
    };
    vec![
        ("init".to_owned(), program("hugetext-lab-agent")),
        ("bin/sh".to_owned(), program("busybox")),
        (format!("lib/{musl}"), program(&musl)),
        (format!("{directory}/{glibc}"), program(glibc)),
    ]
}

/// A filesystem of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fs {
    Ext4,
    Xfs,
    Btrfs,
    F2fs,
    Erofs,
    Overlay,
    HugeTmpfs,
    Tmpfs,
}

impl Fs {
    pub(crate) const ALL: [Fs; 8] = [
        Fs::Ext4,
        Fs::Xfs,
        Fs::Btrfs,
        Fs::F2fs,
        Fs::Erofs,
        Fs::Overlay,
        Fs::HugeTmpfs,
        Fs::Tmpfs,
    ];

    /// Its name in places, records and tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fs::Ext4 => "ext4",
            Fs::Xfs => "xfs",
            Fs::Btrfs => "btrfs",
            Fs::F2fs => "f2fs",
            Fs::Erofs => "erofs",
            Fs::Overlay => "overlay",
            Fs::HugeTmpfs => "hugetmpfs",
            Fs::Tmpfs => "tmpfs",
        }
    }

    /// Whether it needs its own disk.
    pub(crate) fn on_disk(self) -> bool {
        !matches!(self, Fs::Overlay | Fs::HugeTmpfs | Fs::Tmpfs)
    }

    /// The mount arguments in guests.
    pub(crate) fn place(self) -> Place {
        let (fstype, options) = match self {
            // It lies over ext4, which is mounted first.
            Fs::Overlay => (
                "overlay",
                "lowerdir=/mnt/ext4/lower,upperdir=/mnt/ext4/upper,workdir=/mnt/ext4/work",
            ),
            Fs::HugeTmpfs => ("tmpfs", "huge=always"),
            _ => (self.name(), ""),
        };
        Place {
            name: self.name().to_owned(),
            fstype: fstype.to_owned(),
            disk: self.on_disk(),
            options: options.to_owned(),
        }
    }

    /// Makes a disk with this filesystem at `path`. If guests cannot write to the filesystem, the
    /// disk holds the files that they measure.
    pub(crate) fn make(
        self,
        path: &Path,
        work: &Path,
        flavour: Flavour,
        programs: &Unit,
        built: &Built,
    ) -> Result<()> {
        let (program, arguments): (_, &[&str]) = match self {
            Fs::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Fs::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Fs::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
            Fs::F2fs => ("mkfs.f2fs", &["-q", "-f"]),
            Fs::Erofs => ("mkfs.erofs", &["-d0"]),
            Fs::Overlay | Fs::HugeTmpfs | Fs::Tmpfs => return Ok(()),
        };
        let disk = File::create(path).at(path)?;
        let mut mkfs = Command::new(program);
        // The mkfs programs are in directories that only root's PATH contains.
        let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        mkfs.args(arguments).arg(path).env("PATH", search);
        if self == Fs::Erofs {
            mkfs.arg(read_only_files(work, flavour, programs, built)?);
        } else {
            disk.set_len(DISK).at(path)?;
        }
        tool::run(&mut mkfs).map(drop)
    }
}

impl FromStr for Fs {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, Self::Err> {
        let known = || Fs::ALL.map(Fs::name).join(", ");
        let found = Fs::ALL.into_iter().find(|fs| fs.name() == name);
        found.ok_or_else(|| {
            format!(
                "unknown filesystem '{name}'; the known ones are {}",
                known()
            )
        })
    }
}

/// A directory with a file of a few PMD windows and all programs.
fn read_only_files(
    work: &Path,
    flavour: Flavour,
    programs: &Unit,
    built: &Built,
) -> Result<PathBuf> {
    let files = work.join("files");
    fs::create_dir(&files).at(&files)?;
    let windows = files.join(READ_ONLY_FILE);
    let bytes = match flavour {
        Flavour::Amd64 | Flavour::Amd64Generic | Flavour::Arm64 => 8 << 20,
        Flavour::Arm64_16k => 64 << 20,
    };
    fs::write(&windows, vec![0xcc; bytes]).at(&windows)?;
    for name in ["cc1", "libgccjit.so.0"] {
        let to = files.join(name);
        fs::copy(programs.path(name)?, &to).at(&to)?;
    }
    for (name, path) in built {
        fs::copy(path, files.join(name)).at(path)?;
    }
    Ok(files)
}

/// Size of a disk in bytes, sparse: a little more than the minimum of mkfs.xfs.
const DISK: u64 = 512 << 20;
