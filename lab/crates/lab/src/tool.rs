//! Runs the programs that the lab depends on.

use std::io;
use std::process::{Command, Output};

use crate::error::{LabError, Result};

/// Runs `command` to its end and returns its output. A program that is missing or fails is an error
/// with the last line that it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let error = lines
        .iter()
        .find(|line| line.starts_with("E: ") || line.contains("error"));
    let message = error
        .or(lines.last())
        .copied()
        .unwrap_or("it printed nothing");
    Err(LabError::Tool {
        tool: name(command),
        message: message.to_owned(),
    })
}

fn output(command: &mut Command) -> Result<Output> {
    command.output().map_err(|error| missing(command, error))
}

/// The error of a program that could not be started.
pub(crate) fn missing(command: &Command, error: io::Error) -> LabError {
    let tool = name(command);
    match error.kind() {
        io::ErrorKind::NotFound => LabError::NoTool { tool },
        _ => LabError::Tool {
            tool,
            message: error.to_string(),
        },
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
