//! The mappings of a stopped process at the addresses of a change. All threads of the process wait
//! for the answer. So only these addresses are requested where the kernel supports that: for a
//! process with 60,000 mappings, reading /proc/PID/maps takes 30 ms.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

use hugetext_leaf::{FileId, Perms, Span};
use procfs::FromBufRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};

use super::registers::SYSCALL;
use super::target::Target;
use crate::filesystem::io_error;
use crate::process::{device_number, perms};

/// One mapping, with the attributes that the check of a change needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Its addresses.
    pub(super) addresses: Span,
    /// File offset of the first address; 0 without a file.
    pub(super) offset: u64,
    /// Its file; device and inode are 0 without one.
    pub(super) file: FileId,
    /// Access rights.
    pub(super) perms: Perms,
    /// Whether it is private.
    pub(super) private: bool,
}

/// The mappings that overlap any of `places`. Each is listed once.
pub(super) fn mapped(
    target: &Target,
    places: impl Iterator<Item = Span> + Clone,
) -> io::Result<Vec<Mapped>> {
    let maps = File::open(format!("/proc/{}/maps", target.pid()))?;
    let asked = places.clone().try_fold(Vec::new(), |mut found, place| {
        query(&maps, place, &mut found)?;
        Ok(found)
    });
    match asked {
        // Linux before 6.11.
        Err(error) if is_unknown(&error) => {
            let all = all(target)?;
            let wanted = |map: &Mapped| places.clone().any(|at| map.addresses.overlaps(&at));
            Ok(all.iter().map(Mapped::of).filter(wanted).collect())
        }
        Ok(mut found) => {
            found.sort_by_key(|map: &Mapped| map.addresses.start);
            found.dedup();
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

/// Whether the kernel does not know a request.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOTTY)
}

impl Mapped {
    fn of(map: &MemoryMap) -> Mapped {
        Mapped {
            addresses: Span::new(map.address.0, map.address.1),
            offset: map.offset,
            file: FileId {
                dev: device_number(map.dev),
                ino: map.inode,
            },
            perms: perms(map.perms),
            private: map.perms.contains(MMPermissions::PRIVATE),
        }
    }
}

/// struct procmap_query of the PROCMAP_QUERY ioctl (include/uapi/linux/fs.h, Linux 6.11).
#[repr(C)]
#[derive(Debug, Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// _IOWR('f', 17, struct procmap_query)
const PROCMAP_QUERY: u64 = (3 << 30) | (104 << 16) | ((b'f' as u64) << 8) | 17;
/// PROCMAP_QUERY_COVERING_OR_NEXT_VMA
const OR_NEXT: u64 = 0x10;
/// PROCMAP_QUERY_VMA_READABLE, _WRITABLE, _EXECUTABLE and _SHARED
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// Adds the mappings that overlap `place`.
fn query(maps: &File, place: Span, found: &mut Vec<Mapped>) -> io::Result<()> {
    let mut at = place.start;
    while at < place.end {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            query_flags: OR_NEXT,
            query_addr: at,
            ..Query::default()
        };
        // SAFETY: the kernel reads and writes a live block, whose size the block itself contains.
        // No name and no build-id is requested, so the kernel accesses no other memory.
        let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
        if result < 0 {
            let error = io::Error::last_os_error();
            // No mapping is at or above the address.
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(()),
                _ => Err(error),
            };
        }
        if query.vma_start >= place.end || query.vma_end <= at {
            return Ok(());
        }
        let has = |flag| query.vma_flags & flag != 0;
        found.push(Mapped {
            addresses: Span::new(query.vma_start, query.vma_end),
            offset: query.vma_offset,
            file: FileId {
                dev: rustix::fs::makedev(query.dev_major, query.dev_minor),
                ino: query.inode,
            },
            perms: Perms {
                read: has(READABLE),
                write: has(WRITABLE),
                exec: has(EXECUTABLE),
            },
            private: !has(SHARED),
        });
        at = query.vma_end;
    }
    Ok(())
}

fn all(target: &Target) -> io::Result<Vec<MemoryMap>> {
    let text = fs::read(format!("/proc/{}/maps", target.pid()))?;
    let maps = MemoryMaps::from_buf_read(&text[..]).map_err(io_error)?;
    Ok(maps.into_iter().collect())
}

/// The address of an instruction that makes a system call, in the vDSO or in any text. The process
/// may run meanwhile: see [`is_gadget`].
pub(super) fn find_gadget(target: &Target) -> io::Result<Option<u64>> {
    /// How many bytes of a mapping are searched. The text of libc has many such instructions.
    const FAR: u64 = 1 << 20;
    let maps = all(target)?;
    let is_vdso = |map: &&MemoryMap| matches!(map.pathname, MMapPath::Vdso);
    let is_text = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE) && map.inode != 0;
    let mut text = maps
        .iter()
        .filter(is_vdso)
        .chain(maps.iter().filter(is_text));
    Ok(text.find_map(|map| {
        let (start, end) = map.address;
        let mut bytes = vec![0; end.saturating_sub(start).min(FAR) as usize];
        target.read(start, &mut bytes).ok()?;
        let step = if SYSCALL.len() == 4 { 4 } else { 1 };
        let mut offsets = (0..bytes.len()).step_by(step);
        let found = offsets.find(|offset| {
            bytes
                .get(*offset..)
                .is_some_and(|rest| rest.starts_with(SYSCALL))
        })?;
        Some(start + found as u64)
    }))
}

/// Whether such an instruction is still at `address`. The process is stopped now.
pub(super) fn is_gadget(target: &Target, address: u64) -> bool {
    let len = SYSCALL.len();
    let place = Span::new(address, address.saturating_add(len as u64));
    let mut bytes = [0; 4];
    let Some(bytes) = bytes.get_mut(..len) else {
        return false;
    };
    target.read(address, bytes).is_ok()
        && bytes == SYSCALL
        && mapped(target, std::iter::once(place))
            .is_ok_and(|there| there.iter().all(|map| map.perms.exec) && !there.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's answers about this process equal its list of mappings.
    #[test]
    fn both_ways_agree() {
        let own = std::process::id();
        let maps = File::open(format!("/proc/{own}/maps")).unwrap();
        let text = fs::read(format!("/proc/{own}/maps")).unwrap();
        let listed: Vec<MemoryMap> = MemoryMaps::from_buf_read(&text[..])
            .unwrap()
            .into_iter()
            .collect();
        let of_files = listed.iter().filter(|map| map.inode != 0);
        for map in of_files.map(Mapped::of) {
            let mut found = Vec::new();
            match query(&maps, map.addresses, &mut found) {
                Ok(()) => assert_eq!(found, [map]),
                Err(error) if is_unknown(&error) => {
                    println!("skipped: {error}; PROCMAP_QUERY needs Linux 6.11");
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let mut found = Vec::new();
        query(&maps, Span::new(0, 4096), &mut found).unwrap();
        assert_eq!(found, [], "nothing is mapped at 0");
    }
}
