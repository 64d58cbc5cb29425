//! The identity of a file, found without reading it if the kernel vouches for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use hugetext_host::magic_of;
use hugetext_leaf::Filesystem;
use rustix::fs::fstatfs;
use rustix::time::{ClockId, clock_gettime};

use crate::trust;

/// The identity of a file at one moment. It leads to the copy that was made of the file, and to none that was
/// made of a file of another owner.
///
/// The content of files on overlays and images is read each time, about 1 ms for each MiB. No record of
/// an earlier reading would be safe, not even one that only root can write: whoever makes an image
/// chooses the times in it, it may be written below its mount, a device number comes to mean another
/// image after the next mount, and which layer of an overlay a file is from cannot be seen in a
/// container.
#[derive(Debug, Clone)]
pub struct Identity {
    told: Told,
    /// Whether every later change gives another identity.
    settled: bool,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.told == other.told
    }
}

impl Eq for Identity {}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    /// A hash of the file's path, times and a sample of its content. The filesystem is written by
    /// this kernel, which sets ctime, so no change goes unnoticed.
    ByTheKernel(blake3::Hash),
    /// The filesystem is an image made elsewhere, with arbitrary times, or another machine keeps it, or
    /// nothing is known of it, or the time of the last change is yet to come.
    ByItsContent {
        /// A hash of the content.
        content: blake3::Hash,
        /// A hash of the content, the owner, and the rights.
        named: blake3::Hash,
    },
}

/// ST_RDONLY: the filesystem, or the mount that the file was opened through.
const READ_ONLY: u64 = 1;

/// The head of a file that is part of each sample: the headers and usually the build-id.
const HEAD: u64 = 4096;
/// Number of further pieces, spread over the file, that are sampled. The last one is the file's
/// end.
const PIECES: u64 = 7;
/// Bytes of each piece.
const PIECE: u64 = 2048;

impl Identity {
    /// Reads the identity of a file. It takes some microseconds if the kernel vouches for the file;
    /// otherwise the file is read.
    pub fn of(file: &File) -> io::Result<Identity> {
        // The clock is read first: what is written after that has its time or a later one.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Identity::at(file, (now.tv_sec, now.tv_nsec))
    }

    /// The identity at a time, in seconds and nanoseconds.
    fn at(file: &File, now: (i64, i64)) -> io::Result<Identity> {
        let filesystem = fstatfs(file)?;
        // The sign and width of this field differ by architecture.
        let flags = filesystem.f_flags as u64;
        let state = file.metadata()?;
        let changed = (state.ctime(), state.ctime_nsec());
        if !is_kept_here(magic_of(&filesystem), flags) || is_to_come(changed, now) {
            return Identity::of_content(file);
        }
        let settled = is_settled(changed, now);
        let mut hasher = blake3::Hasher::new();
        // An opaque type; its two numbers are derived from the UUID of most filesystems.
        hasher.update(format!("{:?}", filesystem.f_fsid).as_bytes());
        for number in [
            state.dev(),
            state.ino(),
            state.len(),
            state.mtime().cast_unsigned(),
            state.mtime_nsec().cast_unsigned(),
            state.ctime().cast_unsigned(),
            state.ctime_nsec().cast_unsigned(),
        ] {
            hasher.update(&number.to_le_bytes());
        }
        sample(&mut hasher, file, state.len())?;
        Ok(Identity {
            told: Told::ByTheKernel(hasher.finalize()),
            settled,
        })
    }

    /// The identity that the content and the owner of a file give it.
    pub(crate) fn of_content(file: &File) -> io::Result<Identity> {
        let content = hash(file)?;
        Ok(Identity {
            told: Told::ByItsContent {
                content,
                named: owned(file, &content)?,
            },
            settled: true,
        })
    }

    /// The same, as if the file had changed a moment ago.
    #[cfg(test)]
    pub(crate) fn unsettled(self) -> Identity {
        Identity {
            settled: false,
            ..self
        }
    }

    /// Whether every change after this identity was read gives the file another one.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The name under which the key of its copy by `recipe` is stored.
    pub(crate) fn name(&self, recipe: &str) -> String {
        let (Told::ByTheKernel(hash) | Told::ByItsContent { named: hash, .. }) = &self.told;
        format!("{}-{recipe}", hash.to_hex())
    }

    /// The hash of the content that a copy must be made from; `None` if the kernel tells whether the file
    /// changes while it is read.
    pub(crate) fn content(&self) -> Option<&blake3::Hash> {
        match &self.told {
            Told::ByTheKernel(_) => None,
            Told::ByItsContent { content, .. } => Some(content),
        }
    }

    /// Whether `file` still has this identity. Content that the kernel does not vouch for is not read again:
    /// its hash is that of the bytes from which the copy was made.
    pub(crate) fn is_still_of(&self, file: &File) -> io::Result<bool> {
        match &self.told {
            Told::ByTheKernel(_) => Ok(Identity::of(file)? == *self),
            Told::ByItsContent { content, named } => Ok(owned(file, content)? == *named),
        }
    }
}

/// Whether a change lies ahead of the clock by more than the coarsest unit of times: the clock was set back
/// since.
fn is_to_come(changed: (i64, i64), now: (i64, i64)) -> bool {
    changed.0 > now.0.saturating_add(1)
}

