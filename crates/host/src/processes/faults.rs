//! What the page faults of a process were on.

use hugetext_leaf::Span;
use procfs::process::{MMPermissions, MemoryMap};

use super::ask::MappingsFile;
use super::error::ProcessError;
use super::id::Pid;
use super::process::read_maps;

/// What memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MemoryKind {
    /// Executable pages of files.
    Text,
    /// Pages of files that nobody wrote to.
    ReadOnly,
    /// Private pages of files that the process may write or has written: data, and what relocations change.
    Written,
    /// Everything else: heaps, stacks, and what has no file.
    Other,
}

/// The mappings of a process, by address, each with what it holds.
#[derive(Debug)]
pub struct MemoryKinds(Vec<(Span, MemoryKind)>);

impl MemoryKinds {
    /// Those of the process now.
    pub fn of(pid: Pid) -> Result<MemoryKinds, ProcessError> {
        let maps = read_maps(pid, MappingsFile::Smaps)?;
        let kinds = maps
            .into_iter()
            .map(|map| (Span::new(map.address.0, map.address.1), kind(&map)));
        Ok(MemoryKinds(kinds.collect()))
    }

    /// What an address holds. What is not mapped any more had no file, as far as is known.
    fn at(&self, address: u64) -> MemoryKind {
        let after = self.0.partition_point(|(span, _)| span.start <= address);
        match after.checked_sub(1).and_then(|index| self.0.get(index)) {
            Some((span, kind)) if span.contains(address) => *kind,
            _ => MemoryKind::Other,
        }
    }

    /// The faults on these addresses, by what they were on.
    pub fn count(&self, faults: &[u64]) -> FaultCounts {
        let mut counts = FaultCounts::default();
        for address in faults {
            let count = match self.at(*address) {
                MemoryKind::Text => &mut counts.text,
                MemoryKind::ReadOnly => &mut counts.read_only,
                MemoryKind::Written => &mut counts.written,
                MemoryKind::Other => &mut counts.other,
            };
            *count += 1;
        }
        counts
    }
}

fn kind(map: &MemoryMap) -> MemoryKind {
    let may = |right| map.perms.contains(right);
    let own = map.extension.map.get("Anonymous").copied().unwrap_or(0);
    if map.inode == 0 {
        MemoryKind::Other
    } else if may(MMPermissions::EXECUTE) {
        MemoryKind::Text
    } else if may(MMPermissions::WRITE) || own > 0 {
        MemoryKind::Written
    } else {
        MemoryKind::ReadOnly
    }
}

/// Page faults by what they were on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// On text.
    pub text: u64,
    /// On pages of files that nobody wrote to.
    pub read_only: u64,
    /// On data of files, and what relocations change.
    pub written: u64,
    /// On heaps, stacks, and what has no file.
    pub other: u64,
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::fault_trace::FaultTrace;
    use super::super::instance::Instance;
    use super::*;

    #[test]
    fn a_start_faults_on_all_kinds() {
        let instance = match Instance::start(&mut Command::new("/bin/true")) {
            Ok(instance) => instance,
            Err(error) => return println!("skipped: no ptrace here: {error}"),
        };
        let trace = FaultTrace::of(instance.pid());
        let (kinds, _) = instance.at_exit(MemoryKinds::of).unwrap();
        let trace = match trace {
            Ok(trace) => trace,
            Err(error) => return println!("skipped: no records of faults here: {error}"),
        };
        let faults = trace.addresses().unwrap();
        let counts = kinds.unwrap().unwrap().count(&faults);
        let FaultCounts {
            text,
            read_only,
            written,
            other,
        } = counts;
        assert_eq!(text + read_only + written + other, faults.len() as u64);
        assert!(text > 0 && written > 0 && other > 0, "{counts:?}");
    }

    #[test]
    fn an_address_counts_where_it_lies() {
        let kinds = MemoryKinds(vec![
            (Span::new(0x1000, 0x3000), MemoryKind::Text),
            (Span::new(0x3000, 0x4000), MemoryKind::ReadOnly),
            (Span::new(0x8000, 0x9000), MemoryKind::Written),
        ]);
        let counts = kinds.count(&[0, 0x1000, 0x2fff, 0x3000, 0x4000, 0x8fff, u64::MAX]);
        let expected = FaultCounts {
            text: 2,
            read_only: 1,
            written: 1,
            other: 3,
        };
        assert_eq!(counts, expected);
    }
}
