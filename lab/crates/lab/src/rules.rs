//! Joins the table of rules with the record, and writes the rules of `leaf` as Rust. Pure.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use hugetext_leaf::{Ability, Leaf, Rule, Version, ability_by};

use crate::facts::Fact;

/// A rule with what the record says of it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) rule: Rule,
    /// The kernels of the lab on either side of `since`.
    pub(crate) evidence: String,
}

/// The rules of the table, each limited to the leaves that it was seen for, with its evidence. What
/// a rule requires stands before it in the table.
pub(crate) fn rows(table: &[Rule], facts: &[Fact]) -> Vec<Row> {
    let mut limited = table.to_vec();
    let mut rows = Vec::with_capacity(table.len());
    for index in 0..limited.len() {
        let findings = findings(&limited, &limited[index], facts);
        limited[index].largest = largest(&findings);
        rows.push(Row {
            rule: limited[index],
            evidence: evidence(&findings),
        });
    }
    rows
}

/// The measurements that concern a rule: per leaf, version by version.
type Findings<'f> = BTreeMap<Leaf, BTreeMap<Version, &'f Fact>>;

fn findings<'f>(table: &[Rule], rule: &Rule, facts: &'f [Fact]) -> Findings<'f> {
    let mut findings = Findings::new();
    for fact in facts.iter().filter(|fact| bears(table, rule, fact)) {
        let versions = findings.entry(fact.leaf).or_default();
        // Where filesystems differ, the one that fails decides.
        let found = versions.entry(fact.version).or_insert(fact);
        if found.holds && !fact.holds {
            *found = fact;
        }
    }
    findings
}

/// Whether a fact tells something about a rule. A rule for every filesystem does not concern those
/// with rules of their own, nor those that lack what it requires.
fn bears(table: &[Rule], rule: &Rule, fact: &Fact) -> bool {
    let own = |other: &Rule| other.topic == fact.topic && other.filesystem == fact.filesystem;
    let named =
        rule.filesystem == fact.filesystem || rule.filesystem.is_none() && !table.iter().any(own);
    let kernel = fact.kernel();
    let required = rule.requires.is_none_or(|topic| {
        ability_by(table, topic, fact.place(), kernel, fact.leaf) == Ability::Has
    });
    let settings = rule
        .condition
        .is_none_or(|condition| kernel.met.contains(condition));
    rule.topic == fact.topic && named && required && settings
}

/// The largest leaf that the newest kernel does it for, if it fails for a larger one. An older
/// kernel that did more promises nothing.
fn largest(findings: &Findings<'_>) -> Leaf {
    let now = |measured: &BTreeMap<Version, &Fact>| {
        let newest = measured.values().next_back();
        newest.is_some_and(|fact| fact.holds)
    };
    let holds = findings.iter().rfind(|(_, measured)| now(measured));
    match holds {
        Some((leaf, _)) if !findings.values().all(now) => *leaf,
        _ => Leaf::M512,
    }
}

/// In words. The smallest leaf decides: a rule for a larger leaf implies one for it.
fn evidence(findings: &Findings<'_>) -> String {
    let Some(measured) = findings.values().next() else {
        return "not measured".to_owned();
    };
    let without = measured.values().rfind(|fact| !fact.holds);
    let with = measured
        .values()
        .find(|fact| fact.holds && without.is_none_or(|without| without.version < fact.version));
    match (without, with) {
        (Some(without), Some(with)) => format!("no on {}, yes on {}", without.run, with.run),
        (None, Some(with)) => format!("yes on {}, the oldest measured", with.run),
        (Some(without), None) => format!("no on {}", without.run),
        (None, None) => "not measured".to_owned(),
    }
}

/// The text of leaf's rules.rs.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = HEADER.to_owned();
    for row in rows {
        write(&mut text, row);
    }
    text + "];\n"
}

const HEADER: &str = "\
//! The rules, each with the kernels it was measured on. Written by `hugetext-lab docs` (make -C lab rules)
//! from lab/crates/lab/rules.toml and from the record in lab/records/matrix.jsonl. Edit the table, not this file.

use crate::condition::Condition;
use crate::filesystem::Filesystem;
use crate::geometry::Leaf;
use crate::kernel::Version;
use crate::rule::{Rule, Topic};

/// Every rule known.
pub const RULES: &[Rule] = &[
";

fn write(text: &mut String, row: &Row) {
    let rule = &row.rule;
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "    // Record: {}.
    Rule {{
        topic: Topic::{:?},
        filesystem: {},
        since: {},
        until: {},
        condition: {},
        requires: {},
        largest: Leaf::{},
        source: {:?},
    }},
",
        row.evidence,
        rule.topic,
        option("Filesystem::", rule.filesystem),
        version(rule.since),
        rule.until.map_or_else(
            || "None".to_owned(),
            |until| format!("Some({})", version(until))
        ),
        option("Condition::", rule.condition),
        option("Topic::", rule.requires),
        constant(rule.largest),
        rule.source,
    );
}

