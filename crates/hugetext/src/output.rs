//! Output for the user: one JSON document or text on stdout, errors and progress on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::path::{escaped, escaped_lines};

/// Options of every subcommand.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Options {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// Print errors only, and JSON with --json; the exit status tells the result
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Show more detail (check, promote, run and bench tlb only)
    #[arg(short, long, global = true)]
    verbose: bool,
}

/// Prints results, errors and progress for the user.
#[derive(Debug)]
pub(crate) struct Output {
    options: Options,
}

/// The frame of every JSON document. `schema` changes whenever a name or its meaning changes.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    command: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl Output {
    pub(crate) fn new(options: Options) -> Output {
        Output { options }
    }

    /// Whether JSON was asked for.
    pub(crate) fn json(&self) -> bool {
        self.options.json
    }

    /// Whether more detail was asked for.
    pub(crate) fn verbose(&self) -> bool {
        self.options.verbose
    }

    /// Prints a result: `body` as JSON, or the text that `shows` makes of it.
    pub(crate) fn result<T: Serialize>(
        &self,
        command: &str,
        body: &T,
        shows: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        self.tell(command, body, shows, |document| {
            serde_json::to_string_pretty(document)
        })
    }

    /// Prints one of many results. With `--json`, it is a document on one line.
    pub(crate) fn event<T: Serialize>(
        &self,
        command: &str,
        body: &T,
        shows: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        self.tell(command, body, shows, |document| {
            serde_json::to_string(document)
        })
    }

    fn tell<T: Serialize>(
        &self,
        command: &str,
        body: &T,
        shows: impl FnOnce(&T) -> String,
        written: fn(&Document<'_, T>) -> serde_json::Result<String>,
    ) -> Result<(), Failure> {
        if self.options.json {
            let document = Document {
                schema: 1,
                command,
                body,
            };
            self.print(&written(&document).map_err(|e| Failure::new("standard output", e))?)
        } else if self.options.quiet {
            Ok(())
        } else {
            self.print(&shows(body))
        }
    }

    /// Prints lines. An empty text prints no line.
    fn print(&self, text: &str) -> Result<(), Failure> {
        let text = text.trim_end();
        if text.is_empty() {
            return Ok(());
        }
        self.document(&format!("{}\n", escaped_lines(text)))
    }

    /// Writes a document unchanged.
    pub(crate) fn document(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            // The reader closed the pipe early, as in `hugetext check … | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
            Err(error) => Err(Failure::new("standard output", error)),
            Ok(()) => Ok(()),
        }
    }

    /// Prints an error on stderr.
    pub(crate) fn error(&self, failure: &Failure) {
        self.complain(format_args!("{failure}"));
    }

    /// Prints a warning on stderr unless quiet.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        if !self.options.quiet {
            self.complain(format_args!("warning: {text}"));
        }
    }

    fn complain(&self, text: fmt::Arguments<'_>) {
        // If stderr is closed, the message has no reader.
        let _ = writeln!(
            io::stderr().lock(),
            "hugetext: {}",
            escaped(&text.to_string())
        );
    }

    /// A progress bar on stderr, if stderr is a terminal. `len` is 0 if the total is unknown.
    pub(crate) fn progress(&self, what: &'static str, len: u64) -> ProgressBar {
        if self.options.quiet || self.options.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let (bar, style) = match len {
            0 => (
                ProgressBar::new_spinner(),
                "{spinner} {prefix}: {pos} {msg}",
            ),
            _ => (ProgressBar::new(len), "{prefix} {bar:30} {pos}/{len} {msg}"),
        };
        let style = ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar());
        bar.with_style(style).with_prefix(what)
    }
}

/// The command line of this run, quoted for a shell.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    let words: Vec<String> = std::iter::once("hugetext".to_owned())
        .chain(words)
        .collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(quoted("--rounds=3"), "--rounds=3");
        assert_eq!(quoted("sh -c"), "'sh -c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
