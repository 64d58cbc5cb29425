//! The table of rules (rules.toml), which people write.

use hugetext_leaf::{Condition, Filesystem, Leaf, Rule, Topic, Version};
use serde::{Deserialize, Deserializer};

const TABLE: &str = include_str!("../rules.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<'t> {
    #[serde(borrow)]
    rule: Vec<Entry<'t>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'t> {
    topic: Topic,
    filesystem: Option<Filesystem>,
    #[serde(deserialize_with = "version")]
    since: Version,
    #[serde(default, deserialize_with = "later_version")]
    until: Option<Version>,
    condition: Option<Condition>,
    requires: Option<Topic>,
    source: &'t str,
}

/// The rules of the table, for leaves of any size.
pub(crate) fn rules() -> Result<Vec<Rule>, toml::de::Error> {
    let table: Table<'static> = toml::from_str(TABLE)?;
    let rule = |entry: Entry<'static>| Rule {
        topic: entry.topic,
        filesystem: entry.filesystem,
        since: entry.since,
        until: entry.until,
        condition: entry.condition,
        requires: entry.requires,
        largest: Leaf::M512,
        source: entry.source,
    };
    Ok(table.rule.into_iter().map(rule).collect())
}

fn version<'de, D: Deserializer<'de>>(text: D) -> Result<Version, D::Error> {
    let text = String::deserialize(text)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn later_version<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Version>, D::Error> {
    version(text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_requires_stands_above_it() {
        let rules = rules().unwrap();
        for (index, rule) in rules.iter().enumerate() {
            let mut below = rules[index..].iter();
            assert!(below.all(|other| Some(other.topic) != rule.requires));
        }
    }
}
