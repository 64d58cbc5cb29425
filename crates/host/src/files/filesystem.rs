//! The filesystem that a file lies on.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hugetext_leaf::Filesystem;
use procfs::process::MountInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, StatFs, StatVfsMountFlags, StatxFlags, statx};

use crate::listed::mount_infos;
use crate::processes::Pid;

/// The facts of a mount that concern text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedOn {
    /// The filesystem, as the rules name it.
    pub filesystem: Filesystem,
    /// Whether the mount forbids execution.
    pub noexec: bool,
    /// Its device, as mountinfo names it; `None` if the mount is not listed.
    pub(super) device: Option<String>,
    /// For an overlay whose mount is listed: the layers of its files.
    pub overlay: Option<Overlay>,
}

/// The mount point and layers of an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The mount point.
    pub mount_point: PathBuf,
    /// Its layers, as its mount names them, topmost first.
    pub layers: Vec<PathBuf>,
}

impl MountedOn {
    /// The mount of `file`, from statfs(2) alone. A tmpfs is assumed to be an ordinary one.
    fn unlisted(file: &File) -> io::Result<MountedOn> {
        let flags = rustix::fs::fstatvfs(file)?.f_flag;
        Ok(MountedOn {
            filesystem: filesystem_of(file)?,
            noexec: flags.contains(StatVfsMountFlags::NOEXEC),
            device: None,
            overlay: None,
        })
    }
}

/// The filesystem of a file, from fstatfs(2) alone: a tmpfs is taken for an ordinary one.
pub fn filesystem_of(file: impl AsFd) -> io::Result<Filesystem> {
    let found = rustix::fs::fstatfs(file)?;
    Ok(Filesystem::from_magic(magic_of(&found)))
}

/// The magic number of a filesystem, which has 32 bits. The width and the sign of the field differ by architecture.
pub fn magic_of(filesystem: &StatFs) -> u32 {
    filesystem.f_type as u32
}

/// Opens a file for reading. A FIFO is opened without waiting for its writer.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a regular file for reading; anything else is an error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "is a directory",
        ));
    }
    if !kind.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// The text of a regular file of at most 16 MiB. Anything else is an error, and nothing is waited for.
pub fn read_regular(path: &Path) -> io::Result<String> {
    const LONGEST: u64 = 16 << 20;
    let file = open_regular(path)?;
    if file.metadata()?.len() > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    io::read_to_string(io::Read::take(file, LONGEST))
}

/// At most `longest` bytes of the text of a regular file, if only root or this user can have written it.
pub fn read_trusted(path: &Path, longest: u64) -> io::Result<String> {
    io::read_to_string(io::Read::take(open_trusted(path)?, longest))
}

/// Opens a regular file for reading, if only root or this user can have written it.
pub fn open_trusted(path: &Path) -> io::Result<File> {
    let file = open_regular(path)?;
    let metadata = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    let reason = if ![0, own].contains(&metadata.uid()) {
        "it belongs to another user, who could change it"
    } else if metadata.mode() & 0o002 != 0 || (metadata.mode() & 0o020 != 0 && metadata.gid() != 0)
    {
        "others may write to it"
    } else {
        return Ok(file);
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Bytes an unprivileged user may still write to the filesystem of `file`.
pub fn free_bytes(file: &File) -> io::Result<u64> {
    let filesystem = rustix::fs::fstatvfs(file)?;
    Ok(filesystem.f_bavail.saturating_mul(filesystem.f_frsize))
}

/// Tells when the mounts of this process have changed, so that whoever asks often reads them seldom.
#[derive(Debug)]
pub struct MountsWatch(File);

impl MountsWatch {
    /// Watches from now on. An error if proc is not mounted.
    pub fn new() -> io::Result<MountsWatch> {
        MountsWatch::of("/proc/self/mountinfo")
    }

    fn of(list: &str) -> io::Result<MountsWatch> {
        File::open(list).map(MountsWatch)
    }

    /// Whether they have changed since the last call, or since the beginning (proc_pid_mounts(5)).
    pub fn has_changed(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.0, PollFlags::PRI)];
        // What cannot be told may have changed.
        poll(&mut descriptors, Some(&Timespec::default())) != Ok(0)
    }
}

/// The mounts of a process's namespace, as read at one time.
#[derive(Debug, Default)]
pub struct Mounts {
    by_id: HashMap<u64, MountedOn>,
    /// Where filesystems are mounted that another machine or a process serves.
    served: Vec<PathBuf>,
}

