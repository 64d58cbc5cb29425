//! Opens the files of others. Nothing but a regular file is ever opened: a name is first looked at
//! without opening what it names, so that no device is touched and no FIFO waited for.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugetext_host::{MappedFile, Mounts, Pid, filesystem_of};
use hugetext_leaf::Filesystem;
use rustix::fs::{Mode, OFlags, open};

use crate::here::{Here, here};

/// An error if `path` may lead through a filesystem that never answers. The path is not touched. A user who
/// puts a symbolic link into it still makes its opening hang, so it is opened in a thread that can be given up.
pub(crate) fn ensure_answers(path: &Path) -> io::Result<()> {
    let of_process = || {
        let (pid, inside) = path
            .strip_prefix("/proc")
            .ok()?
            .to_str()?
            .split_once("/root/")?;
        Some((pid.parse::<Pid>().ok()?, Path::new("/").join(inside)))
    };
    match of_process() {
        Some((pid, inside)) => answers(&Mounts::of_process(pid)?, &inside),
        None => answers(&this_machine()?.host.mounts, path),
    }
}

fn this_machine() -> io::Result<Arc<Here>> {
    here().map_err(io::Error::other)
}

fn answers(mounts: &Mounts, path: &Path) -> io::Result<()> {
    if mounts.may_never_answer(path) {
        let problem = "a process or another machine serves its filesystem, which may never answer";
        return Err(io::Error::other(problem));
    }
    Ok(())
}

/// Opens a regular file for reading. Where [`hugetext_host::open_regular`] opens a device and then refuses
/// it, this looks first and opens nothing else. It needs /proc.
pub(crate) fn open_untouched(path: &Path) -> io::Result<File> {
    let name = File::from(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    if !name.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let own = format!("/proc/self/fd/{}", name.as_raw_fd());
    Ok(File::from(open(own, flags, Mode::empty())?))
}

/// A file that a process mapped, where this machine can open it.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it was opened.
    pub path: PathBuf,
    /// The open file.
    pub file: File,
}

/// Opens the file that process `pid` mapped by the name `path`: on this machine, or in the root directory
/// of that process. For a file of an overlay, the layer that holds its pages, if this machine can see it.
pub(crate) fn open_mapped(pid: Pid, path: &Path, mapped: MappedFile) -> io::Result<Found> {
    let machine = this_machine()?;
    let mounts = &machine.host.mounts;
    let here = answers(mounts, path).and_then(|()| open_untouched(path));
    if let Some(file) = here.ok().filter(|file| is_same(file, mapped)) {
        return Ok(below_overlay(mounts, path, path, file));
    }
    let mounts = Mounts::of_process(pid)?;
    answers(&mounts, path)?;
    let inside = PathBuf::from(format!("/proc/{pid}/root"));
    let inside = inside.join(path.strip_prefix("/").unwrap_or(path));
    let file = open_untouched(&inside)?;
    if !is_same(&file, mapped) {
        return Err(io::Error::other("its name leads to another file by now"));
    }
    Ok(below_overlay(&mounts, path, &inside, file))
}

/// Whether an open file is the one that was mapped. Overlays and btrfs give other numbers to a profiler
/// than to stat(2); there the name alone has to do.
fn is_same(file: &File, mapped: MappedFile) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let kind = filesystem_of(file).unwrap_or(Filesystem::Other);
    kind == Filesystem::Overlay || mapped.id.may_name(&metadata, kind)
}

/// The file of the layer that an overlay shows at `path`; the file itself if it lies on no overlay, or
/// if the layer cannot be seen. `mounts` are those of the namespace in which `path` is its name.
fn below_overlay(mounts: &Mounts, path: &Path, opened: &Path, file: File) -> Found {
    let layer = || {
        let overlay = mounts.of(&file).ok()?.overlay?;
        let inside = path.strip_prefix(&overlay.mount_point).ok()?;
        let len = file.metadata().ok()?.len();
        overlay.layers.iter().find_map(|layer| {
            let path = layer.join(inside);
            ensure_answers(&path).ok()?;
            let file = open_untouched(&path).ok()?;
            let is_alike = file.metadata().ok()?.len() == len;
            is_alike.then_some(Found { path, file })
        })
    };
    layer().unwrap_or(Found {
        path: opened.to_owned(),
        file,
    })
}

/// Whether every user may read a file, so that its name is no secret.
pub(crate) fn is_public(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else {
        return false;
    };
    let may_read = file.mode() & 0o004 != 0;
    let mut above = path.ancestors().skip(1);
    may_read && above.all(|dir| fs::metadata(dir).is_ok_and(|dir| dir.mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use hugetext_leaf::FileId;

    use super::*;

    fn mapped(path: &Path) -> MappedFile {
        let metadata = fs::metadata(path).unwrap();
        MappedFile {
            id: FileId::of(&metadata),
            generation: 0,
        }
    }

    #[test]
    fn devices_fifos_and_directories_are_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        let status = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(status.unwrap().success());
        for path in [&fifo, Path::new("/dev/null"), directory.path()] {
            let error = open_untouched(path).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file");
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_by_now_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, "old").unwrap();
        let old = mapped(&path);
        let own = Pid::own();
        let found = open_mapped(own, &path, old).unwrap();
        assert_eq!(found.path, path);
        let other = directory.path().join("other");
        fs::write(&other, "new").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(open_mapped(own, &path, old).is_err());
        drop(found);
    }

    #[test]
    fn what_others_may_not_read_is_no_public_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_public(&path));
        assert!(is_public(Path::new("/bin/sh")));
    }
}
