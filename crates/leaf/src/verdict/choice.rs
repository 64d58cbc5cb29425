//! How text is mapped where leaves do harm: programs of many system calls lose by them, and starts gain most of what
//! huge folios give without them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::Verdict;

/// How text in large folios is mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeafUse {
    /// By leaves.
    #[default]
    Leaves,
    /// By tables of pages, because programs of many system calls lose by leaves here. The folios give a start most of its
    /// gain (docs/host.md).
    Tables,
    /// The text is left as it is: leaves do harm here, and nothing else would keep them away without a loss.
    AsItIs,
}

/// What is about to be done with text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A command starts. It can be told to map no leaves, and then gets no huge pages for its own memory either.
    Start {
        /// Whether that works on this kernel, and takes nothing from the command: not so where every program gets huge pages for
        /// its own memory (THP mode always).
        can_go_without: bool,
    },
    /// The page cache of a file that stands is filled. The kernel fills it by whole windows, and whoever runs the file maps
    /// them by leaves.
    Fill,
    /// A file is written anew, in folios of any size.
    Write,
    /// A process that runs is changed. Its start is over.
    Change,
}

impl LeafUse {
    /// How text is to be mapped after a deed on a machine of this verdict.
    pub fn of(verdict: Verdict, deed: Deed) -> LeafUse {
        match (verdict, deed) {
            (Verdict::WorthIt | Verdict::StartsOnly | Verdict::CannotTell, _) => LeafUse::Leaves,
            (
                Verdict::Harmful,
                Deed::Start {
                    can_go_without: true,
                }
                | Deed::Write,
            ) => LeafUse::Tables,
            (
                Verdict::Harmful,
                Deed::Start {
                    can_go_without: false,
                }
                | Deed::Fill
                | Deed::Change,
            ) => LeafUse::AsItIs,
        }
    }
}

/// Why text is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeavesDoHarm;

impl fmt::Display for LeavesDoHarm {
    /// A clause that follows "because".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("programs of many system calls lose by leaves on this machine (hugetext host)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::judge;
    use super::super::tests::trial;
    use super::*;

    const DEEDS: [Deed; 5] = [
        Deed::Start {
            can_go_without: true,
        },
        Deed::Start {
            can_go_without: false,
        },
        Deed::Fill,
        Deed::Write,
        Deed::Change,
    ];

    #[test]
    fn leaves_are_kept_away_only_where_they_do_harm() {
        for verdict in [Verdict::WorthIt, Verdict::StartsOnly, Verdict::CannotTell] {
            for deed in DEEDS {
                assert_eq!(LeafUse::of(verdict, deed), LeafUse::Leaves);
            }
        }
        let chosen = DEEDS.map(|deed| LeafUse::of(Verdict::Harmful, deed));
        use LeafUse::{AsItIs, Tables};
        assert_eq!(chosen, [Tables, AsItIs, AsItIs, Tables, AsItIs]);
    }

    /// The times of a Zen 4 whose kernel entries drop leaves, and of a Zen 5 whose do not (lab/results/syscalls.md).
    #[test]
    fn machines_that_were_seen_choose_by_their_times() {
        let of = |blocks: &[_], deed| LeafUse::of(judge(blocks).verdict, deed);
        let (zen_4, zen_5) = (trial(54.6, 38.0, 17.4, 0.8), trial(40.1, 32.9, 18.4, 0.01));
        assert_eq!(of(&zen_4, Deed::Fill), LeafUse::AsItIs);
        assert_eq!(of(&zen_4, Deed::Write), LeafUse::Tables);
        assert_eq!(of(&zen_5, Deed::Fill), LeafUse::Leaves);
    }
}
