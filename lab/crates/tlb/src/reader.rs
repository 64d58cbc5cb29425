//! Reads an emulator's frames.

use std::io::{self, Read};
use std::path::PathBuf;

use crate::wire::{ANONYMOUS, FrameKind, HEADER, MAX_PAYLOAD, PAGE_SHIFT};

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A file from which code is executed; the `n`th such frame is object `n`.
    Object(PathBuf),
    /// A page from which code is executed; the `n`th such frame is page `n`.
    Page(Page),
    /// Pages in the order of execution. No two adjacent ones are the same, and each was announced
    /// before.
    Run {
        /// Threads are counted from 0 in the order of their start.
        thread: u32,
        /// Numbers of pages.
        pages: Vec<u32>,
    },
    /// A thread ended.
    Thread {
        /// The thread.
        thread: u32,
        /// The number of instructions that it executed.
        instructions: u64,
    },
    /// The program ended.
    End,
}

/// The origin of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// A file: its object, announced before, and the offset there in bytes.
    File {
        /// The object.
        object: u32,
        /// Offset in the file, a multiple of the base page.
        offset: u64,
    },
    /// No file: the guest's address.
    Anonymous {
        /// A multiple of the base page.
        address: u64,
    },
}

/// Why the stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Reading failed.
    #[error("reading the instruction stream: {0}")]
    Read(#[from] io::Error),
    /// The stream stopped before the program's end: the program was killed, or closed the pipe.
    #[error(
        "the instruction stream stopped early: the program was killed or closed its descriptors"
    )]
    Cut,
    /// The stream holds bytes that no emulator writes.
    #[error("the instruction stream is damaged: {0}")]
    Damaged(&'static str),
}

/// Reads frames, and checks each against the frames before it.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    payload: Vec<u8>,
    objects: u32,
    pages: u32,
}

impl<R: Read> Frames<R> {
    /// Frames from `input`, which should be buffered or a pipe.
    pub(crate) fn new(input: R) -> Frames<R> {
        Frames {
            input,
            payload: Vec::new(),
            objects: 0,
            pages: 0,
        }
    }

    /// The next frame. [`Frame::End`] is the last one.
    pub(crate) fn next_frame(&mut self) -> Result<Frame, StreamError> {
        let mut header = [0; HEADER];
        self.fill(Some(&mut header), 0)?;
        let word = |index: usize| word(&header, index);
        let kind = FrameKind::of(word(0)).ok_or(StreamError::Damaged("unknown frame"))?;
        let id = word(1);
        let len = word(2) as usize;
        if len > MAX_PAYLOAD {
            return Err(StreamError::Damaged("frame too long"));
        }
        self.fill(None, len)?;
        self.frame(kind, id)
    }

    /// Reads the header, or `len` bytes of payload.
    fn fill(&mut self, header: Option<&mut [u8; HEADER]>, len: usize) -> Result<(), StreamError> {
        self.payload.resize(len, 0);
        let target = header.map_or(self.payload.as_mut_slice(), |header| header.as_mut_slice());
        self.input
            .read_exact(target)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => StreamError::Cut,
                _ => StreamError::Read(error),
            })
    }

    fn frame(&mut self, kind: FrameKind, id: u32) -> Result<Frame, StreamError> {
        let payload = &self.payload;
        match kind {
            FrameKind::Object => {
                next(&mut self.objects, id, "an object out of order")?;
                let path = String::from_utf8_lossy(payload);
                Ok(Frame::Object(PathBuf::from(path.as_ref())))
            }
            FrameKind::Page => {
                next(&mut self.pages, id, "a page out of order")?;
                if payload.len() != 12 {
                    return Err(StreamError::Damaged("a page of the wrong length"));
                }
                self.page(word(payload, 0), long(payload, 1))
                    .map(Frame::Page)
            }
            FrameKind::Run => {
                let pages: Vec<u32> = (0..payload.len() / 4).map(|at| word(payload, at)).collect();
                if pages.iter().any(|page| *page >= self.pages) {
                    return Err(StreamError::Damaged("a page that was not announced"));
                }
                Ok(Frame::Run { thread: id, pages })
            }
            FrameKind::Thread if payload.len() == 8 => Ok(Frame::Thread {
                thread: id,
                instructions: long(payload, 0),
            }),
            FrameKind::Thread => Err(StreamError::Damaged("a thread of the wrong length")),
            FrameKind::End => Ok(Frame::End),
        }
    }

    fn page(&self, object: u32, value: u64) -> Result<Page, StreamError> {
        if value.trailing_zeros() < PAGE_SHIFT {
            return Err(StreamError::Damaged("a page that is not aligned"));
        }
        match object {
            ANONYMOUS => Ok(Page::Anonymous { address: value }),
            object if object < self.objects => Ok(Page::File {
                object,
                offset: value,
            }),
            _ => Err(StreamError::Damaged("an object that was not announced")),
        }
    }
}

