//! Files that differ from those that a linker makes by default. Each survives a fix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::sample::{hugetext, link, link_by, path, run, text, tool};
use crate::tools::without_places;

/// Runs a tool of which only the success matters. Returns whether it succeeded.
fn done(name: &str, arguments: &[&str]) -> bool {
    let output = Command::new(name).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Fixes `old` by each strategy for two geometries. Each result runs as before. readelf and nm
/// show the same for it, and its source lines keep their addresses.
fn survives(old: &Path) {
    let said = run(old);
    for strategy in ["shift", "merge"] {
        for geometry in ["x86-64", "arm64-4k"] {
            let new = old.with_extension(format!("{strategy}-{geometry}"));
            fix(old, &new, strategy, geometry);
            let what = format!("{} by {strategy} for {geometry}", old.display());
            assert_eq!(run(&new), said, "{what}");
            for option in ["-sW", "-rW", "-nW", "-dW", "-VW"] {
                let read = |file: &Path| {
                    let read = without_places(&tool("readelf", &[option, path(file)])?);
                    Some(read.replace(path(&new), "FILE").replace(path(old), "FILE"))
                };
                assert_eq!(read(old), read(&new), "readelf {option} of {what}");
            }
            assert_eq!(line_of_answer(old), line_of_answer(&new), "{what}");
        }
    }
}

fn fix(old: &Path, new: &Path, strategy: &str, geometry: &str) {
    let options = ["--strategy", strategy, "--geometry", geometry];
    crate::sample::fix(old, new, &options);
    let same = hugetext(&["check", "--same", path(old), path(new)]);
    assert!(same.status.success(), "{}", text(&same.stdout));
}

/// The line that gdb finds for a function, by symbols and debug information.
fn line_of_answer(file: &Path) -> Option<String> {
    let output = Command::new("gdb")
        .args(["-batch", "-nx", "-ex", "info line answer", path(file)])
        .output();
    let Ok(output) = output else {
        println!("skipped: no gdb on this machine");
        return None;
    };
    let answer = text(&output.stdout) + &text(&output.stderr);
    Some(answer.replace(path(file), "FILE"))
}

/// The sample, linked with these options by lld. Its layout needs a shift.
fn by_lld(directory: &TempDir, name: &str, options: &[&str]) -> Option<PathBuf> {
    let program = link(directory, name, &[&["-fuse-ld=lld"], options].concat());
    if program.is_none() {
        println!("skipped: cannot link with lld and {options:?}");
    }
    program
}

#[test]
fn kinds_of_programs() {
    let directory = tempfile::tempdir().unwrap();
    for program in kinds(&directory) {
        survives(&program);
    }
}

/// Loaders of every kind map a cut text: that of musl, and none at all.
#[test]
fn kinds_of_programs_that_warm_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let mut warmed = Vec::new();
    for old in kinds(&directory) {
        let new = old.with_extension("warms");
        let options = ["fix", path(&old), "-o", path(&new), "--self-warming"];
        let said = text(&hugetext(&options).stdout);
        if said.contains("no room for a program header") {
            // PT_PHDR of programs at fixed addresses gives its place.
            assert!(!path(&old).ends_with("no-pie"), "{said}");
            println!("skipped: {}: no room for a program header", old.display());
            continue;
        }
        assert_eq!(run(&new), run(&old), "{said}");
        let same = hugetext(&["check", "--same", path(&old), path(&new)]);
        assert!(same.status.success(), "{}", text(&same.stdout));
        warmed.push(old);
    }
    assert!(!warmed.is_empty());
}

/// The sample as each kind of program that this machine can make.
fn kinds(directory: &TempDir) -> Vec<PathBuf> {
    let kinds: [(&str, &str, &[&str]); 10] = [
        ("cc", "pie", &["-fuse-ld=lld"]),
        ("cc", "no-pie", &["-fuse-ld=lld", "-no-pie"]),
        ("cc", "static-pie", &["-fuse-ld=lld", "-static-pie"]),
        ("cc", "static-pie-bfd", &["-static-pie"]),
        ("cc", "static", &["-static"]),
        ("cc", "relr", &["-Wl,-z,pack-relative-relocs"]),
        ("musl-gcc", "musl", &["-fuse-ld=lld"]),
        ("musl-gcc", "musl-no-pie", &["-no-pie"]),
        ("musl-gcc", "musl-static", &["-static"]),
        ("cc", "cet", &["-fuse-ld=lld", "-fcf-protection=full"]),
    ];
    let made = kinds.into_iter().filter_map(|(compiler, name, options)| {
        let program = link_by(compiler, directory, name, options);
        if program.is_none() {
            println!("skipped: {compiler} cannot make {name} here");
        }
        program
    });
    made.collect()
}

#[test]
fn debug_information_of_every_form() {
    let directory = tempfile::tempdir().unwrap();
    for (name, option) in [
        ("compressed", "-gz=zlib"),
        ("split", "-gsplit-dwarf"),
        ("dwarf-4", "-gdwarf-4"),
    ] {
        let Some(program) = by_lld(&directory, name, &[option]) else {
            return;
        };
        if let Some(line) = line_of_answer(&program) {
            assert!(line.contains("sample.c"), "{line}");
        }
        survives(&program);
    }
}

