//! The rows of `hugetext auto top`: one for each program that runs, or that the daemon remembers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hugetext_auto::author::DaemonState;
use hugetext_auto::processor::{self, ProcessTicks};
use hugetext_auto::status::{State, Status};
use hugetext_host::{ListBudget, Pid, ProcessError, pids, text_mappings_within};

use crate::documents::top::{Order, Row};
use crate::failure::Failure;
use crate::path::shown;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Sample {
    rows: Vec<Row>,
    /// Whether the daemon tells starts and states.
    pub(super) daemon: bool,
    /// Processes that this user may not see, or whose mappings are locked.
    pub(super) hidden: usize,
    ticks: HashMap<Pid, ProcessTicks>,
    at: Option<Instant>,
}

impl Sample {
    /// Looks at all processes that this user may see.
    pub(super) fn look(&mut self, directory: &Path) -> Result<(), Failure> {
        let now = Instant::now();
        let per_second = processor::ticks_per_second();
        let passed = self.at.map(|at| now.duration_since(at).as_secs_f64());
        let mut rows: BTreeMap<PathBuf, Row> = BTreeMap::new();
        let mut ticks = HashMap::new();
        self.hidden = 0;
        let mut budget = ListBudget::new(ListBudget::SMAPS);
        for pid in pids().map_err(|error| Failure::new("/proc", error))? {
            let Some(spent) = ProcessTicks::of(pid) else {
                continue;
            };
            let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else {
                self.hidden += 1;
                continue;
            };
            let (text, huge) = match text_mappings_within(pid, &mut budget) {
                Ok(texts) => texts.iter().fold((0, 0), |(text, huge), mapping| {
                    (text + mapping.rss, huge + mapping.pmd_mapped)
                }),
                Err(
                    ProcessError::Forbidden | ProcessError::Unresponsive | ProcessError::TooMuch,
                ) => {
                    self.hidden += 1;
                    continue;
                }
                Err(_) => continue,
            };
            let before = self.ticks.get(&pid);
            let before = before.filter(|before| before.started == spent.started);
            let seconds = |ticks: u64| ticks as f64 / per_second;
            let row = rows.entry(program).or_default();
            row.cpu_ns = row
                .cpu_ns
                .saturating_add((seconds(spent.spent) * 1e9) as u64);
            if let Some(passed) = passed {
                // What a process did before the first look at it was not done since the last look.
                let since = before.map_or(0, |before| spent.since(*before));
                let percent = 100.0 * seconds(since) / passed.max(0.01);
                row.cpu_percent = Some(row.cpu_percent.unwrap_or(0.0) + percent);
            }
            row.processes += 1;
            if text > row.text {
                (row.text, row.huge) = (text, huge);
            }
            ticks.insert(pid, spent);
        }
        (self.ticks, self.at) = (ticks, Some(now));
        let status = Status::read(directory).ok();
        let status = status.filter(|status| status.daemon() == DaemonState::Runs);
        self.daemon = status.is_some();
        if let Some(status) = status {
            add(&mut rows, &status);
        }
        self.rows = rows
            .into_iter()
            .map(|(path, row)| Row {
                name: shown(&path),
                ..row
            })
            .collect();
        Ok(())
    }

    /// The rows in an order; those that are alike by name.
    pub(super) fn sorted(&self, order: Order) -> Vec<Row> {
        let mut rows = self.rows.clone();
        let share = |row: &Row| row.huge as f64 / row.text.max(1) as f64;
        let now = |row: &Row| row.cpu_percent.unwrap_or(0.0);
        rows.sort_by(|a, b| {
            let by = match order {
                Order::Cpu => now(b)
                    .total_cmp(&now(a))
                    .then_with(|| b.cpu_ns.cmp(&a.cpu_ns)),
                Order::Starts => b.starts.unwrap_or(0.0).total_cmp(&a.starts.unwrap_or(0.0)),
                Order::Text => b.text.cmp(&a.text),
                Order::Huge => share(b).total_cmp(&share(a)),
                Order::Name => Ordering::Equal,
            };
            by.then_with(|| a.name.cmp(&b.name))
        });
        rows
    }
}

/// Adds what the daemon knows, also of programs and libraries that do not run now.
fn add(rows: &mut BTreeMap<PathBuf, Row>, status: &Status) {
    for file in &status.files {
        let row = rows.entry(file.name.clone()).or_default();
        row.starts = Some(row.starts.unwrap_or(0.0) + file.starts);
        if row.processes == 0 {
            row.text = file.bytes;
            row.huge = match file.windows {
                0 => 0,
                windows => file.bytes / windows * file.huge,
            };
        }
        row.state = match file.state {
            State::Held => "held",
            State::WouldHold => "would be held",
            State::Waiting => "waiting",
            State::Refused => "not held",
        }
        .to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_and_rows_are_in_order() {
        let mut sample = Sample::default();
        let nowhere = Path::new("/no/such/directory");
        sample.look(nowhere).unwrap();
        sample.look(nowhere).unwrap();
        assert!(!sample.daemon);
        let own = shown(&std::env::current_exe().unwrap());
        let rows = sample.sorted(Order::Text);
        assert!(rows.iter().any(|row| row.name == own && row.processes >= 1));
        assert!(rows.is_sorted_by(|a, b| a.text >= b.text));
        let rows = sample.sorted(Order::Name);
        assert!(rows.is_sorted_by(|a, b| a.name <= b.name));
    }
}
