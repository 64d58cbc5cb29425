//! Commands by the names that users know: what `run` and `learn` execute, and what other commands look at.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use hugetext_engine::prepare::resolve;
use hugetext_loader::LdCache;

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

/// Files as users name them: a path; if no file has that name, a command on PATH, or a library that the loader finds.
/// Programs that run are no names here: any user can begin one of any name.
pub(crate) fn file_or_command() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|name| {
        let path = PathBuf::from(&name);
        if path.exists() {
            return path;
        }
        let command = resolve::command(&name).ok();
        command.or_else(|| library(&name)).unwrap_or(path)
    })
}

/// The library of this name in the cache of the loader, such as `libc.so.6`. Those of this machine's own architecture come
/// first there.
fn library(name: &OsStr) -> Option<PathBuf> {
    let cache = LdCache::parse(std::fs::read("/etc/ld.so.cache").ok()?).ok()?;
    let found = cache.lookup(name.as_bytes(), &[]);
    found
        .first()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// A name that nothing has.
pub(crate) fn unknown(name: &Path) -> Failure {
    let failure = Failure::at(name, "no file, command or library has this name");
    failure.remedy("give its path; `hugetext stat --all` has those of programs that run")
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