fn version(version: Version) -> String {
    format!("Version::new({}, {})", version.major, version.minor)
}

fn option(prefix: &str, value: Option<impl Debug>) -> String {
    value.map_or_else(
        || "None".to_owned(),
        |value| format!("Some({prefix}{value:?})"),
    )
}

/// The name of a leaf's constant.
fn constant(leaf: Leaf) -> String {
    let shown = leaf.to_string();
    let (number, unit) = shown.split_at(shown.len().saturating_sub(1));
    format!("{unit}{number}")
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::{Condition, Filesystem, Topic};

    use super::*;
    use crate::table;

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

    fn rule(minor: u16) -> Rule {
        Rule {
            topic: Topic::LargeFolios,
            filesystem: Some(Filesystem::Ext4),
            since: Version::new(6, minor),
            until: None,
            condition: None,
            requires: None,
            largest: Leaf::M512,
            source: "fs/ext4",
        }
    }

    #[test]
    fn the_table_decides_since_when_and_the_record_contradicts() {
        let facts = [fact(12, Leaf::M2, false), fact(18, Leaf::M2, true)];
        let text = render(&rows(&[rule(16)], &facts));
        assert!(text.contains("since: Version::new(6, 16)"), "{text}");
        assert!(text.contains("no on 6.12.1, yes on 6.18.1"));
        assert!(facts.iter().all(|fact| fact.agrees(&[rule(16)])));
        assert!(!facts[0].agrees(&[rule(10)]));
        assert!(!facts[1].agrees(&[]));
    }

    #[test]
    fn a_leaf_that_never_held_bounds_the_rule() {
        let facts = [fact(18, Leaf::M2, true), fact(18, Leaf::M32, false)];
        assert_eq!(rows(&[rule(16)], &facts)[0].rule.largest, Leaf::M2);
    }

    /// A rule for all filesystems is judged by those that hold folios of that order, and the others
    /// have to agree with its answer for them.
    #[test]
    fn what_a_rule_requires_decides_which_facts_concern_it() {
        let collapse = Rule {
            topic: Topic::Collapse,
            filesystem: None,
            requires: Some(Topic::LargeFolios),
            ..rule(12)
        };
        let table = [rule(12), collapse];
        let on = |filesystem, holds| Fact {
            topic: Topic::Collapse,
            filesystem: Some(filesystem),
            ..fact(18, Leaf::M2, holds)
        };
        let (ext4, btrfs) = (on(Filesystem::Ext4, true), on(Filesystem::Btrfs, false));
        assert!(ext4.agrees(&table) && btrfs.agrees(&table));
        assert!(!on(Filesystem::Btrfs, true).agrees(&table));
        let rows = rows(&table, &[ext4, btrfs]);
        assert_eq!(rows[1].evidence, "yes on 6.18.1, the oldest measured");
    }

    #[test]
    fn a_leaf_beyond_what_a_rule_requires_tells_nothing_about_it() {
        let readahead = Rule {
            topic: Topic::HugeReadahead,
            filesystem: None,
            requires: Some(Topic::LargeFolios),
            ..rule(12)
        };
        let mut facts = [fact(18, Leaf::M2, true), fact(18, Leaf::M32, false)].to_vec();
        let same = |fact: &Fact| Fact {
            topic: Topic::HugeReadahead,
            ..fact.clone()
        };
        facts.extend(facts.clone().iter().map(same));
        let rows = rows(&[rule(12), readahead], &facts);
        assert_eq!(rows[0].rule.largest, Leaf::M2);
        assert_eq!(rows[1].rule.largest, Leaf::M512);
    }

    #[test]
    fn what_no_kernel_of_the_lab_was_built_with_is_not_measured() {
        let optional = Rule {
            condition: Some(Condition::ReadOnlyThp),
            ..rule(16)
        };
        let rows = rows(&[optional], &[fact(18, Leaf::M2, false)]);
        assert_eq!(rows[0].evidence, "not measured");
        assert!(fact(18, Leaf::M2, false).agrees(&[optional]));
    }

    #[test]
    fn leaf_has_the_rules_of_the_table() {
        let table = table::rules().unwrap();
        let unlimited = hugetext_leaf::RULES.iter().map(|rule| Rule {
            largest: Leaf::M512,
            ..*rule
        });
        assert_eq!(unlimited.collect::<Vec<_>>(), table);
    }
}
