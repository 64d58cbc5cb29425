//! An architecture that promotion does not know. Registers cannot be read, so no thread is ever
//! borrowed.

use std::io;

use hugetext_host::Tid;
use libc::c_long;

use super::architecture::{Architecture, Code, Interrupted};
use crate::waiting::WaitingCall;

/// This architecture.
pub(crate) enum Native {}

/// No registers.
#[derive(Clone, Copy)]
pub(crate) struct Unknown;

impl Architecture for Native {
    type Registers = Unknown;

    const SUPPORTED: bool = false;
    const SYSCALL: &'static [u8] = &[];
    const MMAP: c_long = -1;
    const INSTRUCTION_ALIGNMENT: usize = 1;
    const TRAP: &'static [u8] = &[0];
    const UPROBE: &'static [u8] = &[];
    const GIVE_UP: &'static [c_long] = &[];
    const TIMED_ON_SOCKETS: &'static [c_long] = &[];

    fn registers(_tid: Tid) -> io::Result<Unknown> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_registers(_tid: Tid, _regs: &Unknown) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn skip_call(_tid: Tid, _entry: &Unknown) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_call(_tid: Tid, _number: Option<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_native(_regs: &Unknown) -> bool {
        false
    }

    fn pc(_regs: &Unknown) -> u64 {
        0
    }

    fn result(_regs: &Unknown) -> i64 {
        -i64::from(libc::ENOSYS)
    }

    fn entered(_entry: &Unknown) -> (u64, u64) {
        (0, 0)
    }

    fn will_restart(_regs: &Unknown, _at_pc: [u8; 4]) -> bool {
        false
    }

    fn before_call(stopped: &Unknown, _number: u64, _place: u64) -> Unknown {
        *stopped
    }

    fn call(from: &Unknown, _number: u64, _arguments: [u64; 6], _place: u64) -> Unknown {
        *from
    }

    fn settled(stopped: &Unknown) -> Unknown {
        *stopped
    }

    fn restarted(_stopped: &Unknown) -> Option<Unknown> {
        None
    }

    fn code(_saved: &Unknown, _mask: u64) -> Option<Code> {
        None
    }

    fn waiting_call(_tid: Tid) -> Option<WaitingCall> {
        None
    }

    fn interrupted(
        _tid: Tid,
        _regs: &Unknown,
        _before: Option<&WaitingCall>,
    ) -> Option<Interrupted<Unknown>> {
        None
    }
}