#[test]
fn debug_information_in_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = by_lld(&directory, "linked", &[]) else {
        return;
    };
    let debug = directory.path().join("linked.debug");
    let kept = done(
        "objcopy",
        &["--only-keep-debug", path(&program), path(&debug)],
    );
    if !kept || !done("strip", &["--strip-all", path(&program)]) {
        println!("skipped: no binutils on this machine");
        return;
    }
    let link = format!("--add-gnu-debuglink={}", path(&debug));
    assert!(done("objcopy", &[&link, path(&program)]));
    if let Some(line) = line_of_answer(&program) {
        assert!(line.contains("sample.c"), "{line}");
    }
    survives(&program);
}

#[test]
fn stripped_of_symbols_and_of_section_headers() {
    let directory = tempfile::tempdir().unwrap();
    if let Some(program) = by_lld(&directory, "stripped", &["-s"]) {
        survives(&program);
        let bare = directory.path().join("bare");
        if done(
            "llvm-objcopy",
            &["--strip-sections", path(&program), path(&bare)],
        ) {
            survives(&bare)
        } else {
            println!("skipped: no llvm-objcopy on this machine")
        }
    }
}

#[test]
fn header_tables_at_the_end_as_patchelf_leaves_them() {
    let directory = tempfile::tempdir().unwrap();
    for (name, option) in [("pie", "-pie"), ("no-pie", "-no-pie")] {
        let Some(program) = by_lld(&directory, name, &[option]) else {
            return;
        };
        let rpath = "/a/path/that/is/long/enough/to/need/room/elsewhere".repeat(8);
        let interpreter = tool("patchelf", &["--print-interpreter", path(&program)]);
        let Some(interpreter) = interpreter else {
            return;
        };
        let interpreter = interpreter.trim_end().replace("/lib", "/lib/../lib");
        let set = ["--set-rpath", &rpath, "--set-interpreter", &interpreter];
        tool("patchelf", &[&set[..], &[path(&program)]].concat());
        survives(&program);
    }
}

/// BOLT puts the program headers and its new text after everything else.
#[test]
fn output_of_bolt() {
    // Debian adds the version to its name.
    let names = ["llvm-bolt", "llvm-bolt-22", "llvm-bolt-19", "llvm-bolt-16"];
    let bolt = names.into_iter().find(|name| done(name, &["--version"]));
    let Some(bolt) = bolt else {
        println!("skipped: no llvm-bolt on this machine");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for linker in ["bfd", "lld"] {
        let linker_option = format!("-fuse-ld={linker}");
        let options = [&linker_option, "-Wl,--emit-relocs"];
        let Some(program) = link(&directory, linker, &options) else {
            println!("skipped: cannot link with {linker}");
            continue;
        };
        let new = directory.path().join(format!("{linker}-bolted"));
        let options = [path(&program), "-o", path(&new), "--update-debug-sections"];
        assert!(done(bolt, &options), "llvm-bolt fails on {linker}");
        survives(&new);
    }
}

/// Read-only zeros without file bytes lie between read-only data and text.
#[test]
fn bss_among_read_only_neighbours() {
    let directory = tempfile::tempdir().unwrap();
    let zeros = directory.path().join("zeros.s");
    fs::write(
        &zeros,
        ".section .zeros,\"a\",@nobits\n.globl zeros\nzeros: .skip 100000\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    )
    .unwrap();
    if let Some(program) = by_lld(&directory, "bss", &[path(&zeros)]) {
        survives(&program);
    }
}

/// A shared object whose addresses do not begin at 0, as after prelink.
#[test]
fn prelinked_shared_objects() {
    let directory = tempfile::tempdir().unwrap();
    let main = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/open.c");
    let program = directory.path().join("main");
    assert!(done("cc", &[main, "-o", path(&program), "-ldl"]));
    let loaded = |library: &Path| tool(path(&program), &[path(library)]).unwrap();
    for (name, base) in [("zero", "0x0"), ("prelinked", "0x3000000000")] {
        let at = format!("-Wl,-Ttext-segment={base}");
        let options = ["-shared", "-fPIC", &at];
        let Some(library) = link(&directory, name, &options) else {
            println!("skipped: cannot link a shared object at {base}");
            continue;
        };
        let said = loaded(&library);
        for strategy in ["shift", "merge"] {
            let new = library.with_extension(strategy);
            fix(&library, &new, strategy, "x86-64");
            assert_eq!(loaded(&new), said, "{name} by {strategy}");
        }
    }
    // Loaders align the first address, so no window of this object can be reached.
    let at = "-Wl,-Ttext-segment=0x3000001000";
    if let Some(library) = link(&directory, "odd", &["-shared", "-fPIC", at]) {
        let output = hugetext(&["fix", path(&library), "--dry-run", "--geometry", "x86-64"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stdout);
        assert!(said.contains("the image begins at 0x3000001000"), "{said}");
    }
}

/// lld fills the last page of text with traps. No header names them, and no program reads them.
#[test]
fn traps_behind_the_text_are_no_data_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-fuse-ld=lld", "-Wl,-z,separate-code"];
    let Some(program) = link(&directory, "traps", &options) else {
        println!("skipped: no lld on this machine");
        return;
    };
    survives(&program);
}
