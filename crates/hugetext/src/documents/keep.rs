//! The documents of `hugetext keep apply` and `keep daemon`. That of `keep ls` is a
//! [`hugetext_engine::keep::KeepList`].

use super::Document;
use crate::csv::{Columns, Rows};
use hugetext_engine::keep::{HoldReport, KeepList, KeptFile};
use schemars::JsonSchema;
use serde::Serialize;

/// What `apply` did.
#[derive(JsonSchema, Serialize)]
pub(crate) struct KeepReport {
    pub(crate) files: Vec<KeptFile>,
    pub(crate) problems: Vec<String>,
}

/// What is held, in the document of the daemon.
#[derive(PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct DaemonReport {
    #[serde(flatten)]
    pub(crate) held: HoldReport,
    /// Files that could not be kept, one line each.
    pub(crate) problems: Vec<String>,
}

impl Document for KeepList {
    /// One for each entry.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<(&str, &String)> = &[
            ("kind", |(kind, _)| (*kind).to_owned()),
            ("entry", |(_, entry)| (*entry).clone()),
        ];
        let of = |kind, entries| std::iter::repeat(kind).zip(entries);
        let paths = of("path", &self.paths).chain(of("package", &self.packages));
        Some(Rows::of(columns, paths.chain(of("unit", &self.units))))
    }
}

impl Document for KeepReport {
    /// One for each file.
    fn rows(&self) -> Option<Rows> {
        let columns: &Columns<&KeptFile> = &[
            ("path", |file| file.path.display().to_string()),
            ("warm", |file| file.warm.display().to_string()),
            ("huge", |file| file.huge.to_string()),
            ("done", |file| file.done.to_string()),
        ];
        Some(Rows::of(columns, &self.files))
    }
}

impl Document for DaemonReport {}
