//! Running processes by the names that users know: a process name, a systemd unit, a cgroup.

mod cgroup;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use hugetext_host::{Pid, pids, process_name};

use crate::failure::Failure;
use crate::output::quoted;

// The processes that a command is about; its group `which` takes one way to name them. This is no documentation comment:
// clap would print it as the headline of the command that flattens it.
#[derive(Debug, Args)]
pub(crate) struct ProcessChoice {
    /// Process ids
    #[arg(group = "which", value_name = "PID", allow_negative_numbers = true)]
    pids: Vec<Pid>,
    /// Every process with this process name or program file name
    #[arg(long, group = "which", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Every process of this systemd unit
    #[arg(long, group = "which", value_name = "UNIT", value_parser = NonEmptyStringValueParser::new())]
    unit: Option<String>,
    /// Every process of this cgroup and of those below it: a path below /sys/fs/cgroup
    #[arg(long, group = "which", value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

/// What it means that no process of a name runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// An error.
    Error,
    /// One may start later.
    MayCome,
}

impl ProcessChoice {
    /// Whether the user named each process.
    pub(crate) fn is_by_id(&self) -> bool {
        !self.pids.is_empty()
    }

    /// The words that name them, as other commands take them.
    pub(crate) fn words(&self) -> Vec<String> {
        let option = |name: &str, value: &str| vec![format!("--{name}"), quoted(value)];
        match (&self.name, &self.unit, &self.cgroup) {
            (Some(name), _, _) => option("name", name),
            (_, Some(unit), _) => option("unit", unit),
            (_, _, Some(cgroup)) => option("cgroup", &cgroup.to_string_lossy()),
            (None, None, None) => self.pids.iter().map(Pid::to_string).collect(),
        }
    }

    /// The processes that there are now; all of them if none is named. This one is never among those that have no name here.
    pub(crate) fn processes(&self, absent: Absent) -> Result<Vec<Pid>, Failure> {
        if self.is_by_id() {
            return Ok(self.pids.clone());
        }
        let group = match (&self.cgroup, &self.unit) {
            (Some(group), _) => Some(cgroup::directory(group)),
            (_, Some(unit)) => Some(cgroup::directory_of_unit(unit).ok_or_else(|| {
                let failure =
                    Failure::new(format_args!("--unit {unit}"), "no such unit is running");
                failure.remedy("`systemctl status PID` names the unit of a process")
            })?),
            _ => None,
        };
        if let Some(directory) = group {
            return cgroup::processes(&directory)
                .map_err(|error| Failure::new(directory.display(), error));
        }
        let mut everyone = pids().map_err(|error| Failure::new("/proc", error))?;
        everyone.retain(|pid| *pid != Pid::own());
        let Some(name) = &self.name else {
            return Ok(everyone);
        };
        everyone.retain(|pid| is_named(*pid, name));
        if everyone.is_empty() && absent == Absent::Error {
            let failure = Failure::new(format_args!("--name {name}"), "no such process is running");
            return Err(failure.remedy("`hugetext stat --all` lists the names"));
        }
        Ok(everyone)
    }
}

fn is_named(pid: Pid, name: &str) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let file = exe.file_name().unwrap_or_default().to_string_lossy();
    let file = file.strip_suffix(" (deleted)").unwrap_or(&file);
    process_name(pid) == name || file == name || exe == Path::new(name)
}
