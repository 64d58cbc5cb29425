//! Tools that read, or rewrite, files that warm themselves.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::sample::{fix, hugetext, path, run, start, text, tool, worked};
use crate::self_warming::{all_huge, asked, warmed, with_room};

/// GNU strip and objcopy know no PT_LOAD without a section, and leave one of no length.
#[test]
fn tools_keep_the_program_and_most_keep_the_request() {
    let directory = tempfile::tempdir().unwrap();
    let (_, new) = warmed(&directory);
    let said = run(&new);
    let tools: [(&str, &[&str]); 6] = [
        ("strip", &[]),
        ("strip", &["-g"]),
        ("objcopy", &["--strip-debug"]),
        ("eu-strip", &[]),
        ("llvm-objcopy", &["--strip-all"]),
        (
            "patchelf",
            &["--set-rpath", "/a/rather/long/path/that/needs/room"],
        ),
    ];
    for (name, arguments) in tools {
        let Some(worked) = worked(&directory, &new, name, arguments) else {
            continue;
        };
        assert_eq!(run(&worked), said, "{name} {arguments:?}");
        let keeps = !["strip", "objcopy"].contains(&name);
        assert!(
            all_huge(&worked) || !keeps,
            "{name} {arguments:?} undid the layout"
        );
    }
    let lint = std::process::Command::new("eu-elflint")
        .args(["--gnu-ld", path(&new)])
        .output();
    if let Ok(output) = lint {
        let said = text(&output.stdout);
        let expected = "is executable but contains no executable sections";
        let is_known = |line: &str| line.ends_with(expected) || line == "No errors";
        assert!(said.lines().all(is_known), "{said}");
    }
}

#[test]
fn debuggers_find_lines_in_both_parts_of_the_text() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = warmed(&directory);
    // The separate debug information is that of the unfixed file.
    let debug = directory.path().join("old.debug");
    if tool("objcopy", &["--only-keep-debug", path(&old), path(&debug)]).is_none() {
        return;
    }
    let link = format!("--add-gnu-debuglink={}", path(&debug));
    tool("objcopy", &["--strip-all", &link, path(&old)]).unwrap();
    fix(&old, &new, &["--self-warming"]);
    let ask = "info line answer";
    let Some(found) = tool("gdb", &["-batch", "-nx", "-ex", ask, path(&new)]) else {
        return;
    };
    assert!(found.contains("sample.c"), "{found}");
}

/// A distribution installs debug information below the build id. It was split off before the fix.
#[test]
fn debuggers_find_information_by_build_id() {
    let directory = tempfile::tempdir().unwrap();
    let Some(old) = with_room(&directory, &["-Wl,--build-id=0x0123456789"]) else {
        println!("skipped: the linker of this machine sets no build id");
        return;
    };
    let installed = directory.path().join(".build-id/01");
    fs::create_dir_all(&installed).unwrap();
    let debug = installed.join("23456789.debug");
    if tool("objcopy", &["--only-keep-debug", path(&old), path(&debug)]).is_none() {
        return;
    }
    tool("objcopy", &["--strip-all", path(&old)]).unwrap();
    let new = directory.path().join("new");
    fix(&old, &new, &["--self-warming"]);
    let from = format!("set debug-file-directory {}", path(directory.path()));
    let asked = ["-iex", &from, "-ex", "info line answer", path(&new)];
    let Some(found) = tool("gdb", &[&["-batch", "-nx"][..], &asked].concat()) else {
        return;
    };
    assert!(found.contains("sample.c"), "{found}");
}

/// A program with functions before and in the second window of its text; each writes behind an allocation.
fn with_functions_apart(directory: &TempDir, options: &[&str]) -> Option<PathBuf> {
    let source = directory.path().join("both.c");
    let skipped = "__asm__(\".pushsection .text.mm\\n.skip 6000000\\n.popsection\");\n";
    let function = |name: &str, section: &str| {
        format!(
            "__attribute__((noinline, section(\"{section}\"))) void {name}(void)\n\
             {{ char *volatile at = malloc(10); at[10] = 1; }}\n"
        )
    };
    let early = function("early_function", ".text.aa");
    let late = function("late_function", ".text.zz");
    let main = "int main(void) { early_function(); late_function(); return 0; }\n";
    fs::write(
        &source,
        format!("#include <stdlib.h>\n{early}{skipped}{late}{main}"),
    )
    .unwrap();
    let old = directory.path().join("both");
    let apart = ["-g", "-rdynamic", "-fuse-ld=bfd", "-Wl,-z,separate-code"];
    let named = ["-o", path(&old), path(&source)];
    tool("cc", &[&apart[..], options, &named].concat())?;
    Some(old)
}

