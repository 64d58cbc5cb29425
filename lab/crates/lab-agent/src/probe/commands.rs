//! The command's subcommands on a compiler as a shared object, one after the other, as a user runs them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use hugetext_lab_agent::{Answer, Commands, PROGRAMS};

use super::files;
use super::memory::Geometry;
use super::process::Running;
use super::programs::{LIBRARY, fresh};

/// `check`, `fix` into a copy, `warm` of the copy, then `stat` and `promote` of a process that maps it.
pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Commands> {
    let library = fresh(directory, LIBRARY)?;
    let fixed = directory.join("fixed");
    let copy = fixed.join(LIBRARY);
    std::fs::create_dir_all(&fixed)?;
    let ask = |command: &str, arguments: &[&OsStr]| answer(directory, command, arguments);
    let mut answers = vec![
        ask("check", &[library.as_ref()])?,
        ask("fix", &[library.as_ref(), "-o".as_ref(), copy.as_ref()])?,
    ];
    files::drop_cache(&copy)?;
    answers.push(ask("warm", &[copy.as_ref()])?);
    let running = Running::start(&Path::new(PROGRAMS).join("gccjit"), &fixed)?;
    running.touch_text(&copy, geometry.page)?;
    let text = running.text(&copy)?;
    let found = running.huge_pages(&copy, geometry)?;
    let pid = running.pid().to_string();
    answers.push(ask("stat", &[pid.as_ref()])?);
    answers.push(ask("promote", &[pid.as_ref()])?);
    Ok(Commands {
        answers,
        text: text.iter().map(|mapping| mapping.span.len()).sum(),
        found,
    })
}

/// Runs a subcommand. Paths below `directory` are shortened in what it says.
fn answer(directory: &Path, command: &str, arguments: &[&OsStr]) -> io::Result<Answer> {
    let mut hugetext = Command::new(Path::new(PROGRAMS).join("hugetext"));
    let output = hugetext.arg(command).args(arguments).output()?;
    let said = if output.stdout.is_empty() {
        &output.stderr
    } else {
        &output.stdout
    };
    let said = String::from_utf8_lossy(said);
    let line = match command {
        // The first line is the file's name.
        "check" => said.lines().find(|line| line.contains("reach")),
        _ => said.lines().next(),
    };
    let directory = format!("{}/", directory.display());
    Ok(Answer {
        command: command.to_owned(),
        exit: output.status.code(),
        said: line.unwrap_or_default().trim().replace(&directory, ""),
    })
}
