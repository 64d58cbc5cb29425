//! Text that consists of return instructions, one in each line of the caches, to be called. The time of a
//! call beyond the call itself is spent on the fault, page walk, TLB and caches.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use hugetext_leaf::{Leaf, Perms, Span};
use rustix::fs::MemfdFlags;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use super::mapping::COLLAPSE_TRIES;
use super::region::{Advice, Region, while_busy};
use crate::arch::RETURN;
use crate::files::{memory_file, unnamed_file};

/// Bytes of a line of the caches of most processors. A multiple of it is an aligned instruction everywhere.
const LINE: u64 = 64;

/// A file of stubs.
///
/// Invariant: the file has no name and is open here only, for reading only, so every line of it
/// below `len` begins with `RETURN` and stays unchanged.
#[derive(Debug)]
pub struct StubFile {
    file: File,
    len: u64,
}

impl StubFile {
    /// A file without a name in `directory`, of `len` bytes rounded up to `leaf`, written in pieces
    /// of a leaf. It is gone when this process ends, for whatever reason.
    pub fn new(directory: impl AsFd, len: u64, leaf: Leaf) -> io::Result<StubFile> {
        StubFile::write(unnamed_file(directory)?, len, leaf)
    }

    /// As [`StubFile::new`], in memory of the kernel's own tmpfs. [`Stubs::collapse`] gives it huge folios,
    /// whatever filesystems the machine has.
    pub fn in_memory(len: u64, leaf: Leaf) -> io::Result<StubFile> {
        // Nobody executes the file as a program.
        let file = memory_file(
            "hugetext-stubs",
            MemfdFlags::empty(),
            MemfdFlags::NOEXEC_SEAL,
        )?;
        StubFile::write(file, len, leaf)
    }

    /// Writes the stubs into a new file.
    fn write(mut file: File, len: u64, leaf: Leaf) -> io::Result<StubFile> {
        if RETURN.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the return instruction of this architecture is unknown",
            ));
        }
        let mut window = vec![0; usize::try_from(leaf.bytes()).map_err(io::Error::other)?];
        for line in window.chunks_mut(LINE as usize) {
            for (byte, instruction) in line.iter_mut().zip(RETURN) {
                *byte = *instruction;
            }
        }
        let len = leaf.align_up(len);
        for _ in 0..len / leaf.bytes() {
            file.write_all(&window)?;
        }
        let read_only = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file = File::open(read_only)?;
        Ok(StubFile { file, len })
    }

    /// The file, for access to its page cache.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The whole file.
    pub fn range(&self) -> Span {
        Span::new(0, self.len)
    }

    /// Maps it as text is mapped, at an address ≡ `residue` (mod `leaf`). `residue` is a multiple
    /// of the base page. An error if the mount forbids execution.
    pub fn map(&self, leaf: Leaf, residue: u64) -> io::Result<Stubs> {
        let text = Perms {
            read: true,
            write: false,
            exec: true,
        };
        let len = usize::try_from(self.len).map_err(io::Error::other)?;
        Ok(Stubs(Region::of_file_at(
            &self.file, len, leaf, residue, text,
        )?))
    }
}

/// Mapped stubs, ready to be called.
///
/// Invariant: the region maps the whole of a [`StubFile`], readable and executable.
#[derive(Debug)]
pub struct Stubs(Region);

impl Stubs {
    /// The addresses of the mapping.
    pub fn addresses(&self) -> Span {
        self.0.span()
    }

    /// Puts huge folios into the page cache of the file and maps them by leaves (MADV_COLLAPSE, Linux 6.1).
    pub fn collapse(&self) -> io::Result<()> {
        while_busy(COLLAPSE_TRIES, || self.0.advise(Advice::Collapse))
    }

    /// Bytes that PMD leaves map.
    pub fn pmd_mapped(&self) -> io::Result<u64> {
        self.0.pmd_mapped()
    }

    /// Calls the first stub of each page, in the given order; pages beyond the end are skipped.
    pub fn call(&self, pages: impl IntoIterator<Item = u32>) {
        let lines = rustix::param::page_size() as u64 / LINE;
        self.call_lines(pages.into_iter().map(|page| u64::from(page) * lines));
    }

    /// The time of so many passes over `lines`, each behind `before`.
    pub fn passes(&self, times: u32, lines: &[u64], before: &dyn Fn()) -> Duration {
        let start = Instant::now();
        for _ in 0..times {
            before();
            self.call_lines(lines.iter().copied());
        }
        start.elapsed()
    }

