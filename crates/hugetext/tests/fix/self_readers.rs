//! Programs that carry data in their own file. A fix that would move such data is refused. Data
//! that a program finds in memory or by the headers stays where the program looks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::headers::{PT_NOTE, append_load, edit};
use crate::sample::{error_line, fix, hugetext, path, run, text, tool};

/// The content of a payload. Every payload is a C string.
const PAYLOAD: &[u8] = b"a payload\0";

/// A program that looks for payloads. Linked by lld, its text needs a shift. Linked by the default
/// linker, it needs only a new p_align. `None` without lld.
fn program(directory: &TempDir, lld: bool) -> Option<PathBuf> {
    let out = directory.path().join(if lld { "shift" } else { "align" });
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/self_reader.c");
    let linked = Command::new("cc")
        .args(["-o", path(&out), source])
        .args(lld.then_some("-fuse-ld=lld"))
        .output()
        .unwrap();
    if !linked.status.success() {
        println!("skipped: no lld on this machine: {}", text(&linked.stderr));
        return None;
    }
    assert_eq!(
        run(&out),
        "",
        "the program finds a payload that does not exist"
    );
    Some(out)
}

/// The program finds the same payload by `way` after a fix.
fn is_kept(program: &Path, strategy: &str, way: &str) {
    let said = run(program);
    assert!(said.starts_with(&format!("{way}: ")), "{said}");
    let new = program.with_extension("new");
    fix(program, &new, &["--strategy", strategy]);
    assert_eq!(run(&new), said, "{way}, {strategy}");
}

/// Data at the end of the file is found as long as nothing moves. It forbids every fix that would
/// move it.
fn stays_at_the_end(add: impl Fn(&mut Vec<u8>), way: &str) {
    let directory = tempfile::tempdir().unwrap();
    let Some(aligned) = program(&directory, false) else {
        return;
    };
    edit(&aligned, |file, _| add(file));
    is_kept(&aligned, "auto", way);
    let Some(shifted) = program(&directory, true) else {
        return;
    };
    edit(&shifted, |file, _| add(file));
    for strategy in ["shift", "merge"] {
        let arguments = ["fix", path(&shifted), "--strategy", strategy, "--in-place"];
        let line = error_line(&hugetext(&arguments));
        assert!(line.contains("follow the ELF image"), "{line}");
    }
    assert!(run(&shifted).starts_with(way));
}

/// AppImage, type 2: a magic number in the file header, and a squashfs where the ELF file ends.
#[test]
fn an_appimage() {
    let add = |file: &mut Vec<u8>| {
        file[8..11].copy_from_slice(b"AI\x02");
        file.extend_from_slice(b"hsqs");
        file.extend_from_slice(&[b'x'; 5000]);
    };
    stays_at_the_end(add, "end of the ELF file");
}

/// `deno compile` before 2.0 and `bun build --compile` before 1.3.12. The last bytes of the file
/// hold the offset of the data.
#[test]
fn data_found_from_the_end_of_the_file() {
    let add = |file: &mut Vec<u8>| {
        let start = file.len() as u64;
        file.extend_from_slice(PAYLOAD);
        file.extend_from_slice(b"d3n0l4nd");
        file.extend_from_slice(&start.to_le_bytes());
    };
    stays_at_the_end(add, "trailer");
}

/// Writes the offset of the payload to the place where the program reads it.
fn bake(file: &mut [u8], offset: u64) {
    const PLACE: [u8; 8] = 0x8877_6655_4433_2211_u64.to_le_bytes();
    let mut windows = file.windows(8);
    // The first occurrence is in the code, which compares the value with it. The last occurrence
    // is the right one.
    let place = windows.rposition(|window| window == PLACE).unwrap();
    file[place..place + 8].copy_from_slice(&offset.to_le_bytes());
}

/// `fix` refuses every strategy that would move the data. The program still finds the data.
fn forbids_moving(program: &Path, reason: &str) {
    let said = run(program);
    for strategy in ["auto", "shift", "merge"] {
        let arguments = ["fix", path(program), "--strategy", strategy, "--in-place"];
        let line = error_line(&hugetext(&arguments));
        assert!(line.contains(reason), "{line}");
    }
    assert_eq!(run(program), said);
}

/// `pkg`: a payload at the end of the file, whose offset is stored in the program. patchelf then
/// puts its new parts after the payload. So the payload lies in the middle, and no header names
/// it.
#[test]
fn data_at_a_baked_offset_that_patchelf_left_in_the_middle() {
    let directory = tempfile::tempdir().unwrap();
    for lld in [false, true] {
        let Some(program) = program(&directory, lld) else {
            return;
        };
        edit(&program, |file, _| {
            let end = file.len() as u64;
            bake(file, end);
            file.extend_from_slice(PAYLOAD);
            file.extend_from_slice(&[b'x'; 5000]);
        });
        let path_of_libraries = format!("/nowhere/{}", "long/".repeat(200));
        if tool(
            "patchelf",
            &["--set-rpath", &path_of_libraries, path(&program)],
        )
        .is_none()
        {
            return;
        }
        assert!(run(&program).starts_with("baked offset: a payload"));
        if lld {
            forbids_moving(&program, "no header names them")
        } else {
            is_kept(&program, "auto", "baked offset")
        }
    }
}

