//! The mappings of a stopped process at the addresses of a change. All threads of the process wait
//! for the answer. So only these addresses are requested where the kernel supports that: for a
//! process with 60,000 mappings, reading /proc/PID/maps takes 30 ms.

use std::fs::{self, File};
use std::io;

use hugetext_host::{file_id, parse_mappings, perms};
use hugetext_leaf::{FileId, Perms, Span};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use crate::arch::{Architecture, Native};
use crate::raw::query_map;
use crate::target::Target;

/// One mapping, with the attributes that the check of a change needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Its addresses.
    pub(crate) addresses: Span,
    /// File offset of the first address; 0 without a file.
    pub(crate) offset: u64,
    /// Its file; device and inode are 0 without one.
    pub(crate) file: FileId,
    /// Access rights.
    pub(crate) perms: Perms,
    /// Whether it is private.
    pub(crate) private: bool,
}

/// The mappings that overlap any of `places`. Each is listed once.
pub(crate) fn mapped(
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
            file: file_id(map),
            perms: perms(map.perms),
            private: map.perms.contains(MMPermissions::PRIVATE),
        }
    }
}

/// PROCMAP_QUERY_VMA_READABLE, _WRITABLE, _EXECUTABLE and _SHARED
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// Adds the mappings that overlap `place`.
fn query(maps: &File, place: Span, found: &mut Vec<Mapped>) -> io::Result<()> {
    let mut at = place.start;
    while at < place.end {
        let query = match query_map(maps, at) {
            Ok(query) => query,
            // No mapping is at or above the address.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
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
    parse_mappings(&text)
}

/// The address of an instruction that makes a system call, in the vDSO or in any text. The process
/// may run meanwhile: see [`is_gadget`].
pub(crate) fn find_gadget(target: &Target) -> io::Result<Option<u64>> {
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
        Some(start + system_call_in(&bytes)?)
    }))
}

/// Where code has an instruction that makes a system call.
pub(crate) fn system_call_in(code: &[u8]) -> Option<u64> {
    let mut offsets = (0..code.len()).step_by(Native::INSTRUCTION_ALIGNMENT);
    let is_call = |offset: &usize| {
        let rest = code.get(*offset..);
        rest.is_some_and(|rest| rest.starts_with(Native::SYSCALL))
    };
    offsets.find(is_call).map(|offset| offset as u64)
}

/// The addresses of the vDSO.
pub(crate) fn find_vdso(target: &Target) -> io::Result<Option<Span>> {
    let maps = all(target)?;
    let vdso = maps
        .iter()
        .find(|map| matches!(map.pathname, MMapPath::Vdso));
    Ok(vdso.map(|map| Span::new(map.address.0, map.address.1)))
}

/// Whether all of `place` is mapped executable. The process is stopped now.
pub(crate) fn is_code(target: &Target, place: Span) -> bool {
    mapped(target, std::iter::once(place)).is_ok_and(|there| {
        let covered: u64 = there
            .iter()
            .map(|map| map.addresses.intersect(&place).len())
            .sum();
        covered == place.len() && there.iter().all(|map| map.perms.exec)
    })
}

/// Whether such an instruction is still at `address`. The process is stopped now.
pub(crate) fn is_gadget(target: &Target, address: u64) -> bool {
    let len = Native::SYSCALL.len();
    let place = Span::new(address, address.saturating_add(len as u64));
    let mut bytes = [0; 4];
    let Some(bytes) = bytes.get_mut(..len) else {
        return false;
    };
    target.read(address, bytes).is_ok() && bytes == Native::SYSCALL && is_code(target, place)
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
        let listed = parse_mappings(&text).unwrap();
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
