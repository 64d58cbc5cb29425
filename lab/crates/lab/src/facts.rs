//! Derives facts from a record and compares them with the rules of `leaf`. Pure.

use hugetext_lab_agent::{Method, MethodName, Placed, Probe, ProbeOutcome};
use hugetext_leaf::{Ability, Filesystem, Kernel, Leaf, Rule, Topic, Version, ability_by};

use crate::record::Boot;

/// A fact: a kernel does or does not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) topic: Topic,
    /// The filesystem it was measured on; `None` if the filesystem makes no difference.
    pub(crate) filesystem: Option<Filesystem>,
    /// The leaf it was measured for.
    pub(crate) leaf: Leaf,
    pub(crate) version: Version,
    pub(crate) holds: bool,
    /// uname -r of the kernel it was measured on.
    pub(crate) run: String,
}

impl Fact {
    /// The kernel it was measured on, for the rules.
    pub(crate) fn kernel(&self) -> Kernel {
        self.version.into()
    }

    /// The filesystem to ask the rules for.
    pub(crate) fn place(&self) -> Filesystem {
        self.filesystem.unwrap_or(Filesystem::Other)
    }

    /// Whether `rules` give the same answer. They promise nothing for leaves beyond the largest one
    /// of a rule.
    pub(crate) fn agrees(&self, rules: &[Rule]) -> bool {
        let place = self.place();
        let has = |leaf| ability_by(rules, self.topic, place, self.kernel(), leaf) == Ability::Has;
        let silent = || has(Leaf::K4) && !has(self.leaf);
        has(self.leaf) == self.holds || silent()
    }

    /// A line that describes the disagreement.
    pub(crate) fn contradiction(&self) -> String {
        let on = self
            .filesystem
            .map(|fs| format!(" on {fs}"))
            .unwrap_or_default();
        let (found, said) = if self.holds {
            ("holds", "does not")
        } else {
            ("does not hold", "does")
        };
        format!(
            "{}: {:?} of {}{on} {found}, the rule says it {said}",
            self.run, self.topic, self.leaf
        )
    }
}

/// All facts that the record decides. Where boots or THP modes differ, a fact holds if it holds in
/// all of them.
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
        // The fact names the kernel that fails.
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
    for (cell, outcome) in boot.outcomes(Probe::Methods) {
        let Some(fs) = filesystem(&cell.place) else {
            continue;
        };
        let ProbeOutcome::Methods(methods) = outcome else {
            continue;
        };
        // An overlay maps files of the filesystem below it, here ext4.
        let fs = match fs {
            Filesystem::Overlay => Filesystem::Ext4,
            other => other,
        };
        let any = methods.iter().any(|method| method.found.pmd > 0);
        let in_memory = matches!(fs, Filesystem::Tmpfs | Filesystem::HugeTmpfs);
        if fs != Filesystem::Tmpfs {
            add(Topic::LargeFolios, Some(fs), pmd, any);
        }
        if !in_memory {
            add(
                Topic::HugeReadahead,
                Some(fs),
                pmd,
                got(methods, MethodName::Readahead),
            );
        }
        // A file that is huge from the start proves nothing about collapse.
        if !got(methods, MethodName::Plain) {
            add(
                Topic::Collapse,
                Some(fs),
                pmd,
                got(methods, MethodName::Collapse),
            );
        }
    }
    let placements: Vec<(Filesystem, &Vec<Placed>)> = boot
        .outcomes(Probe::Placement)
        .filter_map(|(cell, outcome)| match outcome {
            ProbeOutcome::Placement(placed) => Some((filesystem(&cell.place)?, placed)),
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
                // musl maps a library by one mmap, whatever its p_align, as glibc does for one of
                // at most a page. This library holds a window of 2 MiB, and none of 32 MiB.
                "so" if !large && one.loader.as_deref() == Some("musl") && pmd == Leaf::M2 => {
                    add(Topic::MmapAlignment, Some(*fs), pmd, aligned);
                }
                _ => {}
            }
        }
    }
    for (_, outcome) in boot.outcomes(Probe::Mprotect) {
        if let ProbeOutcome::Mprotect(times) = outcome {
            // Without batching, both take the same time; no measured ratio lies in between.
            let batched = times.pte_mapped_ns < times.base_ns / 3 * 2;
            add(Topic::MprotectBatching, None, Leaf::M2, batched);
        }
    }
    facts
}

/// Cases in which `hugetext warm` reported a program as warm, but a start of it then mapped nothing
/// huge.
pub(crate) fn false_claims(boots: &[Boot]) -> Vec<String> {
    let of_boot = |boot: &Boot| {
        let warmed = boot.outcomes(Probe::Warm).filter_map(|(cell, outcome)| {
            let ProbeOutcome::Warm(found) = outcome else {
                return None;
            };
            let huge = found.warm.pmd + found.warm.contpte;
            let claim = "'hugetext warm' reported success, but nothing was huge";
            (found.exit == Some(0) && huge == 0)
                .then(|| format!("{}: {claim} on {}", boot.kernel, cell.place))
        });
        warmed.collect::<Vec<_>>()
    };
    boots.iter().flat_map(of_boot).collect()
}

fn got(methods: &[Method], name: MethodName) -> bool {
    let method = methods.iter().find(|method| method.name == name);
    method.is_some_and(Method::worked)
}

/// The filesystem of a mounted place.
pub(crate) fn filesystem(place: &str) -> Option<Filesystem> {
    let mut named = Filesystem::NAMED.into_iter();
    named.find(|filesystem| filesystem.name() == place)
}
