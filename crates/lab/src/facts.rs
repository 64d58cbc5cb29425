//! What a record says about the rules of `leaf`. Pure.

use std::collections::BTreeMap;

use hugetext_lab_agent::{Outcome, Placed, Probe, Rung, RungName};
use hugetext_leaf::{Filesystem, Leaf, Topic, Version, rule};

use crate::image::Fs;
use crate::record::Boot;

/// That a kernel does or does not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) topic: Topic,
    /// The filesystem it was measured on; `None` where that makes no difference.
    pub(crate) filesystem: Option<Filesystem>,
    /// The leaf it was measured for.
    pub(crate) leaf: Leaf,
    pub(crate) version: Version,
    pub(crate) holds: bool,
    /// uname -r of the kernel it was measured on.
    pub(crate) run: String,
}

impl Fact {
    /// Whether the rules say the same. Beyond the largest leaf of a rule they say nothing.
    pub(crate) fn agrees(&self) -> bool {
        let filesystem = self.filesystem.unwrap_or(Filesystem::Other);
        match rule(self.topic, filesystem, self.version) {
            Some(rule) if self.leaf > rule.largest => true,
            rule => rule.is_some() == self.holds,
        }
    }

    /// As a line about a disagreement.
    pub(crate) fn contradiction(&self) -> String {
        let on = self
            .filesystem
            .map(|fs| format!(" on {fs}"))
            .unwrap_or_default();
        let (found, said) = match self.holds {
            true => ("holds", "does not"),
            false => ("does not hold", "does"),
        };
        format!(
            "{}: {:?} of {}{on} {found}, the rule says it {said}",
            self.run, self.topic, self.leaf
        )
    }
}

/// Everything the record decides. Where boots or THP modes differ, a thing holds if it does in all
/// of them.
pub(crate) fn facts(boots: &[Boot]) -> Vec<Fact> {
    let mut facts: Vec<Fact> = boots.iter().flat_map(of_boot).collect();
    let key = |fact: &Fact| {
        let topic = Topic::ALL.iter().position(|topic| *topic == fact.topic);
        let filesystem = fact.filesystem.map(|fs| fs.to_string());
        (topic, filesystem, fact.leaf, fact.version)
    };
    facts.sort_by_key(key);
    facts.dedup_by(|next, first| {
        let same = key(next) == key(first);
        // Named is the kernel that does not.
        if same && first.holds && !next.holds {
            first.holds = false;
            first.run.clone_from(&next.run);
        }
        same
    });
    facts
}

