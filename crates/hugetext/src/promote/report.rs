//! The results that `hugetext promote` prints.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use hugetext_host::{Mappings, Pause, process_name};
use hugetext_leaf::Span;
use serde::Serialize;

use super::Job;
use super::work::NotDone;
use crate::failure::plain;
use crate::path::{lossy, shown};
use crate::table::{bytes, percent};

/// All processes.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) dry_run: bool,
    pub(super) revert: bool,
    pub(super) processes: Vec<Process>,
    pub(super) refused: Vec<Refused>,
    /// The log that the change was written to; absent if nothing was changed or no log service
    /// listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) audit: Option<&'static str>,
}

/// Bytes of text of a process.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Text {
    pub(super) mapped: u64,
    pub(super) pmd_mapped: u64,
}

/// The result for one process.
#[derive(Debug, Serialize)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: String,
    pub(super) before: Text,
    pub(super) after: Text,
    /// Text whose own pages were collapsed.
    pub(super) collapsed: Vec<Span>,
    /// Text that a copy was mapped over, or, with --revert, the file again.
    pub(super) remapped: Vec<Span>,
    pub(super) left: Vec<Unchanged>,
    /// Bytes of memory that the copies take.
    pub(super) copied: u64,
    /// Bytes of memory of copies that other processes share and that were made before.
    pub(super) shared: u64,
    pub(super) pauses: Vec<Pause>,
    pub(super) took: Duration,
    /// Copies that the process mapped before.
    #[serde(skip)]
    pub(super) copies: usize,
}

/// Text that stays unchanged.
#[derive(Debug, Serialize)]
pub(super) struct Unchanged {
    text: Span,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "lossy::optional_path")]
    path: Option<PathBuf>,
    reason: String,
}

impl Unchanged {
    pub(super) fn new(mappings: &Mappings, text: Span, reason: String) -> Unchanged {
        let path = mappings.at(text.start).and_then(|(_, path)| path);
        Unchanged {
            text,
            path: path.map(PathBuf::from),
            reason: plain(reason),
        }
    }
}

/// A process that was left unchanged.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    pid: i32,
    name: String,
    reason: String,
}

impl Refused {
    pub(super) fn new(pid: i32, error: &NotDone) -> Refused {
        Refused {
            pid,
            name: process_name(pid),
            reason: plain(error),
        }
    }
}

impl Process {
    pub(super) fn new(pid: i32, name: String, before: Text) -> Process {
        Process {
            pid,
            name,
            before,
            after: before,
            collapsed: Vec::new(),
            remapped: Vec::new(),
            left: Vec::new(),
            copied: 0,
            shared: 0,
            pauses: Vec::new(),
            took: Duration::ZERO,
            copies: 0,
        }
    }

    /// Bytes of text that were, or would be, changed.
    pub(super) fn changed(&self) -> u64 {
        let both = self.collapsed.iter().chain(&self.remapped);
        both.map(Span::len).sum()
    }

    /// Whether something was done now or before.
    pub(super) fn is_on_huge_pages(&self) -> bool {
        self.changed() > 0 || self.after.pmd_mapped > 0
    }

    /// The longest time that the process was stopped.
    pub(super) fn longest_pause(&self) -> Option<&Pause> {
        self.pauses.iter().max_by_key(|pause| pause.total)
    }

    /// What the longest pause does not tell: the sum of several pauses, and the pause of a thread
    /// that was stopped longer than the others.
    fn in_all(&self) -> String {
        let sum = |of: fn(&Pause) -> Duration| self.pauses.iter().map(of).sum::<Duration>();
        let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let (all, last) = (sum(|pause| pause.total), sum(|pause| pause.last));
        let mut parts = Vec::new();
        if self.pauses.len() > 1 {
            parts.push(format!("{} in all", shown(all)));
        }
        if last.saturating_sub(all) >= Duration::from_micros(100) {
            parts.push(format!("one thread {}", shown(last)));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!(" ({})", parts.join(", ")),
        }
    }
}

impl Report {
    pub(super) fn new(job: Job) -> Report {
        Report {
            dry_run: job.dry_run,
            revert: job.revert,
            processes: Vec::new(),
            refused: Vec::new(),
            audit: None,
        }
    }

    pub(super) fn show(&self, verbose: bool) -> String {
        let mut text = String::new();
        for process in &self.processes {
            let _ = self.show_process(&mut text, process, verbose);
        }
        for Refused { pid, name, reason } in &self.refused {
            let _ = writeln!(text, "{pid} ({name}): unchanged: {reason}");
        }
        if self.processes.is_empty() && self.refused.is_empty() {
            text.push_str("no process to change\n");
        }
        text
    }

    fn show_process(
        &self,
        text: &mut String,
        process: &Process,
        verbose: bool,
    ) -> std::fmt::Result {
        let verb = match (self.revert, self.dry_run) {
            (false, false) => "promoted",
            (false, true) => "would promote",
            (true, false) => "mapped back",
            (true, true) => "would map back",
        };
        let changed = process.changed();
        write!(
            text,
            "{} ({}): {verb} {} of {} of text",
            process.pid,
            process.name,
            bytes(changed),
            bytes(process.before.mapped)
        )?;
        if !self.dry_run {
            let share = |text: &super::report::Text| percent(text.pmd_mapped, text.mapped);
            write!(
                text,
                ", by PMD leaves {} before and {} after",
                share(&process.before),
                share(&process.after)
            )?;
        }
        if process.copied > 0 {
            write!(text, "; copies take {}", bytes(process.copied))?;
        }
        if process.shared > 0 {
            write!(text, "; shares {} with others", bytes(process.shared))?;
        }
        if let Some(pause) = process.longest_pause() {
            let milliseconds = pause.total.as_secs_f64() * 1e3;
            let times = match process.pauses.len() {
                1 => "for".to_owned(),
                stops => format!("{stops} times for at most"),
            };
            let threads = match pause.threads {
                1 => "its thread".to_owned(),
                threads => format!("{threads} threads"),
            };
            write!(text, "; {threads} stopped {times} {milliseconds:.1} ms")?;
            write!(text, "{}", process.in_all())?;
        }
        writeln!(text)?;
        let mut left: Vec<&Unchanged> = process.left.iter().collect();
        left.sort_by_key(|left| left.text.start);
        // Without --verbose, only parts large enough to matter are listed.
        let matters = |left: &&&Unchanged| verbose || left.text.len() >= 1 << 21;
        for Unchanged {
            text: span,
            path,
            reason,
        } in left.iter().filter(matters)
        {
            let path = path.as_ref().map_or(String::new(), |path| shown(path));
            writeln!(
                text,
                "    left {} at {:#x}: {reason}  {path}",
                bytes(span.len()),
                span.start
            )?;
        }
        Ok(())
    }
}