/// What tools say of a program and of its copy that warms itself: Valgrind, and for exported functions without a
/// symbol table addr2line, objdump and gdb. In memory there is no readahead, so the text is not cut in two.
#[test]
fn tools_read_what_warms_itself_as_before() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no memory filesystem at /dev/shm");
        return;
    };
    let old = with_functions_apart(&directory, &[]).unwrap();
    let new = directory.path().join("new");
    let said = text(&hugetext(&["fix", path(&old), "-o", path(&new), "--self-warming"]).stdout);
    if !new.exists() {
        println!("skipped: {said}");
        return;
    }
    assert!(said.contains("repeats the windows of its text"), "{said}");
    assert!(said.contains("gVisor"), "{said}");
    start(&new).wait_with_output().unwrap();
    let frames = |file: &Path| {
        let valgrind = std::process::Command::new("valgrind").arg(file).output();
        let said = text(&valgrind.ok()?.stderr);
        let frames = said.lines().filter(|line| line.contains("_function ("));
        let frames = frames.filter_map(|line| Some(line.split_once(": ")?.1.to_owned()));
        Some(frames.collect::<Vec<_>>())
    };
    let found = frames(&old);
    assert!(
        found.as_ref().is_none_or(|found| found.len() == 4),
        "{found:?}"
    );
    assert_eq!(frames(&new), found);
    let symbols = tool("nm", &["-n", path(&old)]).unwrap_or_default();
    let late = symbols
        .lines()
        .find(|line| line.ends_with(" late_function"));
    let Some(late) = late.and_then(|line| line.split(' ').next()) else {
        return;
    };
    for file in [&old, &new] {
        tool("eu-strip", &[path(file)]);
    }
    let ask = |file: &Path| {
        let symbol = ["-batch", "-nx", "-ex", "info symbol late_function"];
        let code = tool("objdump", &["-d", "--no-show-raw-insn", path(file)]);
        let late_code =
            code.and_then(|said| Some(said.split_once("<late_function>:")?.1.to_owned()));
        [
            tool("addr2line", &["-fe", path(file), late]),
            tool("gdb", &[&symbol[..], &[path(file)]].concat()),
            late_code,
        ]
    };
    assert_eq!(ask(&new), ask(&old));
}

/// BOLT goes by relocations to the section, which stays whole: also on a device with a long readahead, where other text is
/// cut in two.
#[test]
fn bolt_reads_what_warms_itself() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(in_memory) => ensure_bolt_reads(&in_memory),
        Err(error) => println!("skipped: no memory filesystem at /dev/shm: {error}"),
    }
    ensure_bolt_reads(&tempfile::tempdir().unwrap());
}

fn ensure_bolt_reads(directory: &TempDir) {
    let Some(old) = with_room(directory, &["-Wl,-q"]) else {
        println!("skipped: the linker of this machine keeps no relocations");
        return;
    };
    let new = directory.path().join("new");
    fix(&old, &new, &["--self-warming"]);
    let sections = |file: &Path| {
        let listed = tool("readelf", &["-SW", path(file)]).unwrap();
        listed.matches(" AX ").count()
    };
    assert_eq!(sections(&new), sections(&old), "its text stays whole");
    if directory.path().starts_with("/dev/shm") {
        assert!(all_huge(&new), "{}", asked(&new));
    }
    let bolted = directory.path().join("bolted");
    for bolt in ["llvm-bolt-16", "llvm-bolt-19"] {
        let optimize = |file: &Path| tool(bolt, &[path(file), "-o", path(&bolted)]);
        if optimize(&old).is_some() {
            assert!(optimize(&new).is_some(), "{bolt}");
            assert_eq!(run(&bolted), run(&old), "{bolt}");
        }
    }
}

#[test]
fn profilers_name_functions_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_, new) = warmed(&directory);
    start(&new).wait_with_output().unwrap();
    let data = directory.path().join("perf.data");
    let perf = |arguments: &[&str]| {
        let mut perf = std::process::Command::new("perf");
        perf.env("HOME", directory.path()).args(arguments).output()
    };
    // The event is a clock of the kernel, because virtual machines have no counters.
    let record = ["record", "-q", "-e", "cpu-clock:u", "-o", path(&data)];
    let recorded = perf(&[&record[..], &[path(&new), "spin"]].concat());
    if !recorded.is_ok_and(|output| output.status.success()) {
        println!("skipped: no perf on this machine, or it may not measure");
        return;
    }
    let report = ["report", "-q", "--stdio", "-s", "sym", "-i", path(&data)];
    let said = text(&perf(&report).unwrap().stdout);
    let busiest = said.lines().find(|line| !line.is_empty()).unwrap();
    assert!(busiest.trim_end().ends_with("[.] spin"), "{said}");
}
