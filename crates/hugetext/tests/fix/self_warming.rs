//! `fix --self-warming`: loaders that ask for huge folios ask for all of the text, the process has
//! no further mappings, and other tools still work.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::sample::{fix, hugetext, json, link, path, run, start, text, tool};

/// The sample by the compiler's default linker, with room for a program header. `None` if the linker
/// does not know the options.
pub(crate) fn with_room(directory: &TempDir, options: &[&str]) -> Option<PathBuf> {
    // GNU ld's layout, where text shares no page of the file with read-only data.
    let apart = [&["-fuse-ld=bfd", "-Wl,-z,separate-code"], options].concat();
    let program = link(directory, "old", &apart).or_else(|| link(directory, "old", options))?;
    // Elsewhere one property of the program has two headers, and one of them gives its place.
    if cfg!(target_arch = "aarch64") {
        leave_a_header_out(&program);
    }
    Some(program)
}

/// The sample, and the same program that warms itself.
pub(crate) fn warmed(directory: &TempDir) -> (PathBuf, PathBuf) {
    let old = with_room(directory, &[]).unwrap();
    let new = directory.path().join("new");
    fix(&old, &new, &["--self-warming"]);
    (old, new)
}

/// What glibc.elf.thp makes of a file on a cold start.
pub(crate) fn asked(file: &Path) -> Value {
    let report = json(&["check", "--geometry", "x86-64", path(file)]);
    let found = report["files"][0]["self_warming"].as_array().unwrap();
    let glibc = found.iter().find(|one| one["asker"] == "glibc-tunable");
    glibc.unwrap()["now"].clone()
}

pub(crate) fn all_huge(file: &Path) -> bool {
    let found = asked(file);
    found["windows"].as_u64() > Some(0) && found["huge"] == found["windows"]
}

#[test]
fn every_window_is_asked_for_after_the_fix_and_none_before() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = warmed(&directory);
    assert_eq!(asked(&old)["asked"], 0);
    assert!(all_huge(&new), "{}", asked(&new));
    assert_eq!(run(&old), run(&new));
    let said = text(&hugetext(&["check", path(&new)]).stdout);
    assert!(
        said.contains("warms itself: at most 1 of 1 window with glibc.elf.thp"),
        "{said}"
    );
    let said = text(&hugetext(&["check", path(&old)]).stdout);
    assert!(
        said.contains("at most 1 after fix --self-warming"),
        "{said}"
    );
}

/// Half of the readahead, around a fault on data, reaches into the windows.
#[test]
fn a_long_readahead_of_the_device_is_told() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (old, _) = warmed(&directory);
    let device = tool("stat", &["-c", "%Hd:%Ld", path(&old)]).unwrap();
    let block = format!("/sys/dev/block/{}", device.trim());
    let queues = ["queue", "../queue"].map(|queue| format!("{block}/{queue}/read_ahead_kb"));
    let Some(said) = queues
        .iter()
        .find_map(|queue| fs::read_to_string(queue).ok())
    else {
        println!("skipped: the device of this directory tells no readahead");
        return;
    };
    let is_long = said.trim().parse::<u64>().unwrap() >= 2048;
    // A shift could keep the text clear of it.
    let near = directory.path().join("near");
    let fix = [
        "fix",
        "--self-warming",
        "--strategy",
        "align",
        "-o",
        path(&near),
    ];
    for command in [&fix[..], &["check", path(&near)]] {
        let file = command.starts_with(&["fix"]).then_some(path(&old));
        let arguments: Vec<&str> = command.iter().copied().chain(file).collect();
        let said = text(&hugetext(&arguments).stdout);
        assert_eq!(said.contains("around a fault"), is_long, "{said}");
    }
    let Ok(in_memory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let copy = in_memory.path().join("copy");
    fs::copy(&old, &copy).unwrap();
    let said = text(&hugetext(&["check", path(&copy)]).stdout);
    assert!(!said.contains("around a fault"), "{said}");
}

#[test]
fn a_check_names_the_windows_and_says_why_they_are_not_huge() {
    let directory = tempfile::tempdir().unwrap();
    let (old, _) = warmed(&directory);
    let runs = asked(&old)["runs"].clone();
    assert_eq!(runs[0]["outcome"], "not-asked", "{runs}");
    let (start, end) = (&runs[0]["addresses"]["start"], &runs[0]["addresses"]["end"]);
    let [start, end] = [start, end].map(|address| address.as_u64().unwrap());
    let said = text(&hugetext(&["check", "--verbose", path(&old)]).stdout);
    let line = format!("not huge: {start:#x} to {end:#x}, not asked for");
    assert!(said.contains(&line), "{said}");
}

