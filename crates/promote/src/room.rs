//! Code in a process that no call has mapped there.
//!
//! The kernel gives every process a page or two of code of its own, the vDSO, and fills them up with zeros. A tracer may
//! write there (PTRACE_POKEDATA), and the process then has its own copy of the page. So a thread can be given code
//! before it has made a single call for its tracer.

use std::io;

use hugetext_host::Tid;
use hugetext_leaf::Span;
use nix::sys::ptrace;

use crate::arch::Code;
use crate::error::SwapError;
use crate::maps::is_code;
use crate::target::Target;

/// Code in the room behind the vDSO.
#[derive(Debug)]
pub(crate) struct Placed {
    at: u64,
    len: usize,
    numbers: u64,
}

/// What a word of memory is for ptrace.
const WORD: usize = size_of::<libc::c_long>();

impl Placed {
    /// Writes the code. What a tracer that was killed has left there is kept: the thread may not be through it.
    pub(crate) fn new(
        target: &Target,
        tid: Tid,
        vdso: Span,
        code: &Code,
    ) -> Result<Placed, SwapError> {
        let mut there = vec![0; vdso.len() as usize];
        let len = code.bytes.len().next_multiple_of(WORD);
        let read = target.read(vdso.start, &mut there);
        let begin = read.ok().and_then(|()| room_in(&there, len));
        let begin = begin.filter(|_| is_code(target, vdso));
        let at = vdso.start + begin.ok_or(SwapError::NoRoom)? as u64;
        let placed = Placed {
            at,
            len,
            numbers: at + code.numbers,
        };
        let written = placed.write(tid, &code.bytes);
        if written.is_err() {
            placed.erase(tid);
        }
        written.map_err(SwapError::Trace)?;
        Ok(placed)
    }

    /// Its address.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Names the page with the numbers of files; zero if there is none any more.
    pub(crate) fn set_numbers(&self, tid: Tid, address: u64) -> io::Result<()> {
        poke(tid, self.numbers, address.to_ne_bytes())
    }

    /// Takes the code away when no thread will execute it.
    pub(crate) fn erase(&self, tid: Tid) {
        // A thread that cannot be written to has been killed.
        let _ = self.write(tid, &vec![0; self.len]);
    }

    fn write(&self, tid: Tid, bytes: &[u8]) -> io::Result<()> {
        (self.at..)
            .step_by(WORD)
            .zip(bytes.chunks(WORD))
            .try_for_each(|(at, part)| {
                let mut word = [0; WORD];
                if let Some(place) = word.get_mut(..part.len()) {
                    place.copy_from_slice(part);
                }
                poke(tid, at, word)
            })
    }
}

fn poke(tid: Tid, address: u64, word: [u8; WORD]) -> io::Result<()> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let address = std::ptr::without_provenance_mut(address);
    Ok(ptrace::write(
        tid.into(),
        address,
        libc::c_long::from_ne_bytes(word),
    )?)
}

/// Where there is room for `len` bytes behind all that is not zero.
fn room_in(there: &[u8], len: usize) -> Option<usize> {
    /// What is there may end with zeros of its own: the header of a section, or an address.
    const APART: usize = 16;
    let used = there.iter().rposition(|byte| *byte != 0)?;
    let begin = (used + 1).next_multiple_of(WORD) + APART;
    (begin + len <= there.len()).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_behind_what_is_used_and_apart_from_it() {
        let mut page = vec![0; 4096];
        assert_eq!(room_in(&page, 64), None, "no vDSO");
        page[..1001].fill(7);
        assert_eq!(room_in(&page, 64), Some(1024));
        assert_eq!(room_in(&page, 4096 - 1024), Some(1024));
        assert_eq!(room_in(&page, 4097 - 1024), None);
        page[4095] = 1;
        assert_eq!(room_in(&page, 1), None);
    }
}
