//! A page of the process for the arguments of calls, and for the numbers of the files that a change opens in it.

use hugetext_leaf::Span;

use crate::arch::{Architecture, Native, Numbers};
use crate::call::{Caller, bits};
use crate::content::NO_FILE;
use crate::error::SwapError;

/// Invariant: a file that is open in the process for a change has its number here, as the number of no other file. So
/// a thread whose tracer is gone closes it ([`Architecture::code`]).
pub(crate) struct Scratch {
    page: Span,
}

impl Scratch {
    pub(crate) fn map(caller: &mut Caller<'_>) -> Result<Scratch, SwapError> {
        let len = rustix::param::page_size() as u64;
        let kind = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let rights = bits(libc::PROT_READ | libc::PROT_WRITE);
        let at = caller.call(Native::MMAP, [0, len, rights, kind, NO_FILE, 0]);
        let at = at.map_err(SwapError::call("mmap"))?;
        let scratch = Scratch {
            page: Span::new(at, at + len),
        };
        let none = vec![0xff; 4 * Numbers::COUNT as usize];
        let known = caller.target().write(scratch.number(0), &none);
        let known = known.and_then(|()| caller.know_numbers(scratch.number(0)));
        match known {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.unmap(caller);
                Err(SwapError::Trace(error))
            }
        }
    }

    pub(crate) fn unmap(self, caller: &mut Caller<'_>) {
        let _ = caller.know_numbers(0);
        let Span { start, .. } = self.page;
        let _ = caller.call(libc::SYS_munmap, [start, self.page.len(), 0, 0, 0, 0]);
    }

    /// The address of a byte of it.
    pub(crate) fn at(&self, offset: u64) -> u64 {
        self.page.start + offset
    }

    /// The address of a number.
    pub(crate) fn number(&self, index: usize) -> u64 {
        self.at(u64::from(Numbers::FIRST) + 4 * index as u64)
    }

    /// Closes a file of the process that has its number at `index`.
    pub(crate) fn close(&self, caller: &mut Caller<'_>, index: usize, fd: u64) {
        // A file that is closed twice is one that another thread has opened meanwhile.
        if caller
            .target()
            .write(self.number(index), &[0xff; 4])
            .is_ok()
        {
            let _ = caller.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        }
    }
}