    /// Calls the stub of each line, in the given order; lines beyond the end are skipped.
    pub fn call_lines(&self, lines: impl IntoIterator<Item = u64>) {
        let addresses = self.0.span();
        for index in lines {
            let address = addresses.start.saturating_add(index.saturating_mul(LINE));
            if address >= addresses.end {
                continue;
            }
            // SAFETY: the address is the start of a line of a StubFile that is mapped executable
            // while self lives, so a return instruction stands there: as a function it takes
            // nothing, gives nothing back and changes no register. The file cannot be truncated
            // or changed, since nobody has it open for writing.
            unsafe {
                let stub: extern "C" fn() = std::mem::transmute(address as usize);
                stub();
            }
        }
    }
}

/// The same order each time.
const SEED: u64 = 0x7379_7363;

/// Lines to call, one in each of so many pages of `page` bytes, in a random order that is always the same. Its place in
/// the page is random too, as that of text in use is, so that the lines do not compete for one set of a cache.
pub fn scattered_lines(pages: u32, page: Leaf) -> Vec<u64> {
    let lines = page.bytes() / LINE;
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut order: Vec<u64> = (0..u64::from(pages))
        .map(|page| page * lines + random.u64(0..lines.max(1)))
        .collect();
    random.shuffle(&mut order);
    order
}

/// Lines to call, one in each of so many pages, in a random order. They are spread over the sets of every cache as
/// evenly as those of [`gathered_lines`], so that only the TLB tells the two apart.
pub fn even_lines(pages: u32, page: Leaf) -> Vec<u64> {
    /// Pages whose lines fall into the sets of a cache of 1,024 sets once each.
    const ONE_ROUND: u64 = 16;
    let in_page = (page.bytes() / LINE).max(1);
    let line = |page: u64| page * in_page + page / ONE_ROUND % in_page;
    let mut order: Vec<u64> = (0..u64::from(pages)).map(line).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut order);
    order
}

/// As many lines in an order of their own, all of a few pages. The pages lie as far apart as those of
/// [`even_lines`], so that branch targets lie at the same distances.
pub fn gathered_lines(lines: u32, page: Leaf) -> Vec<u64> {
    let in_page = (page.bytes() / LINE).max(1);
    // One more than a whole number of sets of any cache.
    let stride = in_page + 1;
    let line = |line: u64| {
        let at = line / in_page * stride % u64::from(lines);
        at * in_page + line % in_page
    };
    let mut order: Vec<u64> = (0..u64::from(lines)).map(line).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut order);
    order
}

/// A tmpfs of huge pages (huge=always) of at most `size` bytes that has no mount point. Files are
/// made in it through this descriptor; the tmpfs is gone with the last of them. Needs
/// CAP_SYS_ADMIN.
pub fn detached_huge_tmpfs(size: u64) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "huge", "always")?;
    fsconfig_set_string(&context, "size", size.to_string())?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_lines_lie_in_each_page_once() {
        for pages in [1, 2, 16, 256, 4096] {
            let lines = scattered_lines(pages, Leaf::K4);
            let mut called: Vec<u64> = lines.iter().map(|line| line / 64).collect();
            called.sort_unstable();
            assert!(called.into_iter().eq(0..u64::from(pages)), "{pages}");
        }
    }

    #[test]
    fn gathered_lines_are_as_many_in_few_pages() {
        for (lines, pages) in [
            (gathered_lines(8192, Leaf::K4), 128),
            (even_lines(8192, Leaf::K4), 8192),
        ] {
            // Of physical addresses that follow each other in a leaf, as caches see them.
            let mut sets = vec![0; 2048];
            for line in &lines {
                sets[(line % 2048) as usize] += 1;
            }
            assert!(sets.iter().all(|count| *count <= 8), "{sets:?}");
            let mut distinct = lines.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), lines.len());
            distinct.dedup_by_key(|line| *line / 64);
            assert_eq!(distinct.len(), pages);
            assert!(distinct.iter().all(|line| line / 64 < 8192));
        }
    }

    #[test]
    fn stubs_in_memory_are_called_behind_leaves() {
        let file = StubFile::in_memory(1, Leaf::M2).unwrap();
        let stubs = file.map(Leaf::M2, 0).unwrap();
        if let Err(error) = stubs.collapse() {
            return println!("skipped: memory files cannot be collapsed: {error}");
        }
        stubs.call_lines(scattered_lines(512, Leaf::K4));
        assert_eq!(stubs.pmd_mapped().unwrap(), Leaf::M2.bytes());
    }

    #[test]
    fn every_stub_returns() {
        let directory = tempfile::tempdir().unwrap();
        let file = StubFile::new(File::open(directory.path()).unwrap(), 1, Leaf::M2).unwrap();
        let page = rustix::param::page_size() as u64;
        let stubs = file.map(Leaf::M2, page).unwrap();
        assert_eq!(Leaf::M2.offset_in(stubs.addresses().start), page);
        let pages = (Leaf::M2.bytes() / page) as u32;
        stubs.call((0..pages).rev());
        stubs.call([pages, u32::MAX]);
        let lines = Leaf::M2.bytes() / LINE;
        stubs.call_lines((0..=lines).chain([u64::MAX]));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
