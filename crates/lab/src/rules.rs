//! Writes the rules of `leaf` as Rust, each with its evidence from the record. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use hugetext_leaf::{Filesystem, Leaf, Rule, Topic, Version};

use crate::facts::{Fact, Findings, findings};

/// A rule. Version, leaf and evidence come from the record if they were measured.
pub(crate) struct Row {
    pub(crate) topic: Topic,
    pub(crate) filesystem: Option<Filesystem>,
    pub(crate) since: Version,
    pub(crate) largest: Leaf,
    source: String,
    pub(crate) evidence: String,
}

/// The present rules, updated by the facts, and the rules that the facts add.
pub(crate) fn rows(present: &[Rule], facts: &[Fact]) -> Vec<Row> {
    let mut rows = Vec::new();
    for topic in Topic::ALL {
        let of_topic = present.iter().filter(|rule| rule.topic == topic);
        let mut filesystems: Vec<Option<Filesystem>> = of_topic.map(|r| r.filesystem).collect();
        for fact in facts.iter().filter(|fact| fact.topic == topic) {
            if !filesystems.contains(&fact.filesystem) {
                filesystems.push(fact.filesystem);
            }
        }
        // The first match holds, so rules for one filesystem come before rules for all.
        filesystems.sort_by_key(Option::is_none);
        for filesystem in filesystems {
            let rule = |rule: &&Rule| rule.topic == topic && rule.filesystem == filesystem;
            let known = present.iter().find(rule);
            rows.extend(row(
                topic,
                filesystem,
                known,
                &findings(facts, topic, filesystem),
            ));
        }
    }
    rows
}

/// The text of leaf's rules.rs.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = HEADER.to_owned();
    for row in rows {
        row.write(&mut text);
    }
    text + "];\n"
}

const HEADER: &str = "\
//! The rules, each with the kernels it was measured on. Written by `hugetext-lab docs` from the
//! record in docs/matrix.jsonl. `since` and `source` may be edited here: the next writing keeps
//! them, but moves a version that the record contradicts. The rest comes from the record.

use crate::geometry::Leaf;
use crate::kernel::{Filesystem, Rule, Topic, Version};

/// Every rule known. The first that matches a topic and filesystem holds.
pub const RULES: &[Rule] = &[
";

/// The rule for one topic and filesystem; `None` if the record shows that no kernel does it.
fn row(
    topic: Topic,
    filesystem: Option<Filesystem>,
    known: Option<&Rule>,
    findings: &Findings<'_>,
) -> Option<Row> {
    let source = known.map_or("measured", |rule| rule.source).to_owned();
    // The smallest leaf decides the version: a rule for a larger leaf implies one for it.
    let Some(measured) = findings.values().next() else {
        return known.map(|rule| Row {
            topic,
            filesystem,
            since: rule.since,
            largest: rule.largest,
            source,
            evidence: "not measured".to_owned(),
        });
    };
    let newest = measured.values().next_back()?;
    if !newest.holds {
        // A rule about newer kernels than the measured ones stays.
        let later = known.filter(|rule| rule.since > newest.version)?;
        return Some(Row {
            topic,
            filesystem,
            since: later.since,
            largest: later.largest,
            source,
            evidence: format!("no on {}", newest.run),
        });
    }
    let without = measured.values().rfind(|fact| !fact.holds);
    let with = measured
        .values()
        .find(|fact| fact.holds && without.is_none_or(|without| without.version < fact.version))?;
    let bracketed = |since: &Version| {
        *since <= with.version && without.is_none_or(|without| without.version < *since)
    };
    let since = known.map(|rule| rule.since).filter(bracketed);
    // The newest kernel decides: an older kernel that did more promises nothing.
    let holds_now = |measured: &BTreeMap<Version, &Fact>| {
        let newest = measured.values().next_back();
        newest.is_some_and(|fact| fact.holds)
    };
    let largest = findings.iter().rfind(|(_, measured)| holds_now(measured));
    let bounded = findings.values().any(|measured| !holds_now(measured));
    Some(Row {
        topic,
        filesystem,
        since: since.unwrap_or(with.version),
        largest: match largest {
            Some((leaf, _)) if bounded => *leaf,
            _ => Leaf::M512,
        },
        source,
        evidence: match without {
            Some(without) => format!("no on {}, yes on {}", without.run, with.run),
            None => format!("yes on {}, the oldest measured", with.run),
        },
    })
}

impl Row {
    fn write(&self, text: &mut String) {
        let filesystem = match self.filesystem {
            Some(fs) => format!("Some(Filesystem::{fs:?})"),
            None => "None".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "    Rule {{
        topic: Topic::{:?},
        filesystem: {filesystem},
        since: Version::new({}, {}),
        largest: Leaf::{},
        source: {:?},
        evidence: {:?},
    }},
",
            self.topic,
            self.since.major,
            self.since.minor,
            constant(self.largest),
            self.source,
            self.evidence,
        );
    }
}

/// The name of a leaf's constant.
fn constant(leaf: Leaf) -> String {
    let shown = leaf.to_string();
    let (number, unit) = shown.split_at(shown.len().saturating_sub(1));
    format!("{unit}{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(minor: u16, leaf: Leaf, holds: bool) -> Fact {
        Fact {
            topic: Topic::LargeFolios,
            filesystem: Some(Filesystem::Ext4),
            leaf,
            version: Version::new(6, minor),
            holds,
            run: format!("6.{minor}.1"),
        }
    }

    fn known(minor: u16) -> Rule {
        Rule {
            topic: Topic::LargeFolios,
            filesystem: Some(Filesystem::Ext4),
            since: Version::new(6, minor),
            largest: Leaf::M512,
            source: "fs/ext4",
            evidence: "",
        }
    }

    #[test]
    fn a_known_version_stays_between_what_was_measured_and_is_moved_out_of_it() {
        let facts = [fact(12, Leaf::M2, false), fact(18, Leaf::M2, true)];
        let text = render(&rows(&[known(16)], &facts));
        assert!(text.contains("since: Version::new(6, 16)"), "{text}");
        assert!(text.contains("no on 6.12.1, yes on 6.18.1"));
        let moved = render(&rows(&[known(10)], &facts));
        assert!(moved.contains("since: Version::new(6, 18)"), "{moved}");
    }

    #[test]
    fn a_leaf_that_never_held_bounds_the_rule() {
        let facts = [fact(18, Leaf::M2, true), fact(18, Leaf::M32, false)];
        assert!(render(&rows(&[known(16)], &facts)).contains("largest: Leaf::M2"));
    }

    #[test]
    fn what_the_newest_kernel_does_not_do_is_no_rule() {
        assert!(!render(&rows(&[known(16)], &[fact(18, Leaf::M2, false)])).contains("Ext4"));
        assert!(render(&rows(&[known(19)], &[fact(18, Leaf::M2, false)])).contains("no on 6.18.1"));
    }
}
