//! Programs and libraries whose program header table moved run, under the loaders of this machine
//! and a debugger.

#![allow(clippy::unwrap_used)]

mod apply;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use apply::apply;
use hugetext_elf::{
    DividedSections, Image, Options, Strategy, plan, rewrite, self_warming, verify,
};
use hugetext_leaf::Leaf;
use tempfile::TempDir;

const OPTIONS: Options = Options {
    leaf: Leaf::M2,
    page: Leaf::K4,
    extend_tail: false,
};

/// A program and its library, in one directory, as GNU ld and this compiler make them. `None` if
/// they cannot.
fn linked(compiler: &str) -> Option<TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/moved_table.c");
    let apart = ["-O1", "-fPIC", "-Wl,-z,separate-code"];
    let compile = |options: &[&str]| {
        let mut command = Command::new(compiler);
        command.current_dir(&directory).args(apart).arg(source);
        let done = command.args(options).output();
        done.is_ok_and(|output| output.status.success())
    };
    let library = [
        "-DLIBRARY",
        "-shared",
        "-o",
        "library.so",
        "-Wl,-soname,library.so",
    ];
    let program = [
        "-pie",
        "-o",
        "program",
        "./library.so",
        "-Wl,-rpath,$ORIGIN",
    ];
    let made = compile(&library) && compile(&program);
    if !made {
        println!("skipped: no {compiler} that links for this machine");
    }
    made.then_some(directory)
}

/// Gives the notes of PT_GNU_PROPERTY an unknown header, so that none is repeated and may go.
fn without_free_headers(bytes: &mut [u8]) {
    const GNU_PROPERTY: u32 = 0x6474_e553;
    const UNKNOWN: u32 = 0x6000_0001;
    let image = Image::read(&*bytes).unwrap();
    let headers = (0..).zip(&image.headers);
    for (index, _) in headers.filter(|(_, header)| header.p_type == GNU_PROPERTY) {
        let table = image.program_table;
        let at = (table.offset + index * table.entry_size) as usize;
        bytes[at..at + 4].copy_from_slice(&UNKNOWN.to_ne_bytes());
    }
}

/// Cuts a file with its table moved.
fn move_table(file: &Path) {
    let mut old = fs::read(file).unwrap();
    without_free_headers(&mut old);
    let image = Image::read(&old).unwrap();
    let base = plan(&image, Strategy::Shift, &OPTIONS).unwrap();
    let keep = DividedSections::Keep;
    let plan = self_warming(&old, &image, base, &OPTIONS, keep).unwrap();
    assert_ne!(plan.program_table, image.program_table.offset);
    let new = apply(&old, &rewrite(&old, &image, &plan).unwrap());
    assert!(plan.explains(&verify(&old, &new).unwrap()));
    fs::remove_file(file).unwrap();
    fs::write(file, new).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}

/// The program and its library with moved tables.
fn moved(compiler: &str) -> Option<(TempDir, PathBuf)> {
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: the layout is that of linkers for x86-64");
        return None;
    }
    let directory = linked(compiler)?;
    let program = directory.path().join("program");
    for file in [&program, &directory.path().join("library.so")] {
        move_table(file);
    }
    Some((directory, program))
}

/// One test, since a child of another one could still have a file open for writing that is run here
/// (ETXTBSY).
#[test]
fn programs_and_libraries_run_and_debuggers_know_them() {
    for compiler in ["cc", "musl-gcc"] {
        let Some((_directory, program)) = moved(compiler) else {
            continue;
        };
        let output = Command::new(&program).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "2 texts, own headers 1, 42\n", "{compiler}");
        stops_in_both(&program);
    }
}

/// A debugger finds functions of the program and of its library.
fn stops_in_both(program: &Path) {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "set breakpoint pending on"]);
    gdb.args(["-ex", "break in_library", "-ex", "run", "-ex", "backtrace"]);
    let Ok(output) = gdb.arg(program).output() else {
        println!("skipped: no gdb on this machine");
        return;
    };
    let [said, problem] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if problem.contains("ptrace") {
        println!("skipped: gdb may not trace here: {problem}");
        return;
    }
    let frames: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(frames.len(), 2, "{said} {problem}");
    assert!(
        frames[0].contains("in_library") && frames[1].contains("main"),
        "{said}"
    );
}
