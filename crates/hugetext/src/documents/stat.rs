//! The document of `hugetext stat`.

use super::Document;
use crate::csv::{Columns, Rows, maybe};
use crate::path::mapped_file;
use hugetext_host::{FolioBytes, TextMapping};
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
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) total: TextTotal,
    pub(crate) mappings: Vec<MappingStat>,
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
        ];
        let of = |process| move |mapping| (process, mapping);
        let rows = self.processes.iter();
        let rows = rows.flat_map(|process| process.mappings.iter().map(of(process)));
        Some(Rows::of(columns, rows))
    }
}
