//! The meaning of a path, glob or command that is added to a list.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::Pattern;

use crate::prepare::resolve;

/// `entry` in a form that has the same meaning in every directory: an absolute path or glob, which
/// may name a missing file, or the path of the command that it names on PATH.
pub fn absolute_entry(entry: &str) -> String {
    let absolute = std::path::absolute(path(entry));
    // Without a working directory, the entry is kept for the readers of the list.
    absolute.map_or_else(
        |_| entry.to_owned(),
        |path| path.to_string_lossy().into_owned(),
    )
}

fn path(entry: &str) -> PathBuf {
    let plain = PathBuf::from(entry);
    if plain.exists() || plain.is_absolute() {
        return plain;
    }
    if let (Some(rest), Some(home)) = (entry.strip_prefix("~/"), std::env::home_dir()) {
        return home.join(rest);
    }
    if !entry.contains('/')
        && let Ok(program) = resolve::command(OsStr::new(entry))
    {
        return program;
    }
    match std::env::current_dir() {
        Ok(directory) if entry.contains(['*', '?', '[']) => {
            // The name of the working directory is not a pattern, with any characters.
            Path::new(&Pattern::escape(&directory.to_string_lossy())).join(entry)
        }
        _ => plain,
    }
}
