//! The results that `hugetext promote` prints.

use std::fmt::Write;
use std::time::Duration;

use hugetext_engine::running::{
    GeneratedText, PromoteError, PromoteRequest, PromotedProcess, TextBytes, UnchangedText,
};
use hugetext_host::{Pid, process_name};
use hugetext_promote::Pause;

use crate::documents::promote::{PromoteReport, RefusedProcess};
use crate::failure::plain;
use crate::path::shown;
use crate::table::{bytes, percent};

impl RefusedProcess {
    pub(super) fn new(pid: Pid, error: &PromoteError) -> RefusedProcess {
        RefusedProcess {
            pid,
            name: process_name(pid),
            reason: plain(reason(error)),
        }
    }
}

/// Why a process was left unchanged, by the options of this command.
pub(super) fn reason(error: &PromoteError) -> String {
    match error {
        PromoteError::Harmful(_) => {
            format!("{error}; --backend remap or collapse moves it all the same")
        }
        error => error.to_string(),
    }
}

/// What was gained of one mapping of generated text.
fn show_generated(text: &mut String, generated: &GeneratedText) -> std::fmt::Result {
    write!(
        text,
        "    {} at {:#x}: {} by PMD leaves before and {} after",
        bytes(generated.addresses.len()),
        generated.addresses.start,
        bytes(generated.before),
        bytes(generated.after)
    )?;
    if generated.unbacked > 0 {
        write!(text, "; {} not generated yet", bytes(generated.unbacked))?;
    }
    if let Some(error) = &generated.error {
        write!(text, "; the rest cannot be collapsed ({error})")?;
    }
    writeln!(text)
}

impl PromoteReport {
    pub(super) fn new(job: PromoteRequest) -> PromoteReport {
        PromoteReport {
            dry_run: job.dry_run,
            revert: job.revert,
            processes: Vec::new(),
            refused: Vec::new(),
            audit: None,
            costly_system_call_per_mille: None,
            leaves: job.leaves,
        }
    }

    pub(super) fn show(&self, verbose: bool) -> String {
        let mut text = String::new();
        for process in &self.processes {
            let _ = self.show_process(&mut text, process, verbose);
        }
        for RefusedProcess { pid, name, reason } in &self.refused {
            let _ = writeln!(text, "{pid} ({name}): unchanged: {reason}");
        }
        if self.processes.is_empty() && self.refused.is_empty() {
            text.push_str("no process to change\n");
        }
        if let Some(lost) = self.costly_system_call_per_mille {
            let lost = lost / 10;
            let _ = writeln!(
                text,
                "each system call slows text on huge pages down here, 256 pages of it by {lost}%; \
                 `hugetext bench live PID` tells whether a process gains"
            );
        }
        text
    }

    fn show_process(
        &self,
        text: &mut String,
        process: &PromotedProcess,
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
            let share = |text: &TextBytes| percent(text.pmd_mapped, text.mapped);
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
        if process.data > 0 {
            let verb = if self.dry_run { "becomes" } else { "is" };
            write!(
                text,
                "; {} of read-only data {verb} executable",
                bytes(process.data)
            )?;
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
            write!(text, "{}", in_all(&process.pauses))?;
        }
        writeln!(text)?;
        for generated in &process.generated {
            show_generated(text, generated)?;
        }
        for note in &process.notes {
            writeln!(text, "    {note}")?;
        }
        let mut left: Vec<&UnchangedText> = process.left.iter().collect();
        left.sort_by_key(|left| left.text.start);
        // Without --verbose, only parts large enough to matter are listed.
        let matters = |left: &&&UnchangedText| verbose || left.text.len() >= 1 << 21;
        for UnchangedText {
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

/// What the longest pause does not tell: the sum of several pauses.
fn in_all(pauses: &[Pause]) -> String {
    if pauses.len() < 2 {
        return String::new();
    }
    let all: Duration = pauses.iter().map(|pause| pause.total).sum();
    format!(" ({:.1} ms in all)", all.as_secs_f64() * 1e3)
}
