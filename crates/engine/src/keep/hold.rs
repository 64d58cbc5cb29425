//! Locks the text of listed files in memory, as much as a budget allows.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use hugetext_host::FileState;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::KeepList;
use super::warm::keep_warm;
use crate::error::Error;
use crate::hold::HeldText;
use crate::host_context::HostContext;
use crate::on_host::ProgramOnHost;
use crate::prepare::MemoryRoom;
use crate::problem::Problem;

/// The locked text of each file. While the state of a file is the same, a mapping shows the same
/// content.
#[derive(Debug, Default)]
pub struct HeldFiles {
    texts: HashMap<FileState, HeldText>,
    /// The files, found by following links.
    paths: Vec<PathBuf>,
}

/// What is held, and what is not.
#[derive(Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct HoldReport {
    /// Bytes locked.
    pub locked: u64,
    /// Files locked.
    pub files: usize,
    /// Bytes that exceed the budget.
    pub over: u64,
    /// Limit of the locked bytes.
    pub budget: u64,
    /// Files that could not be kept.
    #[serde(skip)]
    pub problems: Vec<Problem>,
}

impl HeldFiles {
    /// Warms everything listed and locks at most `budget` bytes of it. Files that were locked before
    /// and have not changed stay locked. The others are unlocked only after the new ones are locked,
    /// so that nothing becomes cold in between.
    pub fn renew(
        self,
        list: &KeepList,
        store: Option<&Path>,
        budget: u64,
    ) -> Result<(HeldFiles, HoldReport), Error> {
        let kept = keep_warm(list, store)?;
        let host = HostContext::with_huge_pages()?;
        let mut before = self.texts;
        let mut held = HeldFiles::default();
        let mut report = HoldReport {
            // The kernel kills processes that exceed the limit of a control group.
            budget: MemoryRoom::here().at_most(budget),
            problems: kept.problems,
            ..HoldReport::default()
        };
        for file in kept.files {
            if let Err(error) = held.add(&file.warm, &host, &mut before, &mut report) {
                report.problems.push((&error).into());
            }
            held.paths.push(file.path);
        }
        Ok((held, report))
    }

    /// The listed files, found by following links.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The states of the files that are locked.
    pub fn states(&self) -> BTreeSet<FileState> {
        self.texts.keys().copied().collect()
    }

    fn add(
        &mut self,
        path: &Path,
        host: &HostContext,
        before: &mut HashMap<FileState, HeldText>,
        report: &mut HoldReport,
    ) -> Result<(), Error> {
        let program = ProgramOnHost::open(path, host)?;
        let state = program.program.state();
        if self.texts.contains_key(&state) {
            // Identical files share a copy in the store.
            report.files += 1;
            return Ok(());
        }
        let windows = match program.windows() {
            windows if windows.is_empty() => program.text_pages(),
            windows => windows,
        };
        let len: u64 = windows.iter().map(|range| range.len()).sum();
        if report.locked.saturating_add(len) > report.budget {
            report.over = report.over.saturating_add(len);
            return Ok(());
        }
        let held = match before.remove(&state) {
            Some(held) => held,
            None => HeldText::lock(&program, &windows, host.leaf)?,
        };
        self.texts.insert(state, held);
        report.locked += len;
        report.files += 1;
        Ok(())
    }
}
