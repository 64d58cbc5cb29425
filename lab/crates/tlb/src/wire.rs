//! The messages of an emulator to its reader through the pipe: frames. A frame is a header of three
//! little-endian `u32` (kind, id, payload length in bytes) and its payload. The QEMU plugin
//! compiles this file too; the Valgrind tool (../valgrind/pages.c) writes the same in C.

/// Bytes of a frame header.
pub(crate) const HEADER: usize = 12;
/// The maximum length of a payload, in bytes.
pub(crate) const MAX_PAYLOAD: usize = 1 << 18;
/// Pages of the guest are 4 KiB: log2 of it.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// The object of pages that belong to no file (code written at run time).
pub(crate) const ANONYMOUS: u32 = u32::MAX;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FrameKind {
    /// A file from which code is executed. Id: the object, counted from 0. Payload: its path.
    Object = 1,
    /// A page from which code is executed. Id: the page, counted from 0. Payload: the object
    /// (`u32`) and the page's offset in the file (`u64`), or [`ANONYMOUS`] and the guest's address.
    Page = 2,
    /// Pages in the order of execution, no two adjacent ones the same. Id: the thread. Payload: one
    /// `u32` for each page.
    Run = 3,
    /// A thread's last frame. Id: the thread. Payload: the instructions it executed (`u64`).
    Thread = 4,
    /// The last frame of a program that ended normally. Id 0, no payload.
    End = 5,
}

impl FrameKind {
    /// The kind in a header.
    pub(crate) fn of(word: u32) -> Option<FrameKind> {
        [
            FrameKind::Object,
            FrameKind::Page,
            FrameKind::Run,
            FrameKind::Thread,
            FrameKind::End,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == word)
    }
}

/// A frame's header.
pub(crate) fn header(kind: FrameKind, id: u32, payload: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let words = [kind as u32, id, payload as u32];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
