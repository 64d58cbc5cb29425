//! What a path, glob or command means when it is put into a list.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::Pattern;

use crate::run::resolve;

/// `entry` as it can be read from anywhere: an absolute path or glob, of something that is there or
/// not yet, or of the command that it names on PATH.
pub(super) fn absolute(entry: &str) -> String {
    let absolute = std::path::absolute(path(entry));
    // Without a working directory it is left to whoever reads the list.
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
            // The working directory is no pattern, whatever its name.
            Path::new(&Pattern::escape(&directory.to_string_lossy())).join(entry)
        }
        _ => plain,
    }
}
