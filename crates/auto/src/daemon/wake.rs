//! What ends the daemon's waiting: one descriptor that is ready when any of these is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Everything that wakes the daemon, besides starts.
#[derive(Debug)]
pub(super) struct Wake {
    epoll: OwnedFd,
    work: Arc<OwnedFd>,
    signals: OwnedFd,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Wake {
    /// Wakes for signals and ended work. From now on SIGTERM and SIGINT end the daemon in order, and
    /// SIGHUP makes it read its configuration again.
    pub(super) fn new() -> io::Result<Wake> {
        // A pipe, and no pair of sockets: the unit allows no address family.
        let (signals, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let reload = Arc::new(AtomicBool::new(false));
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        let wake = Wake {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            work: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            signals,
            stop,
            reload,
        };
        wake.add(&wake.work, EventFlags::IN)?;
        wake.add(&wake.signals, EventFlags::IN)?;
        Ok(wake)
    }

    /// Also wakes for this descriptor.
    pub(super) fn add(&self, source: impl AsFd, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            EventData::new_u64(0),
            events,
        )?)
    }

    /// Wakes the daemon from another thread.
    pub(super) fn handle(&self) -> Arc<dyn Fn() + Send + Sync> {
        let work = Arc::clone(&self.work);
        Arc::new(move || {
            // A counter that is full has woken already.
            let _ = rustix::io::write(&*work, &1u64.to_ne_bytes());
        })
    }

    /// Forgets what woke it.
    pub(super) fn clear(&self) {
        let mut bytes = [0; 64];
        let _ = rustix::io::read(&*self.work, &mut bytes);
        let _ = rustix::io::read(&self.signals, &mut bytes);
    }

    /// Whether the daemon is to end.
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether somebody asked to read the configuration again.
    pub(super) fn reloads(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}
