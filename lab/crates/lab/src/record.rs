//! The results of a run of the matrix, one line of JSON for each boot.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use hugetext_lab_agent::{Cell, Hello, Probe, ProbeOutcome, Thp};
use serde::{Deserialize, Serialize};

use crate::error::{At, LabError, Result};
use crate::kernel::KernelId;
use crate::plan::Purpose;

/// One boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Boot {
    pub(crate) kernel: KernelId,
    pub(crate) purpose: Purpose,
    /// The packages that the kernel was taken from.
    pub(crate) packages: Vec<String>,
    pub(crate) hello: Option<Hello>,
    /// Modules and filesystems that failed, with the reason.
    pub(crate) missing: Vec<(String, String)>,
    /// Why it ended early, if it did.
    pub(crate) died: Option<String>,
    pub(crate) results: Vec<(Cell, ProbeOutcome)>,
}

impl Boot {
    /// The result of a probe on a filesystem under a THP mode.
    pub(crate) fn outcome(&self, place: &str, thp: Thp, probe: Probe) -> Option<&ProbeOutcome> {
        let found = self
            .results
            .iter()
            .find(|(cell, _)| cell.place == place && cell.thp == thp && cell.probe == probe);
        found.map(|(_, outcome)| outcome)
    }

    /// How many rounds of promotion the programs survived.
    pub(crate) fn rounds(&self) -> Rounds {
        let mut rounds = Rounds::default();
        for (_, outcome) in self.outcomes(Probe::PromoteRounds) {
            match outcome {
                ProbeOutcome::Promoted(found) => {
                    rounds.done += found.rounds;
                    rounds.collapsed += found.collapse_rounds;
                    rounds.wrong.extend(found.wrong.clone());
                    if found.rounds == 0 {
                        rounds.wrong.push(found.remap.said.clone());
                    }
                }
                ProbeOutcome::Failed(why) => rounds.wrong.push(why.clone()),
                _ => {}
            }
        }
        rounds
    }

    /// All results of a probe.
    pub(crate) fn outcomes(&self, probe: Probe) -> impl Iterator<Item = (&Cell, &ProbeOutcome)> {
        let of = move |(cell, _): &&(Cell, ProbeOutcome)| cell.probe == probe;
        self.results
            .iter()
            .filter(of)
            .map(|(cell, outcome)| (cell, outcome))
    }
}

/// How many times programs were promoted.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// By a copy, and mapped back.
    pub(crate) done: u32,
    /// In place, and reclaimed.
    pub(crate) collapsed: u32,
    /// The differences that any of them caused.
    pub(crate) wrong: Vec<String>,
}

impl Display for Rounds {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.done)?;
        if self.collapsed > 0 {
            write!(out, " by a copy, {} by collapse", self.collapsed)?;
        }
        match self.wrong.first() {
            Some(first) => write!(out, ", {} wrong: {first}", self.wrong.len()),
            None => Ok(()),
        }
    }
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> Result<Vec<Boot>> {
    let text = fs::read_to_string(path).at(path)?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let what = format!("{}: line {}: {error}", path.display(), number + 1);
            LabError::Usage(what)
        })
    };
    text.lines().enumerate().map(parse).collect()
}

/// Adds `new` boots to the record at `path`. They replace older ones of the same kernels and
/// purposes.
pub(crate) fn merge(path: &Path, new: Vec<Boot>) -> Result<()> {
    let mut boots = if path.exists() {
        read(path)?
    } else {
        Vec::new()
    };
    let key = |boot: &Boot| (boot.kernel, boot.purpose);
    boots.retain(|boot| !new.iter().any(|new| key(new) == key(boot)));
    boots.extend(new);
    boots.sort_by_key(key);
    write(path, &boots)
}

/// Replaces a record by a new one, in one step.
fn write(path: &Path, boots: &[Boot]) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).at(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory).at(directory)?;
    for boot in boots {
        let line = serde_json::to_string(boot)
            .map_err(io::Error::other)
            .at(path)?;
        writeln!(file, "{line}").at(path)?;
    }
    file.as_file().sync_all().at(path)?;
    file.persist(path).map_err(|error| error.error).at(path)?;
    Ok(())
}
