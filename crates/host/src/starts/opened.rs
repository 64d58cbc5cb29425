//! Files opened to be executed, on every filesystem that is mounted here (fanotify(7), FAN_OPEN_EXEC,
//! Linux 5.0).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};

use crate::listed::mount_infos;
use crate::processes::Pid;

/// Which processes open which files to execute them.
#[derive(Debug)]
pub(super) struct Opened(Fanotify);

impl Opened {
    pub(super) fn new() -> io::Result<Opened> {
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK
            | InitFlags::FAN_UNLIMITED_QUEUE;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        let fanotify = Fanotify::init(flags, files)?;
        let mut seen = HashSet::new();
        let mut marked: Result<(), Errno> = Err(Errno::EOPNOTSUPP);
        for mount in mount_infos("/proc/self/mountinfo")? {
            if seen.insert(mount.majmin.clone()) {
                let way = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
                let root = Path::new("/");
                let path = root.join(&mount.mount_point);
                // Of filesystems such as proc nothing is executed, and some cannot be watched.
                let found = fanotify.mark(way, MaskFlags::FAN_OPEN_EXEC, here(), Some(&path));
                marked = marked.or(found);
            }
        }
        marked?;
        Ok(Opened(fanotify))
    }

    /// Process and file of all that were opened since the last call, in order; `None` where some went
    /// unreported.
    pub(super) fn read(&self) -> io::Result<Vec<Option<(Pid, PathBuf)>>> {
        let mut opened = Vec::new();
        loop {
            let events = match self.0.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(opened),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in events {
                if event.mask().contains(MaskFlags::FAN_Q_OVERFLOW) {
                    opened.push(None);
                }
                let file = event.fd().map(|file| file.as_raw_fd());
                let path =
                    file.and_then(|file| fs::read_link(format!("/proc/self/fd/{file}")).ok());
                // A process of another pid namespace has no number here.
                let both = Pid::from_raw(event.pid()).zip(path);
                opened.extend(both.map(Some));
            }
        }
    }
}

/// What an absolute path is not relative to.
fn here() -> BorrowedFd<'static> {
    rustix::fs::CWD
}
