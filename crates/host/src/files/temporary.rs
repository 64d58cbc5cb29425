//! Names of files that are removed when the program ends.

use std::ffi::{CStr, CString, OsStr, c_int};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use rustix::fs::{Mode, OFlags, openat};

/// A name that is removed when this value is dropped, or when a signal ends the program. SIGKILL
/// and a loss of power leave it behind.
#[derive(Debug)]
pub(crate) struct Temporary {
    /// One path for each name. It is never freed, so that a signal handler may read it at any time.
    path: &'static CStr,
    slot: Option<&'static AtomicPtr<libc::c_char>>,
}

/// The names that exist now. There are several if files are made in parallel.
static NAMES: [AtomicPtr<libc::c_char>; 16] = [const { AtomicPtr::new(null_mut()) }; 16];

/// The number of names made so far, so that each name is unique.
static MADE: AtomicU32 = AtomicU32::new(0);

/// How many names are tried before the search for a free one ends with an error.
const TRIES: u32 = 8;

impl Temporary {
    /// A new file in `directory` that its owner can read and write, opened as `opened`.
    pub(crate) fn create(
        directory: &Path,
        opened: BorrowedFd<'_>,
    ) -> io::Result<(File, Temporary)> {
        Temporary::take(directory, |name| {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            Ok(openat(opened, name, flags, Mode::RUSR | Mode::WUSR)?.into())
        })
    }

    /// A name in `directory` under which `make` makes a file or directory. `AlreadyExists` from
    /// `make` asks for another name.
    pub(crate) fn take<T>(
        directory: &Path,
        make: impl Fn(&OsStr) -> io::Result<T>,
    ) -> io::Result<(T, Temporary)> {
        let mut tries = 0;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!(".hugetext-{}-{number}", std::process::id()));
            let name = CString::new(path.into_os_string().into_vec())?;
            let temporary = Temporary::guard(name);
            match make(temporary.name()) {
                Ok(made) => return Ok((made, temporary)),
                Err(error) => {
                    // The file belongs to another process.
                    temporary.release();
                    tries += 1;
                    if error.kind() != io::ErrorKind::AlreadyExists || tries == TRIES {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Registers the name before it exists, so that it is removed at any later moment.
    fn guard(name: CString) -> Temporary {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(remove_on_signals);
        let path: &'static CStr = Box::leak(name.into_boxed_c_str());
        let pointer = path.as_ptr().cast_mut();
        let slot = NAMES.iter().find(|slot| {
            let order = Ordering::AcqRel;
            slot.compare_exchange(null_mut(), pointer, order, Ordering::Relaxed)
                .is_ok()
        });
        Temporary { path, slot }
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.to_bytes()))
    }

    /// The name without its directory.
    pub(crate) fn name(&self) -> &OsStr {
        self.path().file_name().unwrap_or_default()
    }

    /// Keeps the file under its name, if it exists, for its new owner.
    fn release(mut self) {
        self.clear();
        std::mem::forget(self);
    }

    fn clear(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.store(null_mut(), Ordering::Release);
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The name no longer exists if the file was put into place.
        let _ = std::fs::remove_file(self.path());
        self.clear();
    }
}

/// Makes signals that end a program remove its names first, unless they are handled otherwise.
fn remove_on_signals() {
    let flags = SaFlags::SA_RESETHAND | SaFlags::SA_RESTART;
    let remove = SigAction::new(SigHandler::Handler(remove_names), flags, SigSet::empty());
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ] {
        // SAFETY: the handler makes system calls that signal-safety(7) lists, and reads atomics.
        unsafe {
            let before = sigaction(signal, &remove);
            if let Ok(before) = before.as_ref()
                && !matches!(before.handler(), SigHandler::SigDfl)
            {
                let _ = sigaction(signal, before);
            }
        }
    }
}

/// The default action is already restored when this runs (SA_RESETHAND), and follows it.
extern "C" fn remove_names(signal: c_int) {
    for slot in &NAMES {
        let name = slot.load(Ordering::Acquire);
        if !name.is_null() {
            // SAFETY: names are C strings that are never freed.
            unsafe { libc::unlink(name) };
        }
    }
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn names_go_with_their_values() {
        let directory = tempfile::tempdir().unwrap();
        let opened = File::open(directory.path()).unwrap();
        let create = || Temporary::create(directory.path(), opened.as_fd()).unwrap();
        let ((_, one), (_, two)) = (create(), create());
        assert_ne!(one.path(), two.path());
        assert!(one.path().exists() && two.path().exists());
        drop((one, two));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_another_has_stays() {
        let directory = tempfile::tempdir().unwrap();
        let taken = Temporary::take(directory.path(), |name| {
            std::fs::write(directory.path().join(name), "another's")?;
            Err::<(), _>(io::ErrorKind::AlreadyExists.into())
        });
        assert!(taken.is_err());
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, TRIES as usize);
    }
}