/// Readers of symbols go by the section, and would find a part of them.
#[test]
#[cfg(all(target_endian = "little", target_pointer_width = "64"))]
fn no_cut_divides_a_string_table() {
    let directory = tempfile::tempdir().unwrap();
    let names = directory.path().join("names.s");
    // The names fill the first windows, behind the ELF header and in the mapping of the text.
    let mut source: String = (0..30_000)
        .map(|index| format!(".globl {:_<80}{index}\n{:_<80}{index}:\n", "name", "name"))
        .collect();
    source += ".fill 0x800000, 1, 0\n.section .note.GNU-stack, \"\", %progbits\n";
    fs::write(&names, source).unwrap();
    let layout = ["-shared", "-fPIC", "-Wl,-z,noseparate-code"];
    let Some(old) = link(&directory, "old", &[&layout[..], &[path(&names)]].concat()) else {
        println!("skipped: no linker that puts text behind the symbols");
        return;
    };
    leave_a_header_out(&old);
    let new = directory.path().join("new");
    fix(&old, &new, &["--self-warming"]);
    let found = asked(&new);
    assert!(found["huge"].as_u64() > Some(0), "{found}");
    let symbols = |file: &Path| tool("nm", &["-D", path(file)]);
    assert_eq!(symbols(&old), symbols(&new));
}

#[test]
fn it_is_left_alone_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let (_, new) = warmed(&directory);
    for options in [&["--self-warming"][..], &[]] {
        let again = json(&[&["fix", path(&new), "--dry-run"], options].concat());
        assert_eq!(again["plan"]["done_already"], true, "{again}");
    }
}

/// The mappings of a file in a process that runs it.
fn mappings(file: &Path) -> usize {
    let mut child = std::process::Command::new(file)
        .args(["spin", "loaded"])
        .stdout(std::process::Stdio::piped())
        .env_remove("GLIBC_TUNABLES")
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "loaded\n");
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    maps.lines()
        .filter(|line| line.ends_with(path(file)))
        .count()
}

#[test]
fn the_kernel_joins_what_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = warmed(&directory);
    // What start() gives would be waited for until it ends, so processes are made here; it waits
    // until the file is no longer open for writing.
    start(&new).wait_with_output().unwrap();
    assert_eq!(mappings(&old), mappings(&new));
}

#[test]
fn the_loader_finds_the_same_libraries() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = warmed(&directory);
    let libraries = |file: &Path| {
        let listed = tool("ldd", &[path(file)])?;
        let without_address = listed
            .lines()
            .map(|line| line.split(" (0x").next().unwrap());
        Some(without_address.map(str::to_owned).collect::<Vec<_>>())
    };
    let found = libraries(&old);
    assert!(found.as_ref().is_none_or(|found| found.len() > 1));
    assert_eq!(found, libraries(&new));
}

/// The loader places by PT_PHDR whatever is executed, whether or not the file is a library too.
#[test]
fn a_library_that_can_be_executed_still_can() {
    let directory = tempfile::tempdir().unwrap();
    let Some(interpreter) = tool("readelf", &["-lW", "/bin/sh"]).and_then(|said| {
        let (_, name) = said.split_once("interpreter: ")?;
        Some(name.split_once(']')?.0.to_owned())
    }) else {
        println!("skipped: nothing tells the loader of this machine");
        return;
    };
    let interpreter = format!("-DINTERPRETER=\"{interpreter}\"");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/runnable_library.c");
    for linker in ["bfd", "gold", "lld", "mold"] {
        let (old, new) = (directory.path().join(linker), directory.path().join("new"));
        let linker = format!("-fuse-ld={linker}");
        let linked = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,lib.so", "-Wl,-e,entry"])
            .args([&linker, &interpreter, "-o", path(&old), source])
            .output();
        if !linked.is_ok_and(|linked| linked.status.success()) {
            println!("skipped: {linker} links no such library here");
            continue;
        }
        // mold gives it no PT_PHDR, so that it crashes.
        let output = start(&old).wait_with_output().unwrap();
        if text(&output.stdout) != "executed: 42\n" {
            println!("skipped: {linker} makes a library that cannot be executed");
            continue;
        }
        for options in [&["--self-warming"][..], &["--strategy", "merge"], &[]] {
            let target = ["fix", path(&old), "-o", path(&new)];
            let output = hugetext(&[&target[..], options].concat());
            // The cut may find no room.
            if output.status.success() {
                assert_eq!(run(&new), "executed: 42\n", "{linker} {options:?}");
            }
        }
    }
}

