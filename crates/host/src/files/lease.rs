//! Who has a file open, by the leases that the kernel grants (F_SETLEASE, fcntl(2)).

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A lease on a file that this process has open (F_SETLEASE with F_WRLCK, fcntl(2)): proof that at this moment no other
/// open file and no mapping of it exists, in any namespace. Whoever opens it waits until the file is closed, but no
/// longer than fs.lease-break-time (45 s), so nothing that would harm a mapping may follow from the proof. `false` if
/// somebody has it open. Takes CAP_LEASE for a file of another user.
pub fn lease(file: &File) -> io::Result<bool> {
    take(file, libc::F_WRLCK)
}

/// Whether any process has `file` open for writing or mapped so that it can write, in any namespace. `file` itself
/// must be open for reading only. Takes CAP_LEASE for a file of another user.
pub fn has_writer(file: &File) -> io::Result<bool> {
    let granted = take(file, libc::F_RDLCK)?;
    if granted {
        set(file, F_SETLEASE, libc::F_UNLCK)?;
    }
    Ok(!granted)
}

/// include/uapi/asm-generic/fcntl.h and include/uapi/linux/fcntl.h.
const F_SETSIG: c_int = 10;
const F_SETLEASE: c_int = 1024;

/// `false` if somebody has the file open in a way that the lease excludes.
fn take(file: &File, lease: c_int) -> io::Result<bool> {
    // The signal that tells of somebody who waits. Its default action is to ignore it.
    set(file, F_SETSIG, libc::SIGURG)?;
    match set(file, F_SETLEASE, lease) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

fn set(file: &File, command: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: both commands take an integer.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_nobody_else_has_open_is_leased() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(!lease(&file).unwrap());
        drop(reader);
        assert!(lease(&file).unwrap());
    }

    #[test]
    fn a_writer_is_found_and_a_reader_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(has_writer(&reader).unwrap());
        drop(writer);
        assert!(!has_writer(&reader).unwrap());
        // The lease is over, so nobody waits for it.
        File::options().write(true).open(&path).unwrap();
    }
}
