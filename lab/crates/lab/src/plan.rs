//! The matrix: the measurements for each kernel. Pure.

use hugetext_lab_agent::{Cell, Probe, ROUNDS, Thp};
use hugetext_leaf::{Filesystem, Version};
use serde::{Deserialize, Serialize};

use crate::kernel::{Flavour, KernelId, wanted};

/// One boot of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) kernel: KernelId,
    pub(crate) purpose: Purpose,
    pub(crate) filesystems: Vec<Filesystem>,
    pub(crate) cells: Vec<Cell>,
}

/// The purpose of a boot. The record holds one boot of a kernel for each purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Purpose {
    /// How the kernel treats text.
    Behaviour,
    /// What that costs: instructions are counted as time.
    Times,
    /// Whether a program survives many promotions.
    Rounds,
}

/// The kernels of a slice: the newest, and on the other architecture one from before large folios
/// in ext4 and batching in mprotect().
pub(crate) const SLICE: [&str; 2] = ["7.3-amd64", "6.12-arm64"];

/// The part of the matrix to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every kernel, filesystem and THP mode.
    Whole,
    /// Two kernels, two filesystems, both architectures: the tests of every change.
    Slice,
    /// A busy program promoted and mapped back this many times on each milestone: takes hours.
    Rounds(u32),
}

/// The boots for the available kernels, the longest first.
pub(crate) fn boots(kernels: &[KernelId], extent: Extent) -> Vec<Planned> {
    let mut boots: Vec<Planned> = match extent {
        Extent::Slice => kernels.iter().copied().map(slice_boot).collect(),
        Extent::Whole => kernels
            .iter()
            .flat_map(|id| {
                let untimed = matches!(id.flavour, Flavour::Amd64Generic | Flavour::Riscv64);
                let timed = (!untimed).then(|| timed(*id));
                std::iter::once(whole(*id)).chain(timed)
            })
            .collect(),
        Extent::Rounds(rounds) => {
            let milestones = kernels.iter().copied().filter(|id| is_milestone(*id));
            milestones.map(|id| promoted(id, rounds)).collect()
        }
    };
    boots.sort_by_key(|boot| std::cmp::Reverse(boot.cells.len()));
    boots
}

fn slice_boot(kernel: KernelId) -> Planned {
    let filesystems = vec![Filesystem::Ext4, Filesystem::Xfs];
    let cells = filesystems
        .iter()
        .flat_map(|fs| {
            [Probe::Methods, Probe::Placement].map(|probe| cell(*fs, Thp::Madvise, probe))
        })
        .collect();
    Planned {
        kernel,
        purpose: Purpose::Behaviour,
        filesystems,
        cells,
    }
}

/// What the architecture decides: placement, the leaves, and the answers of the command. The rest is
/// the same code in the kernel as on the other architectures.
fn another_architecture(kernel: KernelId) -> Planned {
    let filesystems = vec![Filesystem::Ext4, Filesystem::Xfs];
    let probes = [
        Probe::Methods,
        Probe::Placement,
        Probe::Programs,
        Probe::Warm,
        Probe::Commands,
    ];
    let on = |fs: &Filesystem| probes.map(|probe| cell(*fs, Thp::Madvise, probe));
    Planned {
        kernel,
        purpose: Purpose::Behaviour,
        cells: filesystems.iter().flat_map(on).collect(),
        filesystems,
    }
}

