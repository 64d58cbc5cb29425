//! The document of `hugetext stat`.

use super::Document;
use crate::csv::{Columns, Rows, maybe};
use crate::path::mapped_file;
use hugetext_engine::TextNodes;
use hugetext_host::{FolioBytes, Pid, TextMapping};
use hugetext_leaf::replica::Locality;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct StatReport {
    /// Whether folio sizes could be read. Without them, only PMD leaves are told from the rest.
    pub(crate) folios: bool,
    pub(crate) processes: Vec<ProcessStat>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ProcessStat {
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) total: TextTotal,
    pub(crate) mappings: Vec<MappingStat>,
    /// On which nodes the text lies, and which run it; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<TextNodes>,
}

/// Bytes of text, summed.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub(crate) struct TextTotal {
    pub(crate) mapped: u64,
    pub(crate) rss: u64,
    pub(crate) pss: u64,
    pub(crate) pmd_mapped: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct MappingStat {
    #[serde(flatten)]
    pub(crate) text: TextMapping,
    /// Resident bytes by folio size; absent without root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folios: Option<FolioBytes>,
}

impl ProcessStat {
    /// How much of a mapping is near to those who run the process.
    fn near(&self, mapping: &MappingStat) -> Option<Locality> {
        let nodes = self.nodes.as_ref()?;
        let start = mapping.text.addresses.start;
        let found = nodes.mappings.iter().find(|of| of.addresses.start == start);
        Some(found.map_or_else(Locality::default, |of| nodes.locality_of(&of.bytes)))
    }
}

impl Document for StatReport {
    /// One for each mapping.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<(&ProcessStat, &MappingStat)> = &[
            ("pid", |(process, _)| process.pid.to_string()),
            ("name", |(process, _)| process.name.clone()),
            ("file", |(_, mapping)| mapped_file(&mapping.text)),
            ("start", |(_, mapping)| {
                mapping.text.addresses.start.to_string()
            }),
            ("mapped", |(_, mapping)| {
                mapping.text.addresses.len().to_string()
            }),
            ("rss", |(_, mapping)| mapping.text.rss.to_string()),
            ("pss", |(_, mapping)| mapping.text.pss.to_string()),
            ("pmd_mapped", |(_, mapping)| {
                mapping.text.pmd_mapped.to_string()
            }),
            ("pmd_folios", |(_, mapping)| {
                maybe(mapping.folios.map(|found| found.pmd))
            }),
            ("contpte_folios", |(_, mapping)| {
                maybe(mapping.folios.map(|found| found.contpte))
            }),
            ("large_folios", |(_, mapping)| {
                maybe(mapping.folios.map(|found| found.large))
            }),
            ("base_pages", |(_, mapping)| {
                maybe(mapping.folios.map(|found| found.base))
            }),
            ("local", |(process, mapping)| {
                maybe(process.near(mapping).map(|near| near.local))
            }),
            ("remote", |(process, mapping)| {
                maybe(process.near(mapping).map(|near| near.remote))
            }),
        ];
        let of = |process| move |mapping| (process, mapping);
        let rows = self.processes.iter();
        let rows = rows.flat_map(|process| process.mappings.iter().map(of(process)));
        Some(Rows::of(columns, rows))
    }
}