fn of_boot(boot: &Boot) -> Vec<Fact> {
    let Some(hello) = &boot.hello else {
        return Vec::new();
    };
    let Some(pmd) = Leaf::from_bytes(hello.pmd) else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let mut add = |topic, filesystem, leaf, holds| {
        facts.push(Fact {
            topic,
            filesystem,
            leaf,
            version: boot.kernel.version,
            holds,
            run: hello.release.clone(),
        });
    };
    for (cell, outcome) in boot.outcomes(Probe::Rungs) {
        let Some(fs) = filesystem(&cell.place) else {
            continue;
        };
        let Outcome::Rungs(rungs) = outcome else {
            continue;
        };
        // What an overlay maps are files of the filesystem below it, here ext4.
        let fs = match fs {
            Filesystem::Overlay => Filesystem::Ext4,
            other => other,
        };
        let any = rungs.iter().any(|rung| rung.found.pmd > 0);
        let in_memory = matches!(fs, Filesystem::Tmpfs | Filesystem::HugeTmpfs);
        if fs != Filesystem::Tmpfs {
            add(Topic::LargeFolios, Some(fs), pmd, any);
        }
        if !in_memory && any {
            add(
                Topic::HugeReadahead,
                None,
                pmd,
                got(rungs, RungName::Readahead),
            );
        }
        // What is huge from the start proves nothing of collapse.
        let from_the_start = got(rungs, RungName::Plain);
        if fs == Filesystem::Tmpfs || (any && !from_the_start) {
            let filesystem = in_memory.then_some(fs);
            add(
                Topic::Collapse,
                filesystem,
                pmd,
                got(rungs, RungName::Collapse),
            );
        }
    }
    let placements: Vec<(Filesystem, &Vec<Placed>)> = boot
        .outcomes(Probe::Placement)
        .filter_map(|(cell, outcome)| match outcome {
            Outcome::Placement(placed) => Some((filesystem(&cell.place)?, placed)),
            _ => None,
        })
        .collect();
    for (fs, placed) in &placements {
        for one in placed.iter() {
            let aligned = one.bias_align >= Leaf::M2.bytes();
            let large = one.p_align == Leaf::M2.bytes();
            match one.kind.as_str() {
                "pie" if large => add(Topic::PieAlignment, None, Leaf::M2, aligned),
                "static-pie" if large => add(Topic::StaticPieAlignment, None, Leaf::M2, aligned),
                // musl maps a library by one mmap, whatever its p_align, as glibc does up to a
                // page. This one holds a window of 2 MiB, none of 32 MiB.
                "so" if !large && one.loader.as_deref() == Some("musl") && pmd == Leaf::M2 => {
                    add(Topic::MmapAlignment, Some(*fs), pmd, aligned);
                }
                _ => {}
            }
        }
    }
    for (_, outcome) in boot.outcomes(Probe::Mprotect) {
        if let Outcome::Mprotect(times) = outcome {
            // Without batching both take the same: nothing measured lies between.
            let batched = times.pte_mapped_ns < times.base_ns / 3 * 2;
            add(Topic::MprotectBatching, None, Leaf::M2, batched);
        }
    }
    facts
}

/// Where `hugetext warm` said that a program is warm, and a start of it then mapped nothing huge.
pub(crate) fn false_claims(boots: &[Boot]) -> Vec<String> {
    let of_boot = |boot: &Boot| {
        let warmed = boot.outcomes(Probe::Warm).filter_map(|(cell, outcome)| {
            let Outcome::Warm(found) = outcome else {
                return None;
            };
            let huge = found.warm.pmd + found.warm.contpte;
            let claim = "'hugetext warm' said done, and nothing was huge";
            (found.exit == Some(0) && huge == 0)
                .then(|| format!("{}: {claim} on {}", boot.kernel, cell.place))
        });
        warmed.collect::<Vec<_>>()
    };
    boots.iter().flat_map(of_boot).collect()
}

fn got(rungs: &[Rung], name: RungName) -> bool {
    let rung = rungs.iter().find(|rung| rung.name == name);
    rung.is_some_and(Rung::worked)
}

/// The filesystem of a place.
pub(crate) fn filesystem(place: &str) -> Option<Filesystem> {
    Some(match place.parse().ok()? {
        Fs::Ext4 => Filesystem::Ext4,
        Fs::Xfs => Filesystem::Xfs,
        Fs::Btrfs => Filesystem::Btrfs,
        Fs::F2fs => Filesystem::F2fs,
        Fs::Erofs => Filesystem::Erofs,
        Fs::Overlay => Filesystem::Overlay,
        Fs::HugeTmpfs => Filesystem::HugeTmpfs,
        Fs::Tmpfs => Filesystem::Tmpfs,
    })
}

/// What was found for one topic and filesystem: per leaf, version by version.
pub(crate) type Findings<'f> = BTreeMap<Leaf, BTreeMap<Version, &'f Fact>>;

/// The facts of one topic and filesystem.
pub(crate) fn findings(
    facts: &[Fact],
    topic: Topic,
    filesystem: Option<Filesystem>,
) -> Findings<'_> {
    let mut findings = Findings::new();
    for fact in facts {
        if fact.topic == topic && fact.filesystem == filesystem {
            findings
                .entry(fact.leaf)
                .or_default()
                .insert(fact.version, fact);
        }
    }
    findings
}