/// A section at a stored offset. No tool knows the name of the section.
#[test]
fn data_at_a_baked_offset_in_a_section_of_unknown_purpose() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(&directory, true) else {
        return;
    };
    let payload = directory.path().join("payload");
    fs::write(&payload, PAYLOAD).unwrap();
    let section = format!(".my_archive={}", path(&payload));
    if tool("objcopy", &["--add-section", &section, path(&program)]).is_some() {
        let file = fs::read(&program).unwrap();
        let mut windows = file.windows(PAYLOAD.len());
        let offset = windows.rposition(|window| window == PAYLOAD).unwrap();
        edit(&program, |file, _| bake(file, offset as u64));
        assert!(run(&program).starts_with("baked offset: a payload"));
        forbids_moving(&program, "section .my_archive");
    }
}

/// `bun build --compile` since 1.3.12: a PT_LOAD added at the end. The data segment holds its
/// address.
#[test]
fn data_in_a_segment_of_its_own_found_by_address() {
    const PLACE: [u8; 8] = 0x1122_3344_5566_7788_u64.to_le_bytes();
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(&directory, true) else {
        return;
    };
    edit(&program, |file, headers| {
        let load = append_load(file, headers, PAYLOAD);
        let bun = tool("readelf", &["-SW", path(&program)]).unwrap();
        let section = bun.lines().find(|line| line.contains(" .bun ")).unwrap();
        let mut words = section
            .split_whitespace()
            .skip_while(|word| *word != "PROGBITS");
        let offset = usize::from_str_radix(words.nth(2).unwrap(), 16).unwrap();
        assert_eq!(file[offset..offset + 8], PLACE);
        file[offset..offset + 8].copy_from_slice(&load.vaddr.to_le_bytes());
    });
    for strategy in ["shift", "merge"] {
        is_kept(&program, strategy, "address");
    }
}

/// `deno compile` with libsui since 0.11, and single executable applications of Node.js: a note in
/// a PT_LOAD added at the end. The program finds it by its PT_NOTE in memory.
#[test]
fn data_in_a_note_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(&directory, true) else {
        return;
    };
    let mut note = Vec::new();
    for word in [4, PAYLOAD.len() as u32, 1] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(b"SUI\0");
    note.extend_from_slice(PAYLOAD);
    edit(&program, |file, headers| {
        let load = append_load(file, headers, &note);
        let mut headers = headers.iter_mut();
        let named = headers.find(|header| header.p_type == PT_NOTE).unwrap();
        *named = load;
        named.p_type = PT_NOTE;
        named.align = 4;
    });
    for strategy in ["shift", "merge"] {
        is_kept(&program, strategy, "note");
    }
}

/// Racket: a section that is not loaded, with a name that is reserved for the system. The program
/// finds it by its header. (The sections of PyInstaller and Godot have names of their own and are
/// refused.)
#[test]
fn data_in_a_section_found_by_its_header() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(&directory, true) else {
        return;
    };
    let payload = directory.path().join("payload");
    fs::write(&payload, PAYLOAD).unwrap();
    let section = format!(".csboot1={}", path(&payload));
    if tool("objcopy", &["--add-section", &section, path(&program)]).is_some() {
        for strategy in ["shift", "merge"] {
            is_kept(&program, strategy, "section");
        }
    }
}

/// What compilers and build tools add for tools alone. Its readers look for the name.
#[test]
fn sections_that_only_tools_read_may_move() {
    let directory = tempfile::tempdir().unwrap();
    let Some(plain) = program(&directory, true) else {
        return;
    };
    let content = directory.path().join("content");
    fs::write(&content, "of a section").unwrap();
    let with = directory.path().join("with");
    for name in [
        ".dep-v0",
        ".gnu.warning",
        ".pseudo_probe",
        ".pseudo_probe_desc",
        ".stack_sizes",
        "__llvm_covmap",
        "__llvm_covfun",
        ".callgraph",
        ".swift_ast",
        ".nv_debug_info",
    ] {
        let section = format!("{name}={}", path(&content));
        let added = ["--add-section", &section, path(&plain), path(&with)];
        if tool("objcopy", &added).is_none() {
            return;
        }
        let new = directory.path().join("new");
        fix(&with, &new, &["--strategy", "shift"]);
        let dump = |file: &Path| {
            let out = directory.path().join("dumped");
            let option = format!("{name}={}", path(&out));
            tool(
                "objcopy",
                &["--dump-section", &option, path(file), "/dev/null"],
            )
            .unwrap();
            fs::read(out).unwrap()
        };
        assert_eq!(dump(&new), b"of a section", "{name}");
    }
}

/// What the command says before it writes is what it does.
#[test]
fn a_dry_run_and_a_check_refuse_what_a_fix_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let Some(plain) = program(&directory, true) else {
        return;
    };
    let content = directory.path().join("content");
    fs::write(&content, PAYLOAD).unwrap();
    let section = format!(".archive={}", path(&content));
    if tool("objcopy", &["--add-section", &section, path(&plain)]).is_none() {
        return;
    }
    let lines = ["--dry-run", "--in-place"].map(|target| {
        let strategy = ["--strategy", "shift"];
        error_line(&hugetext(
            &[&["fix", path(&plain), target][..], &strategy].concat(),
        ))
    });
    assert_eq!(lines[0], lines[1]);
    let checked = text(&hugetext(&["check", "--verbose", path(&plain)]).stdout);
    assert!(checked.contains("section .archive"), "{checked}");
    assert!(!checked.contains("  fix: shift"), "{checked}");
    let checked = text(&hugetext(&["check", path(&plain)]).stdout);
    assert!(checked.contains("no fix: section .archive"), "{checked}");
}
