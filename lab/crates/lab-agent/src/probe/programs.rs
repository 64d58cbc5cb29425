//! Real programs: how their text is mapped by a plain start, cold and warm.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hugetext_host::run_measured;
use hugetext_lab_agent::{Compile, HugePages, PROGRAMS, ProgramText, Warmed};

use super::files;
use super::memory::{Geometry, quiet_khugepaged};
use super::methods::{SMALL, warm};
use super::process::Running;

const COMPILER: &str = "cc1";
/// Far above the time of a compile under an emulator. The lab limits the whole boot.
const LIMIT: Duration = Duration::from_secs(600);
pub(super) const LIBRARY: &str = "libgccjit.so.0";

/// The compiler, and the same compiler as a shared object.
pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Vec<ProgramText>> {
    [COMPILER, LIBRARY]
        .into_iter()
        .map(|name| {
            let file = fresh(directory, name)?;
            let (text, possible, cold) = look(&file, directory, geometry)?;
            let method = warm(&file, geometry)?;
            let (_, possible_then, warm) = look(&file, directory, geometry)?;
            Ok(ProgramText {
                file: name.to_owned(),
                text,
                possible: possible.min(possible_then),
                method,
                cold,
                warm,
            })
        })
        .collect()
}

/// The result of the command on the compiler's file.
pub(super) fn warm_command(directory: &Path, geometry: &Geometry) -> io::Result<Warmed> {
    let file = fresh(directory, COMPILER)?;
    let (text, possible, cold) = look(&file, directory, geometry)?;
    let mut hugetext = Command::new(Path::new(PROGRAMS).join("hugetext"));
    let output = hugetext.args(["warm", "--json"]).arg(&file).output()?;
    let (_, _, warm) = look(&file, directory, geometry)?;
    Ok(Warmed {
        exit: output.status.code(),
        document: serde_json::from_slice(&output.stdout).unwrap_or_default(),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        text,
        possible,
        cold,
        warm,
    })
}

/// One short compilation with text in small folios, one with warm text; each follows one that is
/// not counted.
pub(super) fn compile(directory: &Path, geometry: &Geometry) -> io::Result<Compile> {
    quiet_khugepaged()?;
    let cc1 = fresh(directory, COMPILER)?;
    let source = Path::new("/tmp/empty.c");
    fs::write(source, "int main(void) { return 0; }\n")?;
    let run = || {
        let mut command = Command::new(&cc1);
        command
            .args(["-quiet", "-ffreestanding"])
            .arg(source)
            .args(["-o", "/dev/null"]);
        command
            .env("LD_LIBRARY_PATH", PROGRAMS)
            .stderr(Stdio::null());
        run_measured(&mut command, LIMIT)
    };
    run()?;
    let (cold, _) = run()?;
    warm(&cc1, geometry)?;
    run()?;
    let (warm, status) = run()?;
    if !status.success() {
        return Err(io::Error::other(format!("the compiler failed: {status}")));
    }
    Ok(Compile {
        cold_ns: cold.wall.as_nanos() as u64,
        warm_ns: warm.wall.as_nanos() as u64,
        cold_faults: cold.minor_faults,
        warm_faults: warm.minor_faults,
    })
}

/// A copy of the program on disk, written in small pieces, with no page in the page cache.
pub(super) fn fresh(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let file = directory.join(name);
    if !file.exists() {
        files::replace(&Path::new(PROGRAMS).join(name), &file, SMALL)?;
    }
    files::drop_cache(&file)?;
    Ok(file)
}

/// Starts the program and reads all its text. Returns the bytes of text, those in whole windows at
/// their addresses, and how they are mapped.
fn look(file: &Path, directory: &Path, geometry: &Geometry) -> io::Result<(u64, u64, HugePages)> {
    let running = if file.ends_with(COMPILER) {
        Running::start_compiler(file)?
    } else {
        Running::start(&Path::new(PROGRAMS).join("gccjit"), directory)?
    };
    running.touch_text(file, geometry.page)?;
    let text = running.text(file)?;
    let bytes = text.iter().map(|mapping| mapping.span.len()).sum();
    let windows = text
        .iter()
        .map(|mapping| mapping.windows(geometry.pmd))
        .sum();
    Ok((bytes, windows, running.huge_pages(file, geometry)?))
}