impl Mounts {
    /// The mounts of this process; none if proc is not mounted, as in image builds.
    pub fn read() -> io::Result<Mounts> {
        match Mounts::listed("/proc/self/mountinfo") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Mounts::default()),
            read => read,
        }
    }

    /// The mounts of another process, for the files that it maps.
    pub fn of_process(pid: Pid) -> io::Result<Mounts> {
        Mounts::listed(&format!("/proc/{pid}/mountinfo"))
    }

    fn listed(path: &str) -> io::Result<Mounts> {
        let listed = mount_infos(path)?;
        let mut mounts = Mounts::default();
        for mount in listed {
            if Filesystem::is_served(&mount.fs_type) {
                mounts.served.push(mount.mount_point.clone());
            }
            if let Ok(id) = u64::try_from(mount.mnt_id) {
                mounts.by_id.insert(id, describe(mount));
            }
        }
        Ok(mounts)
    }

    /// Whether `path` may lead through a filesystem that never answers, because a process (FUSE) or another
    /// machine serves it. The path is not touched, and its symbolic links are not followed.
    pub fn may_never_answer(&self, path: &Path) -> bool {
        self.served.iter().any(|mount| path.starts_with(mount))
    }

    /// The mount through which `file` was opened, by its mount id (statx STATX_MNT_ID, Linux 5.8).
    /// A mount that is not listed is known by statfs(2) alone: the list leaves out the mount of a
    /// chroot's root directory, since its mount point lies outside, and is empty without proc.
    pub fn of(&self, file: &File) -> io::Result<MountedOn> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        match self.by_id.get(&stat.stx_mnt_id) {
            Some(mount) => Ok(mount.clone()),
            None => MountedOn::unlisted(file),
        }
    }

    /// The filesystem whose page cache holds the pages of `file`, opened at `path`: its own, or,
    /// for a file on an overlay, that of the first layer that contains it. Layers are looked up by
    /// the names in the mount, which may be unreachable from this namespace, as in a container. In
    /// that case, and if layers lie on overlays themselves, the answer is the overlay.
    pub fn page_cache(&self, file: &File, path: &Path) -> io::Result<Filesystem> {
        let mount = self.of(file)?;
        let Some(overlay) = &mount.overlay else {
            return Ok(mount.filesystem);
        };
        let below = || -> Option<Filesystem> {
            let path = path.canonicalize().ok()?;
            let inside = path.strip_prefix(&overlay.mount_point).ok()?;
            let metadata = file.metadata().ok()?;
            overlay.layers.iter().find_map(|layer| {
                let below = open_without_waiting(&layer.join(inside)).ok()?;
                let same = below.metadata().ok()?;
                let alike = same.file_type() == metadata.file_type()
                    && (metadata.is_dir() || same.len() == metadata.len());
                let mount = self.of(&below).ok().filter(|_| alike)?;
                (mount.filesystem != Filesystem::Overlay).then_some(mount.filesystem)
            })
        };
        Ok(below().unwrap_or(Filesystem::Overlay))
    }
}

/// The layers in the options of an overlay, topmost first. A layer whose name contains a colon is
/// not found.
fn layers(options: &HashMap<String, Option<String>>) -> Vec<PathBuf> {
    let named = ["upperdir", "lowerdir", "lowerdir+"].map(|name| options.get(name));
    let names = named.into_iter().flatten().flatten();
    names
        .flat_map(|names| names.split(':').map(PathBuf::from))
        .collect()
}

fn describe(mount: MountInfo) -> MountedOn {
    let huge = mount
        .super_options
        .get("huge")
        .and_then(|value| value.as_deref());
    let filesystem = match Filesystem::from_name(&mount.fs_type) {
        Filesystem::Tmpfs if huge == Some("always") => Filesystem::HugeTmpfs,
        other => other,
    };
    MountedOn {
        filesystem,
        device: Some(mount.majmin),
        noexec: mount.mount_options.contains_key("noexec"),
        overlay: (filesystem == Filesystem::Overlay).then(|| Overlay {
            layers: layers(&mount.super_options),
            mount_point: mount.mount_point,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_topmost_first() {
        let option = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let options = [option("lowerdir", "/b:/c"), option("upperdir", "/a")];
        let found = layers(&options.into_iter().collect());
        assert_eq!(found, ["/a", "/b", "/c"].map(PathBuf::from));
    }

    #[test]
    fn what_others_serve_may_never_answer() {
        let mounts = Mounts {
            served: vec!["/home/alice/remote".into()],
            ..Mounts::default()
        };
        let answers = |path| !mounts.may_never_answer(Path::new(path));
        assert!(answers("/home/alice/remote2/bin") && answers("/home"));
        assert!(!answers("/home/alice/remote") && !answers("/home/alice/remote/bin"));
    }

    #[test]
    fn names_the_filesystem_of_proc() {
        let file = File::open("/proc/self/status").unwrap();
        let mounts = Mounts::read().unwrap();
        let mount = mounts.of(&file).unwrap();
        assert_eq!(mount.filesystem, Filesystem::Other);
    }

    #[test]
    fn a_watch_tells_a_change_of_mounts_once() {
        let told = std::thread::spawn(|| {
            use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
            // SAFETY: a thread has no memory or descriptors of its own that another one could use.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
            mount_change(
                "/",
                MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
            )?;
            let watch = MountsWatch::of("/proc/thread-self/mountinfo")?;
            let before = watch.has_changed();
            mount("none", "/tmp", "tmpfs", MountFlags::empty(), None)?;
            Ok::<_, io::Error>([before, watch.has_changed(), watch.has_changed()])
        });
        match told.join().unwrap() {
            Ok(told) => assert_eq!(told, [false, true, false]),
            Err(error) => println!("skipped: this user may not mount: {error}"),
        }
    }

    #[test]
    fn a_mount_that_is_not_listed_is_known_by_statfs() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let listed = Mounts::read().unwrap().of(&file).unwrap();
        let unlisted = Mounts::default().of(&file).unwrap();
        assert_eq!(unlisted.filesystem, listed.filesystem);
        assert_eq!(unlisted.noexec, listed.noexec);
    }
}