/// Everything about page cache, placement, promotion and locks.
fn whole(kernel: KernelId) -> Planned {
    if kernel.flavour == Flavour::Riscv64 {
        return another_architecture(kernel);
    }
    let filesystems: Vec<Filesystem> = match kernel.flavour {
        // This flavour measures only what the cloud flavour is built without.
        Flavour::Amd64Generic => vec![Filesystem::F2fs],
        // f2fs needs blocks of the page size, which mkfs.f2fs makes since 1.16 only.
        _ => Filesystem::NAMED
            .into_iter()
            .filter(|fs| *fs != Filesystem::F2fs)
            .collect(),
    };
    let mut cells = Vec::new();
    for fs in &filesystems {
        for thp in [Thp::Always, Thp::Madvise, Thp::Never] {
            cells.push(cell(*fs, thp, Probe::Methods));
        }
        for probe in [Probe::Placement, Probe::Programs, Probe::Warm] {
            cells.push(cell(*fs, Thp::Madvise, probe));
        }
    }
    if filesystems.contains(&Filesystem::Ext4) {
        cells.push(cell(Filesystem::Ext4, Thp::Madvise, Probe::Locks));
        // One that has always held huge folios, one that gained the ability, and one that lacks it.
        for fs in [Filesystem::Xfs, Filesystem::Ext4, Filesystem::Btrfs] {
            cells.push(cell(fs, Thp::Madvise, Probe::Promote));
        }
        for fs in [Filesystem::Ext4, Filesystem::Xfs] {
            cells.push(cell(fs, Thp::Madvise, Probe::Pressure));
        }
    }
    Planned {
        kernel,
        purpose: Purpose::Behaviour,
        filesystems,
        cells,
    }
}

/// One program after the other, on a filesystem that every kernel has. In a single cell, a guest
/// that hangs would not be noticed.
fn promoted(kernel: KernelId, rounds: u32) -> Planned {
    let programs = rounds.div_ceil(ROUNDS) as usize;
    Planned {
        kernel,
        purpose: Purpose::Rounds,
        filesystems: vec![Filesystem::Ext4],
        cells: vec![cell(Filesystem::Ext4, Thp::Madvise, Probe::PromoteRounds); programs],
    }
}

/// Whether the long trials run on this kernel: the long-term kernels 6.1, 6.12 and 6.18, and the
/// newest, where pages are small enough for the program to hold a window. They take longer than
/// everything else, and the tested code is the same on every kernel.
fn is_milestone(kernel: KernelId) -> bool {
    if !matches!(kernel.flavour, Flavour::Amd64 | Flavour::Arm64) {
        return false;
    }
    let newest = wanted(kernel.flavour).last().copied();
    let long_term = [Version::new(6, 1), Version::new(6, 12), Version::new(6, 18)];
    long_term.contains(&kernel.version) || newest == Some(kernel)
}

/// Everything that is a time. ext4 is built into every kernel, xfs has held huge folios for longer.
fn timed(kernel: KernelId) -> Planned {
    let cells = [
        (Filesystem::Ext4, Probe::Mprotect),
        (Filesystem::Ext4, Probe::Compile),
        (Filesystem::Xfs, Probe::Compile),
    ];
    Planned {
        kernel,
        purpose: Purpose::Times,
        filesystems: vec![Filesystem::Ext4, Filesystem::Xfs],
        cells: cells
            .map(|(fs, probe)| cell(fs, Thp::Madvise, probe))
            .to_vec(),
    }
}

fn cell(fs: Filesystem, thp: Thp, probe: Probe) -> Cell {
    Cell {
        place: fs.name().to_owned(),
        thp,
        probe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_has_two_kernels_of_two_architectures_and_two_filesystems() {
        let kernels = SLICE.map(|id| id.parse::<KernelId>().unwrap());
        let boots = boots(&kernels, Extent::Slice);
        assert_eq!(boots.len(), 2);
        assert_ne!(boots[0].kernel.flavour, boots[1].kernel.flavour);
        assert!(boots.iter().all(|boot| boot.filesystems.len() == 2));
    }

    #[test]
    fn rounds_are_for_four_kernels_of_each_architecture_and_all_that_was_asked_for() {
        let kernels: Vec<KernelId> = Flavour::ALL.into_iter().flat_map(wanted).collect();
        let boots = boots(&kernels, Extent::Rounds(120));
        assert_eq!(boots.len(), 8);
        assert!(boots.iter().all(|boot| boot.cells.len() == 3));
    }

    #[test]
    fn cells_stay_on_the_filesystems_of_their_boot() {
        let kernels: Vec<KernelId> = Flavour::ALL.into_iter().flat_map(wanted).collect();
        for boot in boots(&kernels, Extent::Whole) {
            let names: Vec<&str> = boot.filesystems.iter().map(|fs| fs.name()).collect();
            assert!(
                boot.cells
                    .iter()
                    .all(|cell| names.contains(&cell.place.as_str()))
            );
        }
    }
}
