//! The matrix: what to measure on which kernel. Pure.

use hugetext_lab_agent::{Cell, Probe, Thp};
use hugetext_leaf::Version;

use crate::image::Fs;
use crate::kernel::{Flavour, KernelId, wanted};

/// One boot of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) kernel: KernelId,
    pub(crate) filesystems: Vec<Fs>,
    /// Whether time is counted in instructions.
    pub(crate) icount: bool,
    pub(crate) cells: Vec<Cell>,
}

/// The kernels of a slice: the newest, and on the other architecture one from before ext4 held large
/// folios and mprotect() batched.
pub(crate) const SLICE: [&str; 2] = ["7.3-amd64", "6.12-arm64"];

/// How much of the matrix to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// Two kernels, two filesystems, both architectures: what every change is tested with.
    Slice,
}

/// The boots for the kernels at hand, those that take longest first.
pub(crate) fn boots(kernels: &[KernelId], extent: Extent) -> Vec<Planned> {
    let mut boots: Vec<Planned> = match extent {
        Extent::Slice => kernels.iter().copied().map(slice_boot).collect(),
        Extent::Whole => kernels
            .iter()
            .flat_map(|id| {
                let timed = (id.flavour != Flavour::Amd64Generic).then(|| timed(*id));
                std::iter::once(whole(*id)).chain(timed)
            })
            .collect(),
    };
    boots.sort_by_key(|boot| std::cmp::Reverse(boot.cells.len()));
    boots
}

fn slice_boot(kernel: KernelId) -> Planned {
    let filesystems = vec![Fs::Ext4, Fs::Xfs];
    let cells = filesystems
        .iter()
        .flat_map(|fs| [Probe::Rungs, Probe::Placement].map(|probe| cell(*fs, Thp::Madvise, probe)))
        .collect();
    Planned {
        kernel,
        filesystems,
        icount: false,
        cells,
    }
}

/// Everything about page cache, placement, promotion and locks.
fn whole(kernel: KernelId) -> Planned {
    let filesystems: Vec<Fs> = match kernel.flavour {
        // There for what the cloud flavour is built without.
        Flavour::Amd64Generic => vec![Fs::F2fs],
        // f2fs wants blocks of the size of a page, which mkfs.f2fs makes since 1.16 only.
        _ => Fs::ALL.into_iter().filter(|fs| *fs != Fs::F2fs).collect(),
    };
    let mut cells = Vec::new();
    for fs in &filesystems {
        for thp in [Thp::Always, Thp::Madvise, Thp::Never] {
            cells.push(cell(*fs, thp, Probe::Rungs));
        }
        for probe in [Probe::Placement, Probe::Programs, Probe::Warm] {
            cells.push(cell(*fs, Thp::Madvise, probe));
        }
    }
    if filesystems.contains(&Fs::Ext4) {
        cells.push(cell(Fs::Ext4, Thp::Madvise, Probe::Locks));
        if is_milestone(kernel) {
            cells.push(cell(Fs::Ext4, Thp::Madvise, Probe::PromoteRounds));
        }
        // One that has always held huge folios, one that came to, one that does not.
        for fs in [Fs::Xfs, Fs::Ext4, Fs::Btrfs] {
            cells.push(cell(fs, Thp::Madvise, Probe::Promote));
        }
        for fs in [Fs::Ext4, Fs::Xfs] {
            cells.push(cell(fs, Thp::Madvise, Probe::Pressure));
        }
    }
    Planned {
        kernel,
        filesystems,
        icount: false,
        cells,
    }
}

/// Whether the long trials are made on it: the kernels of two Debian releases, and the newest. They
/// take longer than all else, and what they try is the same code on every kernel.
fn is_milestone(kernel: KernelId) -> bool {
    let newest = wanted(kernel.flavour).last().copied();
    let released = [Version::new(6, 1), Version::new(6, 12)];
    released.contains(&kernel.version) || newest == Some(kernel)
}

/// Everything that is a time. ext4 is built into every kernel, xfs has held huge folios for longer.
fn timed(kernel: KernelId) -> Planned {
    let cells = [
        (Fs::Ext4, Probe::Mprotect),
        (Fs::Ext4, Probe::Compile),
        (Fs::Xfs, Probe::Compile),
    ];
    Planned {
        kernel,
        filesystems: vec![Fs::Ext4, Fs::Xfs],
        icount: true,
        cells: cells
            .map(|(fs, probe)| cell(fs, Thp::Madvise, probe))
            .to_vec(),
    }
}

fn cell(fs: Fs, thp: Thp, probe: Probe) -> Cell {
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
