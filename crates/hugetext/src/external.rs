//! `hugetext NAME` becomes the program `hugetext-NAME`, as git finds its commands. Not every machine has them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// The programs for fleets. Each is in the folder of its name of fleet/.
const FOR_FLEETS: [&str; 2] = ["inventory", "nri"];

/// Commands that have another name now.
const RENAMED: [(&str, &str); 2] = [
    ("top", "hugetext auto top"),
    ("schema", "hugetext generate --schema DOCUMENT"),
];

/// Executes `hugetext-NAME` in place of this program; `None` if it is not known what NAME means.
pub(crate) fn become_command(words: &[OsString]) -> Option<Failure> {
    let (name, arguments) = words.split_first()?;
    let renamed = RENAMED.iter().find(|(before, _)| name == before);
    if let Some((before, now)) = renamed {
        let failure = Failure::new(before, "this command has another name now");
        return Some(failure.remedy(format!("use `{now}`")));
    }
    let error = become_program(name, arguments);
    if error.kind() != io::ErrorKind::NotFound {
        return Some(Failure::new(program(name).display(), error));
    }
    let known = FOR_FLEETS.iter().find(|known| name == *known)?;
    let remedy =
        format!("install it beside this command: cargo install --locked --path fleet/{known}");
    Some(Failure::new(program(name).display(), "not installed").remedy(remedy))
}

/// Executes `hugetext-NAME`, which lies beside this command or in PATH, in place of this program. Returns only if that
/// fails.
pub(crate) fn become_program(name: &OsStr, arguments: &[OsString]) -> io::Error {
    let program = program(name);
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(&program));
    let found = beside.filter(|path| path.is_file());
    Command::new(found.unwrap_or(program))
        .args(arguments)
        .exec()
}

fn program(name: &OsStr) -> PathBuf {
    let mut program = OsString::from("hugetext-");
    program.push(name);
    PathBuf::from(program)
}
