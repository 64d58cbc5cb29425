//! Passing open files to a stopped process.

use std::fs::{self, File};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use hugetext_host::Pid;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::arch::Numbers;
use crate::call::{Caller, bits};
use crate::error::SwapError;
use crate::scratch::Scratch;

/// Gives the process duplicates of `files` through a pair of sockets that the process itself has.
/// This needs no path that both processes can reach. Returns the numbers of the duplicates in the
/// process.
pub(crate) fn pass_files(
    caller: &mut Caller<'_>,
    scratch: &Scratch,
    files: &[&File],
) -> Result<Vec<u64>, SwapError> {
    let kind = bits(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    let arguments = [bits(libc::AF_UNIX), kind, 0, scratch.number(PAIR[0]), 0, 0];
    caller
        .call(libc::SYS_socketpair, arguments)
        .map_err(SwapError::call("socketpair"))?;
    let target = caller.target();
    let mut pair = [0; 8];
    target
        .read(scratch.number(PAIR[0]), &mut pair)
        .map_err(SwapError::Trace)?;
    let [near, far] = [0, 4].map(|at| {
        let bytes = pair.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        i32::from_ne_bytes(bytes.unwrap_or([0xff; 4]))
    });
    let outcome =
        send(caller, near, files).and_then(|()| receive(caller, scratch, far, files.len()));
    for (index, fd) in PAIR.into_iter().zip([near, far]) {
        scratch.close(caller, index, bits(fd));
    }
    outcome
}

fn send(caller: &Caller<'_>, near: i32, files: &[&File]) -> Result<(), SwapError> {
    let target = caller.target();
    let socket = pidfd_getfd(target.pidfd(), near, PidfdGetfdFlags::empty())
        .map_err(|error| SwapError::Trace(error.into()))?;
    // A thread may have its own table of files, in which the number means another file.
    let name = format!("/proc/{}/task/{}/fd/{near}", target.pid(), caller.tid());
    let theirs = fs::metadata(name).map_err(SwapError::Trace)?;
    let ours = rustix::fs::fstat(&socket).map_err(|error| SwapError::Trace(error.into()))?;
    if (theirs.dev(), theirs.ino()) != (ours.st_dev, ours.st_ino) {
        return Err(SwapError::NoThread);
    }
    let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(&fds).size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(
        socket,
        &[IoSlice::new(b"t")],
        &mut control,
        SendFlags::DONTWAIT,
    )
    .map(drop)
    .map_err(|error| SwapError::Trace(error.into()))
}

/// The offsets of the parts of struct msghdr in the scratch page, which is at least 4 KiB.
const CONTROL: u64 = 0;
const HEADER: u64 = 2048;
const VECTOR: u64 = 2112;
const BYTE: u64 = 2176;
/// struct cmsghdr.
const CONTROL_HEADER: usize = Numbers::FIRST as usize;
/// The pair of sockets has the last of the numbers. One message passes fewer files.
const PAIR: [usize; 2] = [Numbers::COUNT as usize - 2, Numbers::COUNT as usize - 1];

fn receive(
    caller: &mut Caller<'_>,
    scratch: &Scratch,
    far: i32,
    count: usize,
) -> Result<Vec<u64>, SwapError> {
    let target = caller.target();
    let control_len = CONTROL_HEADER + count.next_multiple_of(2) * 4;
    // struct user_msghdr and struct iovec (include/linux/socket.h). Their fields are 64-bit words
    // on every 64-bit architecture. The message has no name.
    let header = [
        0,
        0,
        scratch.at(VECTOR),
        1,
        scratch.at(CONTROL),
        control_len as u64,
        0,
    ];
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect::<Vec<u8>>()
    };
    let written = target
        .write(scratch.at(HEADER), &words(&header))
        .and_then(|()| target.write(scratch.at(VECTOR), &words(&[scratch.at(BYTE), 1])));
    written.map_err(SwapError::Trace)?;
    let arguments = [
        bits(far),
        scratch.at(HEADER),
        bits(libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT),
        0,
        0,
        0,
    ];
    caller
        .call(libc::SYS_recvmsg, arguments)
        .map_err(SwapError::call("recvmsg"))?;
    let mut control = vec![0; control_len];
    target
        .read(scratch.at(CONTROL), &mut control)
        .map_err(SwapError::Trace)?;
    let fds = received(&control);
    if fds.len() != count {
        // The kernel does not say which (scm_detach_fds(), fs/file.c: receive_fd()): the limit, or a security module.
        let has_room = may_open(target.pid(), 1);
        for (index, fd) in fds.into_iter().enumerate() {
            scratch.close(caller, index, fd);
        }
        return Err(if has_room {
            SwapError::FilesRefused
        } else {
            SwapError::TooManyFiles
        });
    }
    Ok(fds)
}

/// Whether a process may open so many more files, by what /proc says. `false` if that cannot be read.
fn may_open(pid: Pid, more: usize) -> bool {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let limit = soft_limit_of_files(&limits).unwrap_or(0);
    let open = fs::read_dir(format!("/proc/{pid}/fd")).map_or(usize::MAX, Iterator::count);
    open.saturating_add(more) <= limit
}

/// RLIMIT_NOFILE, as /proc/PID/limits has it: a number, or "unlimited".
fn soft_limit_of_files(limits: &str) -> Option<usize> {
    let rest = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        soft => soft.parse().ok(),
    }
}

/// The file numbers in a control message. They are fewer than were sent if the process may open no
/// more files.
fn received(control: &[u8]) -> Vec<u64> {
    let (len, rest) = control.split_at_checked(8).unwrap_or_default();
    let len = u64::from_ne_bytes(len.try_into().unwrap_or_default()) as usize;
    let numbers = rest.get(8..len.saturating_sub(8)).unwrap_or_default();
    let (numbers, _) = numbers.as_chunks::<4>();
    let numbers = numbers.iter().map(|bytes| u32::from_ne_bytes(*bytes));
    numbers.map(u64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_files_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             95802                95802                processes \n\
                      Max open files            1024                 1048576              files     \n";
        assert_eq!(soft_limit_of_files(limits), Some(1024));
        let unlimited = limits.replace("1024 ", "unlimited ");
        assert_eq!(soft_limit_of_files(&unlimited), Some(usize::MAX));
        assert_eq!(soft_limit_of_files("Max open files"), None);
        assert!(may_open(Pid::own(), 1));
    }
}