fn next(counter: &mut u32, id: u32, what: &'static str) -> Result<(), StreamError> {
    if id != *counter {
        return Err(StreamError::Damaged(what));
    }
    *counter = counter.checked_add(1).ok_or(StreamError::Damaged(what))?;
    Ok(())
}

/// The `index`th little-endian `u32`, 0 beyond the end.
fn word(bytes: &[u8], index: usize) -> u32 {
    let chunk = bytes.get(4 * index..4 * index + 4);
    chunk
        .and_then(|chunk| chunk.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// The little-endian `u64` at the `index`th `u32`.
fn long(bytes: &[u8], index: usize) -> u64 {
    u64::from(word(bytes, index)) | u64::from(word(bytes, index + 1)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header;

    fn frame(kind: FrameKind, id: u32, payload: &[u8]) -> Vec<u8> {
        [header(kind, id, payload.len()).as_slice(), payload].concat()
    }

    fn page(id: u32, object: u32, offset: u64) -> Vec<u8> {
        let payload = [object.to_le_bytes().as_slice(), &offset.to_le_bytes()].concat();
        frame(FrameKind::Page, id, &payload)
    }

    fn read(bytes: &[u8]) -> Result<Vec<Frame>, StreamError> {
        let mut frames = Frames::new(bytes);
        let mut all = Vec::new();
        loop {
            all.push(frames.next_frame()?);
            if all.last() == Some(&Frame::End) {
                return Ok(all);
            }
        }
    }

    #[test]
    fn a_whole_stream() {
        let bytes = [
            frame(FrameKind::Object, 0, b"/bin/true"),
            page(0, 0, 0x2000),
            page(1, ANONYMOUS, 0x4000_0000),
            frame(FrameKind::Run, 0, &[0, 0, 0, 0, 1, 0, 0, 0]),
            frame(FrameKind::Thread, 0, &7u64.to_le_bytes()),
            frame(FrameKind::End, 0, &[]),
        ];
        let frames = read(&bytes.concat()).unwrap();
        assert_eq!(frames[0], Frame::Object("/bin/true".into()));
        assert_eq!(
            frames[1],
            Frame::Page(Page::File {
                object: 0,
                offset: 0x2000
            })
        );
        assert_eq!(
            frames[2],
            Frame::Page(Page::Anonymous {
                address: 0x4000_0000
            })
        );
        assert_eq!(
            frames[3],
            Frame::Run {
                thread: 0,
                pages: vec![0, 1]
            }
        );
        assert_eq!(
            frames[4],
            Frame::Thread {
                thread: 0,
                instructions: 7
            }
        );
    }

    #[test]
    fn damage_and_early_ends_are_errors() {
        let damaged = |bytes: &[u8]| matches!(read(bytes), Err(StreamError::Damaged(_)));
        assert!(damaged(&frame(FrameKind::Run, 0, &[0, 0, 0, 0])));
        assert!(damaged(&page(0, 0, 0x1000)));
        assert!(damaged(&page(0, ANONYMOUS, 0x1001)));
        assert!(damaged(&page(1, ANONYMOUS, 0x1000)));
        assert!(damaged(&frame(FrameKind::Thread, 0, &[])));
        assert!(damaged(&[9; 12]));
        assert!(damaged(&header(FrameKind::Run, 0, MAX_PAYLOAD + 4)));
        assert!(matches!(read(&[]), Err(StreamError::Cut)));
        assert!(matches!(
            read(&header(FrameKind::Run, 0, 8)),
            Err(StreamError::Cut)
        ));
    }
}
