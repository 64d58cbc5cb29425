//! Commands by the names that users know: what `run` and `learn` execute, and what other commands look at.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use hugetext_engine::prepare::resolve;

use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::verdict::Verdict;

/// The program that the first word of the command line names, with that word; the verdict if it
/// names none.
pub(crate) fn find<'c>(
    command: &'c [OsString],
    output: &Output,
) -> Result<(&'c OsStr, PathBuf), Verdict> {
    let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    match resolve::command(name) {
        Ok(program) => Ok((name, program)),
        Err(error) => Err(cannot_run(Path::new(name), &error, output)),
    }
}

/// Files as users name them: a path, or a command on PATH if no file has that name.
pub(crate) fn file_or_command() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|name| {
        let path = PathBuf::from(&name);
        if path.exists() {
            return path;
        }
        resolve::command(&name).unwrap_or(path)
    })
}

/// Says why a program was not executed. Exit status 127 or 126, as with shells and env(1).
pub(crate) fn cannot_run(program: &Path, error: &io::Error, output: &Output) -> Verdict {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let problem = if missing {
        "command not found".to_owned()
    } else {
        plain(error)
    };
    output.error(&Failure::at(program, problem));
    Verdict::Status(if missing { 127 } else { 126 })
}
