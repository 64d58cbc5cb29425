//! The document of `hugetext stat`.

use hugetext_engine::TextNodes;
use hugetext_host::{FolioBytes, Pid, TextMapping};
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
