//! A record of a process, with enough detail to draw it later on another machine.

use std::fs;
use std::path::Path;

use hugetext_host::{Machine, Pid, process_name};
use hugetext_leaf::{LIMIT, Leaf, Span};
use serde::{Deserialize, Serialize};

use super::map::{Observed, observe};
use super::strip::PageKind;
use crate::failure::Failure;

/// The text mappings of a process at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    schema: u32,
    pub(super) title: String,
    /// Sizes in bytes.
    pub(super) page: u64,
    pub(super) leaf: u64,
    /// Ascending by address.
    pub(super) texts: Vec<Recorded>,
}

/// One mapping.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// The name of the file, without its directory.
    pub(super) file: String,
    /// Runs of one kind each, ascending and adjacent.
    pub(super) runs: Vec<Run>,
}

/// Adjacent bytes of one kind, as addresses.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: PageKind,
}

impl Run {
    pub(super) fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }
}

const SCHEMA: u32 = 1;

impl ProcessRecord {
    /// What a running process maps now.
    pub(super) fn of(
        pid: Pid,
        title: Option<&str>,
        machine: &Machine,
    ) -> Result<ProcessRecord, Failure> {
        let leaf = machine
            .pmd
            .ok_or_else(|| hugetext_engine::Error::no_huge_pages(&machine.release))?;
        let seen = observe(pid, machine.page, leaf)?;
        let texts = seen.iter().map(recorded).collect();
        let name = || format!("Process {pid}, {}", process_name(pid));
        Ok(ProcessRecord {
            schema: SCHEMA,
            title: title.map_or_else(name, str::to_owned),
            page: machine.page.bytes(),
            leaf: leaf.bytes(),
            texts,
        })
    }

    /// Reads a record that `report -o FILE.json` wrote.
    pub(super) fn read(path: &Path) -> Result<ProcessRecord, Failure> {
        let no_record = |why: &dyn std::fmt::Display| {
            Failure::at(path, format_args!("not a record of a process: {why}"))
                .remedy("make one with hugetext report -o FILE.json PID")
        };
        let text = fs::read(path).map_err(|error| Failure::io(path, &error))?;
        let record: ProcessRecord =
            serde_json::from_slice(&text).map_err(|error| no_record(&error))?;
        record.check().map_err(|why| no_record(&why))?;
        Ok(record)
    }

    /// Checks that sums and quotients of the record's numbers are safe.
    fn check(&self) -> Result<(), &'static str> {
        if self.schema != SCHEMA {
            return Err("it has another version");
        }
        let sizes = [self.page, self.leaf].map(Leaf::from_bytes);
        if sizes.contains(&None) || self.page > self.leaf {
            return Err("its page or leaf size is impossible");
        }
        let runs = || self.texts.iter().flat_map(|text| &text.runs);
        if runs().any(|run| run.start >= run.end || run.end > LIMIT) {
            return Err("one of its runs is empty or ends beyond the address space");
        }
        let mut pairs = self.texts.iter().flat_map(|text| text.runs.windows(2));
        if pairs.any(|pair| matches!(pair, [one, next] if one.end != next.start)) {
            return Err("its runs are not adjacent");
        }
        Ok(())
    }
}

fn recorded(seen: &Observed) -> Recorded {
    let name = match &seen.text.mapping.path {
        Some(path) => path.file_name().unwrap_or(path.as_os_str()),
        None => "[anonymous]".as_ref(),
    };
    let run = |(span, kind): &(Span, PageKind)| Run {
        start: span.start,
        end: span.end,
        kind: *kind,
    };
    Recorded {
        file: name.to_string_lossy().into_owned(),
        runs: seen.runs.iter().map(run).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(runs: &str) -> Result<ProcessRecord, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        let text = format!(
            r#"{{"schema": 1, "title": "t", "page": 4096, "leaf": 2097152,
                "texts": [{{"file": "f", "runs": [{runs}]}}]}}"#
        );
        fs::write(&path, text).unwrap();
        ProcessRecord::read(&path)
    }

    #[test]
    fn what_cannot_be_drawn_is_no_record() {
        let good = r#"{"start": 0, "end": 4096, "kind": "huge"}"#;
        assert!(read(good).is_ok());
        for bad in [
            r#"{"start": 1, "end": 1, "kind": "huge"}"#,
            r#"{"start": 0, "end": 18446744073709551615, "kind": "base"}"#,
            &format!(r#"{good}, {{"start": 8192, "end": 12288, "kind": "base"}}"#),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
