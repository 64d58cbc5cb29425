//! Output for the user: text or one JSON document on stdout, errors and progress on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::path::{escaped, escaped_lines};

/// Options of every subcommand.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Common options")]
pub struct Options {
    /// Print one JSON document instead of text; `hugetext generate --schema` describes it
    #[arg(long, global = true)]
    json: bool,
    /// Print errors only; the exit status tells the result. JSON is printed all the same
    #[arg(short, long, global = true)]
    quiet: bool,
}

// The option of the commands that can say more. This is no documentation comment: clap would print it as the headline
// of the command that flattens it.
#[expect(missing_docs, reason = "as above")]
#[derive(Debug, Clone, Copy, Args)]
pub struct Detail {
    /// Show more detail
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// The command line of this run. Where it has an error or asks for help, that is printed and the process ends.
pub fn command_line_as<C: Parser>() -> C {
    C::try_parse().unwrap_or_else(|error| {
        let Some(gone) = removed_option(&error) else {
            error.exit()
        };
        Output::new(Options::default(), false).error(&gone);
        std::process::exit(error.exit_code())
    })
}

/// What replaces an option that is gone, if it is the error.
fn removed_option(error: &clap::Error) -> Option<Failure> {
    let unknown = error.kind() == ErrorKind::UnknownArgument;
    let option = error.get(ContextKind::InvalidArg)?;
    (unknown && *option == ContextValue::String("--format".to_owned())).then(|| {
        let gone = Failure::new("--format", "not an option any more");
        gone.remedy("leave it out for text, or use --json, of which `jq -r` with @csv makes rows (docs/json.md)")
    })
}

/// Prints results, errors and progress for the user.
#[derive(Debug)]
pub struct Output {
    options: Options,
    verbose: bool,
    /// The errors that no document holds yet.
    errors: Mutex<Vec<Failure>>,
}

/// The number of the JSON documents. It changes whenever a name or its meaning changes.
pub const SCHEMA: u32 = 3;

/// The frame of every JSON document.
#[derive(Serialize)]
struct Framed<'a, T> {
    schema: u32,
    command: &'a str,
    #[serde(flatten)]
    body: &'a T,
    /// What could not be done, as printed on stderr.
    errors: Vec<Failure>,
}

impl Output {
    /// Prints as these options say, and in more detail if `verbose`.
    pub fn new(options: Options, verbose: bool) -> Output {
        Output {
            options,
            verbose,
            errors: Mutex::default(),
        }
    }

    /// Whether JSON was asked for instead of text.
    pub fn is_json(&self) -> bool {
        self.options.json
    }

    /// The options that these are, for a program that is executed in the place of this one.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        let json = self.options.json.then_some("--json");
        let quiet = self.options.quiet.then_some("--quiet");
        [json, quiet].into_iter().flatten()
    }

    /// Whether more detail was asked for.
    pub fn verbose(&self) -> bool {
        self.verbose
    }

    /// Prints a result: `body` as JSON, or the text that `shows` makes of it.
    pub fn result<T: Serialize>(
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
    pub fn event<T: Serialize>(
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
        written: fn(&Framed<'_, T>) -> serde_json::Result<String>,
    ) -> Result<(), Failure> {
        if self.options.json {
            let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
            let document = Framed {
                schema: SCHEMA,
                command,
                body,
                errors: std::mem::take(&mut *errors),
            };
            let text = written(&document).map_err(|e| Failure::new("standard output", e))?;
            self.document(&format!("{}\n", escaped_json(&text)))
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
    pub fn document(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            // The reader closed the pipe early, as in `hugetext check … | head`. The work goes on,
            // and the exit status stays that of its verdict.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::new("standard output", error)),
            Ok(()) => Ok(()),
        }
    }

    /// Prints an error on stderr. The next document has it too.
    pub fn error(&self, failure: &Failure) {
        self.complain(format_args!("{failure}"));
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push(failure.clone());
    }

    /// Prints a warning on stderr unless quiet.
    pub fn warn(&self, text: impl fmt::Display) {
        if !self.options.quiet {
            self.complain(format_args!("warning: {text}"));
        }
    }

    /// Tells something on stderr before the result, unless quiet.
    pub fn tell_user(&self, text: impl fmt::Display) {
        if !self.options.quiet {
            self.complain(format_args!("{text}"));
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
    pub fn progress(&self, what: &'static str, len: u64) -> ProgressBar {
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

/// A JSON document without control characters: serde_json leaves U+007F to U+009F in strings as they are, and
/// some of them begin control sequences of terminals.
fn escaped_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && letter != '\n' {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// A word quoted for a shell.
pub fn quoted(word: &str) -> String {
    // Only a NUL, which no argument holds, cannot be quoted.
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned())
}

/// The command line of this run, quoted for a shell. `command` is what a user types for this program.
pub fn command_line(command: &str) -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    let words: Vec<String> = std::iter::once(command.to_owned()).chain(words).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_its_strings_without_their_control_characters() {
        let strings = ["a\u{9b}31m\u{7f}é\u{1b}"];
        let text = escaped_json(&serde_json::to_string_pretty(&strings).unwrap());
        assert!(
            text.chars()
                .all(|letter| !letter.is_control() || letter == '\n')
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), strings);
    }
}