#[test]
fn two_segments_of_data_become_one_for_a_header() {
    let directory = tempfile::tempdir().unwrap();
    // lld leaves no header out that could give its place, and no gap behind the table.
    let options = ["-fuse-ld=lld", "-pie", "-Wl,-z,separate-code"];
    let Some(old) = link(&directory, "old", &options) else {
        println!("skipped: no lld on this machine");
        return;
    };
    let new = directory.path().join("new");
    let output = hugetext(&["fix", path(&old), "-o", path(&new), "--self-warming"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("become one, and the header"), "{said}");
    assert!(all_huge(&new), "{said}");
    assert_eq!(run(&old), run(&new));
    // A shift is more than this permits.
    let options = ["--self-warming", "--strategy", "align"];
    let refused = directory.path().join("refused");
    let mut arguments = vec!["fix", path(&old), "-o", path(&refused)];
    arguments.extend(options);
    assert!(!hugetext(&arguments).status.success() && !refused.exists());
}

/// Where the entries of the program header table begin, in a file of 64 bits.
fn header_entries(bytes: &[u8]) -> impl Iterator<Item = usize> + use<> {
    (64..).step_by(56).take(usize::from(bytes[56]))
}

/// Makes PT_GNU_PROPERTY unknown, so that the PT_NOTE of the same bytes cannot be left out.
fn keep_every_header(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    for at in header_entries(&bytes) {
        if bytes[at..at + 4] == 0x6474_e553_u32.to_le_bytes() {
            bytes[at..at + 4].copy_from_slice(&0x6000_0001_u32.to_le_bytes());
        }
    }
    fs::write(file, bytes).unwrap();
}

/// Leaves PT_GNU_EH_FRAME out, which a program without exceptions does not need. Zeros take the place
/// of the last entry, behind the shorter table.
fn leave_a_header_out(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let mut entries = header_entries(&bytes);
    let is_frame = |at: &usize| bytes[*at..at + 4] == 0x6474_e550_u32.to_le_bytes();
    let at = entries.find(is_frame).unwrap();
    let end = 64 + 56 * usize::from(bytes[56]);
    bytes.copy_within(at + 56..end, at);
    bytes[end - 56..end].fill(0);
    bytes[56] -= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
#[cfg(all(target_endian = "little", target_pointer_width = "64"))]
fn a_header_goes_into_zeros_behind_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let new = directory.path().join("new");
    let bfd = ["-fuse-ld=bfd", "-pie", "-Wl,-z,separate-code"];
    let Some(old) = link(&directory, "old", &bfd) else {
        println!("skipped: no GNU ld on this machine");
        return;
    };
    keep_every_header(&old);
    let options = ["fix", path(&old), "-o", path(&new), "--self-warming"];
    let said = text(&hugetext(&options).stdout);
    assert!(said.contains("no room for a program header"), "{said}");
    let said = text(&hugetext(&["check", path(&old)]).stdout);
    assert!(
        said.contains("no cut: no room for a program header"),
        "{said}"
    );
    leave_a_header_out(&old);
    let said = text(&hugetext(&options).stdout);
    assert!(new.exists(), "{said}");
    assert!(all_huge(&new), "{said}");
    assert_eq!(run(&old), run(&new));
}

#[test]
fn linkers_make_such_files_from_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let page = "-Wl,-z,max-page-size=2097152";
    let apart = "-Wl,-z,separate-code";
    for linker in ["bfd", "lld", "mold"] {
        let option = format!("-fuse-ld={linker}");
        match link(&directory, linker, &[&option, page, apart]) {
            Some(file) => assert!(all_huge(&file), "{linker}: {}", asked(&file)),
            None => println!("skipped: no {linker} on this machine"),
        }
    }
    // wild has no separate-code, so that no text begins at a window.
    if let Some(file) = link_by_wild(&directory, &[page]) {
        let found = asked(&file);
        println!(
            "wild: {} of {} windows asked for",
            found["asked"], found["windows"]
        );
        assert!(found["windows"].as_u64() > Some(0), "{found}");
        run(&file);
        let new = directory.path().join("wild that warms itself");
        let options = ["fix", path(&file), "-o", path(&new), "--self-warming"];
        let said = text(&hugetext(&options).stdout);
        let refused = said.contains("no room for a program header");
        assert!(refused || all_huge(&new), "{said}");
    }
    // gold puts the ELF header into the mapping of the text.
    if let Some(file) = link(&directory, "gold", &["-fuse-ld=gold", page]) {
        let found = asked(&file);
        assert_eq!(found["spoiled"], 1, "{found}");
        assert!(found["huge"].as_u64() > Some(0), "{found}");
    }
}

/// The sample, linked by wild. Compilers do not know its name, so it takes that of their linker.
fn link_by_wild(directory: &TempDir, options: &[&str]) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths).map(|place| place.join("wild"));
    let Some(wild) = found.into_iter().find(|wild| wild.is_file()) else {
        println!("skipped: no wild on this machine");
        return None;
    };
    let named = directory.path().join("as ld");
    fs::create_dir(&named).unwrap();
    std::os::unix::fs::symlink(wild, named.join("ld")).unwrap();
    link(
        directory,
        "wild",
        &[&["-B", path(&named)], options].concat(),
    )
}
