//! `hugetext promote` as a user runs it.

#![allow(clippy::unwrap_used)]

mod groups;
mod refused;
#[path = "../small_folios/mod.rs"]
mod small_folios;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::{Child, Command, Output, Stdio};

use hugetext_host::{Namespace, is_root};
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use small_folios::make_small;
use tempfile::TempDir;

/// Gives this test a mount namespace of its own, so that the copies of promotion go with it.
fn keep_mounts_in() {
    if !is_root() || Namespace::Mount.enter().is_err() {
        return;
    }
    let kind = Some("tmpfs");
    mount(kind, "/run", kind, MsFlags::empty(), Some("mode=0755")).unwrap();
}

/// A process that waits until it is dropped.
struct Sleeper {
    child: Child,
    /// Where its program lies, if that is its own.
    _directory: Option<TempDir>,
}

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper::of(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn of(child: Child) -> Sleeper {
        Sleeper {
            child,
            _directory: None,
        }
    }

    /// Starts a copy of the compiler proper, which has windows of text and waits for more of its input.
    /// `None`, with the reason printed, if this machine has no compiler.
    fn compiler() -> Option<Sleeper> {
        Sleeper::compiler_by(&[])
    }

    /// As [`Sleeper::compiler`], but another command starts the compiler.
    fn compiler_by(by: &[&str]) -> Option<Sleeper> {
        keep_mounts_in();
        let asked = Command::new("cc").arg("-print-prog-name=cc1").output();
        let name = asked.map(|output| String::from_utf8(output.stdout).unwrap());
        let Some(compiler) = name.ok().filter(|name| name.starts_with('/')) else {
            println!("skipped: no C compiler");
            return None;
        };
        // Whatever else runs on this machine may have made the compiler's text huge.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = directory.path().join("cc1");
        fs::copy(compiler.trim_end(), &copy).unwrap();
        make_small(&copy);
        let line = [by, &[copy.to_str().unwrap()]].concat();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]);
        command.args(["-quiet", "-E", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut compiler = Sleeper {
            child: command.spawn().unwrap(),
            _directory: Some(directory),
        };
        // The input is larger than a pipe. Once it is written, the program is loaded and reads.
        let input = compiler.child.stdin.as_mut().unwrap();
        input.write_all(&[b'\n'; 1 << 18]).unwrap();
        Some(compiler)
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn promote(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .arg("promote")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_program_without_a_window_of_text_is_a_no() {
    let sleeper = Sleeper::start();
    let output = promote(&["--json", &sleeper.pid()]);
    if stderr(&output).contains("transparent huge pages") {
        println!("skipped: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 3);
    let process = &report["processes"][0];
    assert_eq!(process["name"], "sleep");
    assert_eq!(process["pauses"].as_array().unwrap().len(), 0);
    let left = process["left"].as_array().unwrap();
    assert!(left.iter().all(|left| left["reason"].is_string()));
    assert!(!left.is_empty());
}

/// libdwfl takes it for the start of the file.
#[test]
fn text_that_stays_behind_a_copy_is_named_for_debuggers() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let pid = compiler.pid();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let text = maps.lines().find(|line| line.contains("r-xp")).unwrap();
    let (start, _) = text.split_once('-').unwrap();
    let changed = u64::from_str_radix(start, 16).unwrap() + (8 << 20);
    let mut options = File::options();
    let memory = options.read(true).write(true);
    let memory = memory.open(format!("/proc/{pid}/mem")).unwrap();
    let mut byte = [0];
    memory.read_exact_at(&mut byte, changed).unwrap();
    if let Err(error) = memory.write_all_at(&byte, changed) {
        println!("skipped: text cannot be written: {error}");
        return;
    }
    let output = promote(&["--json", &pid]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let process = &report["processes"][0];
    if process["remapped"].as_array().is_none_or(Vec::is_empty) {
        println!("skipped: nothing was copied: {}", stderr(&output));
        return;
    }
    let window = changed & !((2 << 20) - 1);
    let notes = process["notes"].to_string();
    assert!(notes.contains(&format!("from {window:#x} to ")), "{report}");
    assert!(notes.contains("gdb -p"), "{notes}");
}

/// Only root can open a copy that a process maps (proc(5), map_files).
#[test]
fn an_owner_who_is_not_root_maps_back_too() {
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    // If the tests run as a plain user, no change of user is needed.
    let nobody = match std::fs::metadata("/proc/self").unwrap().uid() {
        0 => &nobody[..],
        _ => &[],
    };
    let as_nobody = |arguments: &[&str]| {
        let line = [
            nobody,
            &[env!("CARGO_BIN_EXE_hugetext"), "promote"],
            arguments,
        ]
        .concat();
        Command::new(line[0]).args(&line[1..]).output().unwrap()
    };
    let Some(compiler) = Sleeper::compiler_by(nobody) else {
        return;
    };
    let promoted = as_nobody(&["--backend", "remap", &compiler.pid()]);
    if promoted.status.code() != Some(0) {
        println!(
            "skipped: {}{}",
            stderr(&promoted),
            String::from_utf8_lossy(&promoted.stdout)
        );
        return;
    }
    let promised = as_nobody(&["--json", "--dry-run", "--revert", &compiler.pid()]);
    let reverted = as_nobody(&["--json", "--revert", &compiler.pid()]);
    assert_eq!(reverted.status.code(), Some(0), "{}", stderr(&reverted));
    let remapped = |output: &Output| {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["processes"][0]["remapped"].clone()
    };
    assert!(!remapped(&reverted).as_array().unwrap().is_empty());
    let bytes = |spans: Value| -> u64 {
        let len = |span: &Value| span["end"].as_u64().unwrap() - span["start"].as_u64().unwrap();
        spans.as_array().unwrap().iter().map(len).sum()
    };
    assert!(bytes(remapped(&promised)) >= bytes(remapped(&reverted)));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", compiler.pid())).unwrap();
    assert!(!maps.contains("hugetext."), "{maps}");
}

/// Nobody runs `promote` again.
#[test]
fn the_memory_of_a_copy_goes_with_its_last_process() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let promoted = promote(&["--backend", "remap", &compiler.pid()]);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", compiler.pid())).unwrap();
    let copy = maps.lines().find_map(|line| {
        let path = line.split_whitespace().last()?;
        path.starts_with("/run/hugetext/promoted/")
            .then(|| path.to_owned())
    });
    let Some(copy) = copy else {
        let said = String::from_utf8_lossy(&promoted.stdout).into_owned();
        println!("skipped: no copy with a path: {said}{}", stderr(&promoted));
        return;
    };
    let blocks = || std::fs::metadata(&copy).map_or(0, |copy| copy.blocks());
    let full = blocks();
    drop(compiler);
    let mut turns = (0..40_000).map(|_| Command::new("true").status().unwrap());
    assert!(turns.any(|_| blocks() < full), "{copy} keeps {full} blocks");
}

#[test]
fn two_at_once_wait_for_each_other() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let pid = compiler.pid();
    for _ in 0..5 {
        for arguments in [&["--backend", "remap"][..], &["--revert"]] {
            let start = || {
                let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext"));
                command.arg("promote").args(arguments).arg(&pid);
                command.stdout(Stdio::null()).stderr(Stdio::piped());
                command.spawn().unwrap()
            };
            for child in [start(), start()] {
                let said = stderr(&child.wait_with_output().unwrap());
                assert!(!said.contains("not permitted"), "{said}");
                assert!(!said.contains("traced by"), "{said}");
            }
        }
    }
}

#[test]
fn a_dry_run_tells_what_is_done_then() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let asked = |arguments: &[&str]| {
        let pid = compiler.pid();
        let output = promote(&[&["--json", &pid], arguments].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let process = report["processes"].get(0).cloned();
        if process.is_none() {
            println!("skipped: {}{report}", stderr(&output));
        }
        process
    };
    let (Some(dry), Some(done)) = (asked(&["--dry-run"]), asked(&[])) else {
        return;
    };
    if dry["collapsed"] != done["collapsed"] || done["remapped"].as_array().unwrap().is_empty() {
        println!("skipped: the kernel provides no huge pages at the moment, {done}");
        return;
    }
    for figure in ["remapped", "copied", "shared"] {
        assert_eq!(dry[figure], done[figure], "{figure}");
    }
    let again = asked(&[]).unwrap();
    let left = again["left"].as_array().unwrap();
    let promoted = |left: &&Value| left["reason"] == "already promoted";
    assert!(left.iter().any(|left| promoted(&left)), "{again}");
}

/// The heap of sbcl is a file that is mapped to be written and executed.
#[test]
fn a_heap_that_may_be_executed_is_no_text() {
    let directory = tempfile::tempdir().unwrap();
    let [heap, source, program] =
        ["heap", "heap.c", "program"].map(|name| directory.path().join(name));
    std::fs::write(&heap, vec![0; 16 << 20]).unwrap();
    let text = "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\n\
                int main(int argc, char **argv) {\n\
                int heap = open(argv[argc - 1], O_RDONLY), all = PROT_READ | PROT_WRITE | PROT_EXEC;\n\
                if (mmap(0, 16 << 20, all, MAP_PRIVATE, heap, 0) == MAP_FAILED) return 1;\n\
                puts(\"ready\"); fflush(stdout); return getchar() == 0; }\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .arg("-o")
        .args([&program, &source])
        .status();
    if !built.is_ok_and(|built| built.success()) {
        println!("skipped: no C compiler");
        return;
    }
    let mut command = Command::new(&program);
    command
        .arg(&heap)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = Sleeper::of(command.spawn().unwrap());
    let mut ready = [0; 6];
    process
        .child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let output = promote(&["--json", "--dry-run", &process.pid()]);
    if stderr(&output).contains("transparent huge pages") {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mapped = report["processes"][0]["before"]["mapped"].as_u64().unwrap();
    assert!((1..8 << 20).contains(&mapped), "{report}");
}

/// One mapping has one set of rights, and the kernel collapses the pages of one mapping.
#[test]
fn data_is_merged_by_copies_only() {
    let output = promote(&["--merge", "--backend", "collapse", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--backend remap"),
        "{}",
        stderr(&output)
    );
    let output = promote(&["--merge", "--revert", "1"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_cannot_be_collapsed_is_said_once_and_with_the_remedy() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let output = promote(&["--dry-run", "--backend", "collapse", &compiler.pid()]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    if !text.contains("can be collapsed") {
        println!("skipped: {text}{}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    // The reason, and what it means.
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(text.matches("--backend remap").count(), 1, "{text}");
    let next = format!("Next: hugetext promote --backend remap {}", compiler.pid());
    assert!(text.trim_end().ends_with(&next), "{text}");
}

/// A program that has eight MiB of executable memory without a file, as a JIT compiler.
const GENERATES: &str = "
import mmap, sys
rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
text = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=rights)
for at in range(0, 6 << 20, 4096):
    text[at] = 0xc3
sys.stdout.write('ready\\n')
sys.stdout.flush()
sys.stdin.read()
right = all(text[at] == 0xc3 for at in range(0, 6 << 20, 4096))
sys.stdout.write('right\\n' if right else 'wrong\\n')
";

#[test]
fn generated_text_is_collapsed_without_a_stop() {
    use std::io::{BufRead, BufReader};
    let mut command = Command::new("python3");
    command.args(["-c", GENERATES]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(child) = command.spawn() else {
        println!("skipped: no python3");
        return;
    };
    let mut child = Sleeper::of(child);
    let mut said = BufReader::new(child.child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let output = promote(&["--jit", "--json", &child.pid()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Some(process) = report["processes"].get(0) else {
        println!("skipped: {}{report}", stderr(&output));
        return;
    };
    assert!(process["pauses"].as_array().unwrap().is_empty());
    let generated = &process["generated"][0];
    let figure = |name: &str| generated[name].as_u64().unwrap();
    let windows = figure("windows");
    assert!(windows >= 4 << 20, "{process}");
    if figure("after") == 0 {
        println!("skipped: the kernel gives no huge pages, {generated}");
        return;
    }
    assert!(figure("after") >= 4 << 20, "{generated}");
    assert!(
        figure("after") + figure("unbacked") <= windows,
        "{generated}"
    );
    assert_eq!(output.status.code(), Some(0));
    drop(child.child.stdin.take());
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "right\n");
}

/// A bound that no stop can keep is a no, and the process stays as it was.
#[test]
fn a_pause_that_would_be_too_long_is_a_no() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let output = promote(&["--backend", "remap", "--max-pause", "0", &compiler.pid()]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    if !text.contains("stood still") {
        println!("skipped: {text}{}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", compiler.pid())).unwrap();
    assert!(!maps.contains("hugetext."), "{maps}");
}

#[test]
fn a_promoted_copy_is_called_one_and_in_reach_itself() {
    let Some(compiler) = Sleeper::compiler() else {
        return;
    };
    let pid = compiler.pid();
    let output = promote(&["--backend", "remap", &pid]);
    if !output.status.success() {
        println!("skipped: {}", stderr(&output));
        return;
    }
    assert!(stdout(&["stat", &pid]).contains("cc1 (promoted)"));
    let check: Value = serde_json::from_str(&stdout(&["check", "--json", "--pid", &pid])).unwrap();
    let mappings = check["processes"][0]["mappings"].as_array().unwrap();
    for mapping in mappings {
        let span = &mapping["addresses"];
        let len = span["end"].as_u64().unwrap() - span["start"].as_u64().unwrap();
        let (reached, huge) = (&mapping["reached"], &mapping["pmd_mapped"]);
        assert!(reached.as_u64().unwrap() <= len, "{mapping}");
        assert!(huge.as_u64() <= reached.as_u64(), "{mapping}");
    }
}
