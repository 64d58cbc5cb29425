//! The proc connector: reports of forks, executions and exits by netlink (linux/cn_proc.h).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::processes::Pid;

/// CN_IDX_PROC and CN_VAL_PROC (linux/connector.h).
const CN_PROC: [u32; 2] = [1, 1];
/// PROC_CN_MCAST_LISTEN.
const LISTEN: u32 = 1;
/// Values of proc_event.what.
const NONE: u32 = 0;
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;

/// struct nlmsghdr and struct cn_msg, which come before a proc_event.
const NLMSGHDR: usize = 16;
const CN_MSG: usize = 20;
/// proc_event up to its union: what, cpu, timestamp.
const EVENT: usize = 16;

/// Bytes of reports that the kernel buffers for us: a few hundred thousand reports.
const BUFFER: usize = 32 << 20;

/// The kernel's report about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessReport {
    Fork { parent: Pid, child: Pid },
    Exec { pid: Pid },
    Exit { pid: Pid },
    Lost,
}

/// A socket that receives the reports.
#[derive(Debug)]
pub(super) struct Connector(OwnedFd);

impl AsFd for Connector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Connector {
    pub(super) fn new() -> io::Result<Connector> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::NETLINK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(netlink::CONNECTOR))?;
        // A smaller buffer loses reports earlier; losses are reported.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
        bind(&socket, &SocketAddrNetlink::new(0, CN_PROC[0]))?;
        send(&socket, &request(), SendFlags::empty())?;
        let connector = Connector(socket);
        connector.acknowledged()?;
        Ok(connector)
    }

    /// The kernel answers a request at once. From inside a container, it never answers.
    fn acknowledged(&self) -> io::Result<()> {
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&second))?;
        let mut buffer = [0; 4096];
        let (len, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
        let event = buffer.get(NLMSGHDR + CN_MSG..len).unwrap_or_default();
        match (word(event, 0), word(event, EVENT)) {
            (Some(NONE), Some(0)) | (Some(FORK | EXEC | EXIT), _) => Ok(()),
            (Some(NONE), Some(error)) => Err(io::Error::from_raw_os_error(error.cast_signed())),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// All reports available now.
    pub(super) fn read(&self) -> io::Result<Vec<ProcessReport>> {
        let mut reports = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Ok((len, _)) => reports.extend(buffer.get(..len).and_then(parse)),
                Err(Errno::NOBUFS) => reports.push(ProcessReport::Lost),
                Err(Errno::AGAIN) => return Ok(reports),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Asks for reports: nlmsghdr, cn_msg, and the word that says so.
fn request() -> Vec<u8> {
    const NLMSG_DONE: u16 = 3;
    let payload = LISTEN.to_ne_bytes();
    let total = (NLMSGHDR + CN_MSG + payload.len()) as u32;
    let mut bytes = Vec::new();
    bytes.extend(total.to_ne_bytes());
    bytes.extend(NLMSG_DONE.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(CN_PROC.into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend([0; 8]);
    bytes.extend((payload.len() as u16).to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(payload);
    bytes
}

/// The report in a message; `None` for one of a thread or of another kind.
fn parse(message: &[u8]) -> Option<ProcessReport> {
    let event = message.get(NLMSGHDR + CN_MSG..)?;
    let number = |index: usize| word(event, EVENT + 4 * index).map(u32::cast_signed);
    let pid = |index: usize| Pid::from_raw(number(index)?);
    match word(event, 0)? {
        FORK if number(2)? == number(3)? => Some(ProcessReport::Fork {
            parent: pid(1)?,
            child: pid(3)?,
        }),
        EXEC => Some(ProcessReport::Exec { pid: pid(1)? }),
        EXIT if number(0)? == number(1)? => Some(ProcessReport::Exit { pid: pid(1)? }),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let end = at.checked_add(4)?;
    let word = bytes.get(at..end)?.try_into().ok()?;
    Some(u32::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; NLMSGHDR + CN_MSG];
        bytes.extend([words[0], 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
        bytes.extend(words[1..].iter().copied().flat_map(u32::to_ne_bytes));
        bytes
    }

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn processes_are_told_and_threads_are_not() {
        let fork = ProcessReport::Fork {
            parent: pid(10),
            child: pid(20),
        };
        assert_eq!(parse(&message(&[FORK, 11, 10, 20, 20])), Some(fork));
        assert_eq!(parse(&message(&[FORK, 11, 10, 21, 10])), None);
        assert_eq!(
            parse(&message(&[EXEC, 21, 20])),
            Some(ProcessReport::Exec { pid: pid(20) })
        );
        let exit = ProcessReport::Exit { pid: pid(20) };
        assert_eq!(parse(&message(&[EXIT, 20, 20, 0, 17])), Some(exit));
        assert_eq!(parse(&message(&[EXIT, 21, 20, 0, 17])), None);
        for len in 0..60 {
            assert_eq!(parse(&message(&[FORK])[..len.min(52)]), None);
        }
    }
}
