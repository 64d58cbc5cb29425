//! Programs to fix, and the command to fix them with.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the command.
pub(crate) fn hugetext<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The program fixed, which must succeed.
pub(crate) fn fix(old: &Path, new: &Path, options: &[&str]) {
    let output = hugetext(&[&["fix", path(old), "-o", path(new)], options].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Its JSON answer.
pub(crate) fn json<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .arg("--json")
        .args(arguments)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The single line of an error. Also checks the exit status.
pub(crate) fn error_line(output: &Output) -> String {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// Links the sample program with the C compiler's driver. `None` if the driver or its linker does
/// not know the options.
pub(crate) fn link(directory: &TempDir, name: &str, options: &[&str]) -> Option<PathBuf> {
    link_by("cc", directory, name, options)
}

/// As [`link`], with the driver of another C compiler.
pub(crate) fn link_by(
    compiler: &str,
    directory: &TempDir,
    name: &str,
    options: &[&str],
) -> Option<PathBuf> {
    let out = directory.path().join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/sample.c");
    let linked = Command::new(compiler)
        .args(["-g", "-o", path(&out), source])
        .args(options)
        .output()
        .ok()?;
    // Some linkers only warn about an option they do not know.
    let clean = linked.status.success() && linked.stderr.is_empty();
    clean.then_some(out)
}

/// The sample program as the compiler of this machine makes it by default.
pub(crate) fn sample(directory: &TempDir) -> PathBuf {
    link(directory, "sample", &[]).unwrap()
}

/// Starts a program that these tests may have written a moment ago. A child that another thread
/// has forked keeps the file open for writing until it executes a program. Until then, the kernel
/// answers ETXTBSY.
pub(crate) fn start(program: &Path) -> Child {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            started => return started.unwrap(),
        }
    }
}

/// The output of a program.
pub(crate) fn run(program: &Path) -> String {
    let output = start(program).wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}: {}",
        program.display(),
        output.status
    );
    text(&output.stdout)
}

/// Runs a tool and returns its output. `None` if the tool is not installed.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            Some(text(&output.stdout))
        }
        Err(_) => {
            println!("skipped: no {name} on this machine");
            None
        }
    }
}

/// A copy of `file` that a tool changed in place. `None` if the tool is not installed.
pub(crate) fn worked(
    directory: &TempDir,
    file: &Path,
    name: &str,
    arguments: &[&str],
) -> Option<PathBuf> {
    let worked = directory.path().join("worked");
    std::fs::copy(file, &worked).unwrap();
    tool(name, &[arguments, &[path(&worked)]].concat())?;
    Some(worked)
}
