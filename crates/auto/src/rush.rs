//! Files that many processes start with at once. All of them take one lock of the file, however small it is:
//! that of libc and the loader above all.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_leaf::FileId;
use hugetext_leaf::hold::{Decayed, EvidenceTime};

/// The shortest time over which starts are counted.
const SECOND: Duration = Duration::from_secs(1);
/// The most files that are counted at once. Those beyond have few starts, if all have as many.
const MOST_COUNTED: usize = 16_384;
/// The most files that are remembered.
const MOST_REMEMBERED: usize = 64;

/// The most starts of a file in a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rush {
    /// Its name, as one of the processes that were counted named it.
    pub name: PathBuf,
    peak: Decayed,
}

impl Rush {
    /// Starts per second. A peak that was seen a half-life ago counts half.
    pub(crate) fn starts_per_second(&self, moment: EvidenceTime) -> u64 {
        // Rates of a machine fit.
        self.peak.at(moment) as u64
    }
}

/// Counts the starts of all files.
#[derive(Debug, Default)]
pub(crate) struct Rushes {
    since: Duration,
    /// Starts in this second.
    counts: HashMap<FileId, u64>,
    /// The names of those with enough of them. Most files never have a name here, so that long ones take no memory.
    names: HashMap<FileId, PathBuf>,
    /// How many are enough.
    least: u64,
    peaks: BTreeMap<FileId, Rush>,
}

impl Rushes {
    /// A process started with `file`.
    pub(crate) fn started(&mut self, file: FileId, name: &Path) {
        if self.counts.len() >= MOST_COUNTED && !self.counts.contains_key(&file) {
            return;
        }
        let count = self.counts.entry(file).or_default();
        *count = count.saturating_add(1);
        if *count >= self.least.max(1)
            && self.names.len() < MOST_REMEMBERED
            && !self.names.contains_key(&file)
        {
            self.names.insert(file, name.to_owned());
        }
    }

    /// Ends a second, if one has passed. Files with fewer than `least` starts per second are left out.
    pub(crate) fn settle(&mut self, moment: EvidenceTime, least: u64) {
        let passed = moment.now.saturating_sub(self.since);
        if passed < SECOND {
            return;
        }
        (self.since, self.least) = (moment.now, least);
        self.peaks
            .retain(|_, rush| rush.starts_per_second(moment) >= least);
        let mut names = std::mem::take(&mut self.names);
        for (file, count) in self.counts.drain() {
            let rate = count as f64 / passed.as_secs_f64();
            let Some(name) = names.remove(&file) else {
                continue;
            };
            let known = self.peaks.get(&file);
            let before = known.map_or(0.0, |rush| rush.peak.at(moment));
            if rate >= least as f64 && rate > before {
                let peak = Decayed::new(rate, moment.now);
                self.peaks.insert(file, Rush { name, peak });
            }
        }
        while self.peaks.len() > MOST_REMEMBERED {
            let rate = |rush: &Rush| rush.starts_per_second(moment);
            let least = self.peaks.iter().min_by_key(|(_, rush)| rate(rush));
            let Some(least) = least.map(|(file, _)| *file) else {
                return;
            };
            self.peaks.remove(&least);
        }
    }

    /// The files with most starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &Rush)> {
        self.peaks.iter().map(|(file, rush)| (*file, rush))
    }
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::hold::HalfLife;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(now: Duration) -> EvidenceTime {
        let half_life = HalfLife::new(HOUR);
        EvidenceTime { now, half_life }
    }

    fn file(ino: u64) -> FileId {
        FileId { dev: 1, ino }
    }

    fn rate(rushes: &Rushes, ino: u64, now: Duration) -> Option<u64> {
        let mut found = rushes.iter().filter(|(id, _)| *id == file(ino));
        let (_, rush) = found.next()?;
        Some(rush.starts_per_second(at(now)))
    }

    #[test]
    fn the_worst_second_counts_and_fades() {
        let mut rushes = Rushes::default();
        let mut now = Duration::ZERO;
        for starts in [10, 4000, 100] {
            for _ in 0..starts {
                rushes.started(file(1), Path::new("/lib/libc.so.6"));
            }
            rushes.started(file(2), Path::new("/usr/bin/once"));
            now += SECOND;
            rushes.settle(at(now), 50);
        }
        assert_eq!(rate(&rushes, 1, now), Some(3999), "of the second before");
        assert_eq!(rate(&rushes, 2, now), None);
        now += 2 * HOUR;
        assert_eq!(rate(&rushes, 1, now), Some(999));
        now += 10 * HOUR;
        rushes.settle(at(now), 50);
        assert_eq!(rushes.iter().count(), 0);
    }

    #[test]
    fn a_second_that_took_longer_is_no_rush() {
        let mut rushes = Rushes::default();
        for _ in 0..1000 {
            rushes.started(file(1), Path::new("/bin/sh"));
        }
        rushes.settle(at(SECOND / 2), 1);
        assert_eq!(rushes.iter().count(), 0, "the second has not passed");
        rushes.settle(at(10 * SECOND), 1);
        assert_eq!(rate(&rushes, 1, 10 * SECOND), Some(100));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_largest_stay() {
        let mut rushes = Rushes::default();
        let mut now = Duration::ZERO;
        // More files than are counted, and in each second another forty that many start with.
        for second in 1..=5 {
            for ino in 1000..1000 + 2 * MOST_COUNTED as u64 {
                rushes.started(file(ino), Path::new("/bin/once"));
            }
            for ino in 40 * second..40 * (second + 1) {
                rushes.counts.insert(file(ino), ino);
                rushes.started(file(ino), Path::new("/bin/many"));
            }
            assert!(rushes.counts.len() <= MOST_COUNTED + 40);
            assert!(rushes.names.len() <= MOST_REMEMBERED);
            now += SECOND;
            rushes.settle(at(now), 40);
        }
        assert_eq!(rushes.iter().count(), MOST_REMEMBERED);
        assert!(rate(&rushes, 239, now).is_some() && rate(&rushes, 80, now).is_none());
    }
}