/// Whether a change from `now` on, by the clock that gives files their times, must differ from `changed`.
///
/// Before Linux 6.13, that clock moves with the tick, up to 10 ms apart, so two changes within one tick
/// have the same ctime. A filesystem without fractions of seconds (ext4 with inodes of 128 bytes) gives the
/// same ctime for a whole second. Since 6.13, a time that was looked at is finer than the clock; then it may
/// lie ahead of the clock for a tick.
fn is_settled(changed: (i64, i64), now: (i64, i64)) -> bool {
    match changed {
        (second, 0) => second < now.0,
        _ => changed < now,
    }
}

fn is_kept_here(magic: u32, flags: u64) -> bool {
    Filesystem::keeps_ctime(magic) && flags & READ_ONLY == 0
}

/// Different builds differ here, even after a filesystem was restored with all its times.
fn sample(hasher: &mut blake3::Hasher, file: &File, len: u64) -> io::Result<()> {
    let mut buffer = [0; HEAD as usize];
    let mut take = |offset: u64, bytes: u64| -> io::Result<()> {
        let piece = buffer.get_mut(..bytes as usize).unwrap_or_default();
        let mut read = 0;
        while let Some(rest) = piece.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset.saturating_add(read as u64))? {
                0 => break,
                more => read = read.saturating_add(more),
            }
        }
        hasher.update(piece.get(..read).unwrap_or_default());
        Ok(())
    };
    take(0, HEAD)?;
    let last = len.saturating_sub(PIECE);
    (1..=PIECES).try_for_each(|piece| take(last / PIECES * piece + last % PIECES, PIECE))
}

/// The name of a finished copy by `recipe`. It follows from the bytes of the copy and from the attributes that
/// decide about access to it.
pub(crate) fn key(copy: &File, recipe: &str) -> io::Result<String> {
    let content = hash(copy)?;
    let named = named(copy, &format!("3 {recipe}"), &content)?;
    Ok(named.to_hex().to_string())
}

/// A hash of the owner of a file, its rights and its content.
fn owned(file: &File, content: &blake3::Hash) -> io::Result<blake3::Hash> {
    let owner = file.metadata()?.uid();
    named(file, &format!("content of {owner}"), content)
}

fn named(file: &File, what: &str, content: &blake3::Hash) -> io::Result<blake3::Hash> {
    let metadata = file.metadata()?;
    let mut hasher = blake3::Hasher::new();
    let (gid, mode) = (metadata.gid(), metadata.mode());
    hasher.update(format!("{what} {gid} {mode:o}\0").as_bytes());
    for (name, value) in trust::deciding_xattrs(file)? {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(&name);
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(&value);
    }
    hasher.update(content.as_bytes());
    Ok(hasher.finalize())
}

/// The hash of all of `file`.
pub(crate) fn hash(file: &File) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset: u64 = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(read) => {
                hasher.update(buffer.get(..read).unwrap_or_default());
                offset = offset.saturating_add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filesystem_that_is_written_here_is_believed() {
        let magic = |kind: Filesystem| kind.magic().unwrap();
        let ext4 = magic(Filesystem::Ext4);
        assert!(is_kept_here(ext4, 0));
        assert!(
            !is_kept_here(ext4, READ_ONLY),
            "an image, for all that is known"
        );
        let others = [Filesystem::Erofs, Filesystem::Overlay, Filesystem::Tmpfs];
        for kind in others.map(magic).into_iter().chain([0]) {
            assert!(!is_kept_here(kind, 0), "{kind:x}");
        }
    }

    #[test]
    fn a_change_in_the_same_tick_is_possible_until_the_next() {
        let tick = (100, 4_000_000);
        assert!(!is_settled(tick, tick), "a second write has the same ctime");
        assert!(is_settled(tick, (100, 8_000_000)));
        assert!(is_settled(tick, (101, 0)));
        assert!(!is_settled((100, 0), (100, 999_000_000)), "whole seconds");
        assert!(is_settled((100, 0), (101, 0)));
        assert!(!is_settled((200, 1), (100, 1)), "a clock that was set back");
    }

    /// Whoever waited for such a file to settle would wait for as long as the clock was set back.
    #[test]
    fn a_file_from_before_the_clock_was_set_back_goes_by_its_content() {
        let file = tempfile::tempfile().unwrap();
        let changed = file.metadata().unwrap().ctime();
        let identity = Identity::at(&file, (changed - 86_400, 0)).unwrap();
        assert!(identity.settled);
        assert!(matches!(identity.told, Told::ByItsContent { .. }));
    }

    #[test]
    fn a_change_that_is_yet_to_come_is_no_matter_of_waiting() {
        assert!(is_to_come((200, 0), (100, 0)));
        assert!(!is_to_come((100, 8_000_000), (100, 4_000_000)), "a tick");
        assert!(!is_to_come((101, 0), (100, 999_000_000)), "a second ends");
    }

    #[test]
    fn a_sample_reaches_head_end_and_middle() {
        let sampled = |content: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(content, 0).unwrap();
            let mut hasher = blake3::Hasher::new();
            sample(&mut hasher, &file, content.len() as u64).unwrap();
            hasher.finalize()
        };
        let content = vec![1; 100_000];
        let same = sampled(&content);
        assert_eq!(sampled(&content.clone()), same);
        for at in [0, 4095, 15_000, 99_999] {
            let mut other = content.clone();
            other[at] = 2;
            assert_ne!(sampled(&other), same, "{at}");
        }
        assert_ne!(sampled(b""), sampled(b"x"));
    }
}
