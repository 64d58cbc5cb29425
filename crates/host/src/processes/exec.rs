//! Replaces this process by another program, with the process state that this one inherited.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this process began.
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Which of descriptors 0, 1 and 2 were closed when this process began.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Runs before the Rust runtime. The runtime ignores SIGPIPE, and opens /dev/null for each of
/// standard input, output and error that is closed.
extern "C" fn remember() {
    // SAFETY: sigaction is a plain C struct for which all-zero bytes are a value, and a null
    // pointer for the new action asks for the old one only.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), &raw mut old) == 0 {
            SIGPIPE_IGNORED.store(old.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
    }
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD takes any number; it fails only for a number that is not an open
        // descriptor.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        closed.store(flags < 0, Ordering::Relaxed);
    }
}

// SAFETY: the C library calls the functions of .init_array once, before main(), with arguments
// that a C function may ignore; this function depends on nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = remember;

/// Makes a write beyond RLIMIT_FSIZE an error (EFBIG) instead of the end of this process. Programs
/// that it executes afterwards inherit that.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring runs no code; the call fails only for signals that do not exist.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Replaces this process by `program`, called `arguments[0]`, with the environment unchanged.
/// Unlike `std::process::Command`, it keeps the signal mask, restores the inherited SIGPIPE, and
/// closes standard input, output and error again if they were closed. A file that is neither ELF
/// nor script is given to /bin/sh, as execvp(3) does.
pub fn exec<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> io::Result<Infallible> {
    let path = c_string(program.as_os_str())?;
    let arguments = arguments
        .iter()
        .map(|argument| c_string(argument.as_ref()))
        .collect::<io::Result<Vec<_>>>()?;
    close_what_was_closed();
    let error = with_sigpipe_as_inherited(|| {
        let error = execv(&path, &arguments);
        if error.raw_os_error() != Some(libc::ENOEXEC) {
            return error;
        }
        let mut shell = vec![c"/bin/sh".to_owned(), path.clone()];
        shell.extend(arguments.iter().skip(1).cloned());
        execv(c"/bin/sh", &shell)
    });
    Err(error)
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Returns only if the execution failed.
fn execv(path: &CStr, arguments: &[CString]) -> io::Error {
    let pointers: Vec<*const c_char> = arguments
        .iter()
        .map(|argument| argument.as_ptr())
        .chain([ptr::null()])
        .collect();
    // SAFETY: the path and the arguments are NUL-terminated, the array ends with a null pointer,
    // and all of them outlive the call.
    unsafe { libc::execv(path.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Closes them at the last moment, so that an error can still be printed before.
fn close_what_was_closed() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        if closed.load(Ordering::Relaxed) {
            // SAFETY: F_SETFD takes any number, and the runtime's /dev/null belongs to no value.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

fn with_sigpipe_as_inherited<T>(act: impl FnOnce() -> T) -> T {
    let inherited = if SIGPIPE_IGNORED.load(Ordering::Relaxed) {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    set_sigpipe(inherited);
    let result = act();
    set_sigpipe(libc::SIG_IGN);
    result
}

fn set_sigpipe(handler: libc::sighandler_t) {
    // SAFETY: the handlers used here are the two constants, which run no code. The call fails only
    // for signals that do not exist.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
}

/// Whether this process may execute the file at `path`, by its effective ids.
pub fn may_execute(path: &Path) -> io::Result<()> {
    let (mode, flags) = (rustix::fs::Access::EXEC_OK, rustix::fs::AtFlags::EACCESS);
    rustix::fs::accessat(rustix::fs::CWD, path, mode, flags)?;
    if path.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}
