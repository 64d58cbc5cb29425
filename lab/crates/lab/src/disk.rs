//! The filesystems of a guest: how each is mounted, and the disks they are on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_lab_agent::{Place, READ_ONLY_FILE, ROOT};
use hugetext_leaf::Filesystem;

use crate::cache::Unit;
use crate::error::{At, Result};
use crate::guest::Built;
use crate::kernel::Flavour;
use crate::tool;

/// The filesystem of a word on the command line: a name in places, records and tables.
pub(crate) fn filesystem(word: &str) -> std::result::Result<Filesystem, String> {
    let mut named = Filesystem::NAMED.into_iter();
    named.find(|fs| fs.name() == word).ok_or_else(|| {
        let known = Filesystem::NAMED.map(Filesystem::name).join(", ");
        format!("unknown filesystem '{word}'; the known ones are {known}")
    })
}

/// Whether it needs its own disk.
pub(crate) fn on_disk(fs: Filesystem) -> bool {
    !matches!(
        fs,
        Filesystem::Overlay | Filesystem::HugeTmpfs | Filesystem::Tmpfs
    )
}

/// The mount arguments in guests.
pub(crate) fn place(fs: Filesystem) -> Place {
    let (fstype, options) = match fs {
        // It lies over ext4, which is mounted first.
        Filesystem::Overlay => (
            "overlay",
            "lowerdir=/mnt/ext4/lower,upperdir=/mnt/ext4/upper,workdir=/mnt/ext4/work",
        ),
        Filesystem::HugeTmpfs => ("tmpfs", "huge=always"),
        _ => (fs.name(), ""),
    };
    Place {
        name: fs.name().to_owned(),
        fstype: fstype.to_owned(),
        disk: on_disk(fs),
        options: options.to_owned(),
    }
}

/// Makes a disk of `size` MiB with a filesystem at `path`. If guests cannot write to the filesystem, the
/// disk holds the files that they measure.
pub(crate) fn make(
    fs: Filesystem,
    path: &Path,
    size: u32,
    work: &Path,
    flavour: Flavour,
    programs: &Unit,
    built: &Built,
) -> Result<()> {
    let (program, arguments): (_, &[&str]) = match fs {
        Filesystem::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
        Filesystem::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        Filesystem::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        Filesystem::F2fs => ("mkfs.f2fs", &["-q", "-f"]),
        Filesystem::Erofs => ("mkfs.erofs", &["-d0"]),
        Filesystem::Overlay | Filesystem::HugeTmpfs | Filesystem::Tmpfs | Filesystem::Other => {
            return Ok(());
        }
    };
    let disk = File::create(path).at(path)?;
    let mut mkfs = mkfs(program);
    mkfs.args(arguments).arg(path);
    if fs == Filesystem::Erofs {
        mkfs.arg(read_only_files(work, flavour, programs, built)?);
    } else {
        disk.set_len(u64::from(size) << 20).at(path)?;
    }
    tool::run(&mut mkfs).map(drop)
}

/// Makes an ext4 disk at `path` with a copy of `directory` and [`ROOM`] bytes to spare.
pub(crate) fn make_root(path: &Path, directory: &Path) -> Result<()> {
    let mut du = Command::new("du");
    let said = tool::run(du.args(["-sx", "--block-size=1"]).arg(directory))?;
    let used = said.split_whitespace().next();
    let used: u64 = used.and_then(|word| word.parse().ok()).unwrap_or(0);
    let disk = File::create(path).at(path)?;
    // Inodes and the journal take a few percent.
    let length = used.saturating_add(used / 8).saturating_add(ROOM);
    disk.set_len(length).at(path)?;
    let mut mkfs = mkfs("mkfs.ext4");
    mkfs.args(["-q", "-F", "-L", ROOT, "-d"])
        .arg(directory)
        .arg(path);
    tool::run(&mut mkfs).map(drop)
}

/// The mkfs programs are in directories that only root's PATH contains.
fn mkfs(program: &str) -> Command {
    let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut mkfs = Command::new(program);
    mkfs.env("PATH", search);
    mkfs
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
        Flavour::Arm64_16k => 64 << 20,
        _ => 8 << 20,
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

/// Default size of a disk in MiB, sparse: a little more than the minimum of mkfs.xfs.
pub(crate) const SIZE: u32 = 512;
/// Free bytes on the disk of a root, sparse.
const ROOM: u64 = 2 << 30;
