//! Profiles and core dumps of a program that ran as a copy, looked at after its end: they name its own functions or none.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::session::{HARMLESS, session};
use crate::subject::{HUGETEXT, text};

/// Its text is not congruent with its place in the file, so that its copy has other offsets. Functions of 1 MiB lie on
/// both sides of the one that works. With an argument, it ends in that one by a signal; with
/// two, it waits. What works may be a library (LIBRARY, and MAIN for the program that uses it).
const HOT: &str = r#"
#include <stdlib.h>
#include <unistd.h>
unsigned work(int ends);
#ifndef MAIN
#define BESIDE(n) __attribute__((noinline)) int beside##n(int x) \
	{ __asm__ volatile("jmp 1f\n.fill 1048576, 1, 0xcc\n1:"); return x + n; }
BESIDE(1) BESIDE(2) BESIDE(3) BESIDE(4)
__attribute__((noinline)) unsigned hot(unsigned rounds, int ends)
{
	unsigned sum = 1;
	for (unsigned i = 0; i < rounds; i++)
		sum = sum * 1664525u + i;
	if (ends)
		abort();
	return sum;
}
BESIDE(5) BESIDE(6) BESIDE(7) BESIDE(8)
unsigned work(int ends)
{
	volatile unsigned sum = 0;
	for (int i = 0; i < 20; i++) {
		sum += hot(10000000 + i, ends);
		sum += beside8(beside7(beside6(beside5(beside4(beside3(beside2(beside1(i))))))));
	}
	return sum;
}
#endif
#ifndef LIBRARY
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 2) {
		write(1, "!", 1);
		pause();
	}
	return work(argc > 1) == 1;
}
#endif
"#;

/// A directory with the program, and a home for perf.
pub(crate) struct Profiled(TempDir);

/// How a program is linked. Its text is not congruent with its place in the file, but for that of `CONGRUENT`.
pub(crate) const AT_FIXED_ADDRESS: [&str; 2] = ["-no-pie", "-Wl,--section-start=.text=0x512000"];
pub(crate) const PIE: [&str; 2] = ["-pie", "-Wl,--section-start=.text=0x112000"];
pub(crate) const CONGRUENT: [&str; 2] = ["-pie", "-Wl,-z,noexecstack"];

impl Profiled {
    /// `None`, with the reason printed, without a compiler.
    pub(crate) fn build(linked: [&str; 2]) -> Option<Profiled> {
        let profiled = Profiled::empty();
        let is_built = profiled.compile(&linked, &["-fPIE", "-o", "prog"]);
        is_built.then_some(profiled)
    }

    /// The same, with the functions in a library, `libhot.so`, that is linked in this way.
    pub(crate) fn build_library(linked: [&str; 2]) -> Option<Profiled> {
        let profiled = Profiled::empty();
        let library = ["-DLIBRARY", "-fPIC", "-shared", "-o", "libhot.so"];
        let program = ["-DMAIN", "-o", "prog", "-L.", "-Wl,-rpath,$ORIGIN"];
        let is_built =
            profiled.compile(&linked, &library) && profiled.compile(&["-lhot"], &program);
        is_built.then_some(profiled)
    }

    fn empty() -> Profiled {
        let profiled = Profiled(tempfile::tempdir().unwrap());
        fs::write(profiled.path("hot.c"), HOT).unwrap();
        profiled
    }

    /// False, with the reason printed, without a compiler.
    fn compile(&self, linked: &[&str], what: &[&str]) -> bool {
        let compiled = Command::new("cc")
            .args(["-g", "-O1", "-Wl,--build-id"])
            .args(["-Wl,-z,max-page-size=4096"])
            .args(what)
            .arg("hot.c")
            .args(linked)
            .current_dir(self.0.path())
            .status();
        let is_compiled = compiled.is_ok_and(|status| status.success());
        if !is_compiled {
            println!("skipped: no C compiler");
        }
        is_compiled
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env("XDG_RUNTIME_DIR", session(HARMLESS, self.0.path()));
        command.env_remove("DEBUGINFOD_URLS");
        command
    }

    /// Records the program behind `words`. False, with the reason printed, if perf is missing or may not measure.
    pub(crate) fn record(&self, data: &str, options: &[&str], words: &[&str]) -> bool {
        let mut perf = self.command("perf");
        // A clock of the kernel, because virtual machines have no counters.
        perf.args(["record", "-q", "-e", "cpu-clock:u", "-o", data]);
        let recorded = perf.args(options).arg("--").args(words).output();
        let recorded = recorded.is_ok_and(|output| output.status.success());
        if !recorded {
            println!("skipped: no perf on this machine, or it may not measure");
        }
        recorded
    }

    /// What the program behind `words` says on its error stream while it is recorded.
    fn said_to_perf(&self, words: &[&str]) -> String {
        let mut perf = self.command("perf");
        let options = ["record", "-q", "-e", "cpu-clock:u", "-o", "said", "--"];
        let output = perf.args(options).args(words).output().unwrap();
        text(&output.stderr)
    }

    /// The symbol with most samples, as `perf report` prints it.
    pub(crate) fn busiest(&self, data: &str) -> String {
        let mut perf = self.command("perf");
        perf.args([
            "report",
            "-q",
            "--stdio",
            "--no-children",
            "-F",
            "overhead,symbol",
            "-i",
            data,
        ]);
        let said = text(&perf.output().unwrap().stdout);
        let line = said.lines().find(|line| !line.trim().is_empty());
        line.and_then(|line| line.split_whitespace().last())
            .unwrap()
            .to_owned()
    }

    /// What debuggers and profilers are to be given instead of the program.
    pub(crate) fn copy(&self) -> PathBuf {
        self.ran("prog")
    }

    /// The file that ran, of a core dump or instead of a program.
    pub(crate) fn ran(&self, of: impl AsRef<std::ffi::OsStr>) -> PathBuf {
        let mut asked = self.command(HUGETEXT);
        asked.args(["store", "--store", "store", "path"]).arg(of);
        let output = asked.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        self.0.path().join(text(&output.stdout).trim())
    }

    /// Runs words that end in a core dump.
    pub(crate) fn dump(&self, words: &[&str]) {
        let script = "ulimit -c unlimited && \"$@\"";
        let mut shell = self.command("sh");
        shell.args(["-c", script, "sh"]).args(words).arg("ends");
        assert!(!shell.output().unwrap().status.success());
    }

    /// The only core dump.
    pub(crate) fn core(&self) -> PathBuf {
        let mut files = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_core = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("core")
        };
        files.find(is_core).unwrap()
    }

    /// The frames that eu-stack finds in the only core dump, with the program's own file.
    pub(crate) fn frames(&self) -> Option<String> {
        let mut stack = self.command("eu-stack");
        stack.arg("--core").arg(self.core()).args(["-e", "prog"]);
        Some(text(&stack.output().ok()?.stdout))
    }

    /// The backtrace that gdb prints of the only core dump.
    pub(crate) fn backtrace(&self, program: &Path) -> String {
        let core = self.core();
        let gdb = self
            .command("gdb")
            .args(["-q", "-batch", "-ex", "bt"])
            .args([program, &core])
            .output();
        text(&gdb.unwrap().stdout)
    }
}

/// Whether core dumps lie where the program ran; if not, says so.
pub(crate) fn cores_are_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let are_files = pattern.trim() == "core";
    if !are_files {
        println!("skipped: core dumps go elsewhere: {pattern}");
    }
    are_files
}

/// A bare address is an honest answer, the name of another function is not.
pub(crate) fn is_honest(symbol: &str) -> bool {
    symbol == "hot" || symbol.starts_with("0x")
}

pub(crate) const RUN: [&str; 5] = [HUGETEXT, "run", "--store", "store", "./prog"];

#[test]
fn a_profile_that_is_reported_after_the_end_names_no_other_function() {
    let Some(profiled) = Profiled::build(AT_FIXED_ADDRESS) else {
        return;
    };
    for (data, options) in [("default", &[][..]), ("by-kernel", &["--buildid-mmap"])] {
        if !profiled.record(data, options, &RUN) {
            return;
        }
        let named = profiled.busiest(data);
        assert!(is_honest(&named), "{data}: {named}");
    }
    let said = profiled.said_to_perf(&RUN);
    assert_eq!(said.matches("perf buildid-cache -u").count(), 1, "{said}");
    let copy = profiled.copy();
    assert!(copy.is_file(), "{}", copy.display());
    let told = profiled
        .command("perf")
        .args(["buildid-cache", "-u"])
        .arg(&copy)
        .status();
    assert!(told.unwrap().success());
    for data in ["default", "by-kernel"] {
        assert_eq!(profiled.busiest(data), "hot", "{data}, with the copy");
    }
    // The other order is right without that: perf ends in the namespace that shows the copy.
    fs::remove_dir_all(profiled.path(".debug")).unwrap();
    let mut inside = profiled.command(HUGETEXT);
    inside.args([
        "run",
        "--store",
        "store",
        "--also",
        "./prog",
        "perf",
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
    ]);
    assert!(
        inside
            .args(["-o", "inside", "./prog"])
            .status()
            .unwrap()
            .success()
    );
    let named = profiled.busiest("inside");
    assert!(is_honest(&named), "perf behind run: {named}");
}

#[test]
fn a_profile_from_before_a_fix_names_no_other_function_after_it() {
    let Some(profiled) = Profiled::build(AT_FIXED_ADDRESS) else {
        return;
    };
    if !profiled.record("before", &[], &["./prog"]) {
        return;
    }
    fs::remove_dir_all(profiled.path(".debug")).unwrap();
    let fix = ["fix", "-q", "--in-place", "--backup=.old", "prog"];
    assert!(
        profiled
            .command(HUGETEXT)
            .args(fix)
            .status()
            .unwrap()
            .success()
    );
    let named = profiled.busiest("before");
    assert!(!named.starts_with("beside"), "{named}");
    assert!(profiled.record("after", &[], &["./prog"]));
    assert_eq!(profiled.busiest("after"), "hot");
    // The old file has the old offsets.
    let told = profiled
        .command("perf")
        .args(["buildid-cache", "-u", "prog.old"])
        .status();
    assert!(told.unwrap().success());
    assert_eq!(profiled.busiest("before"), "hot");
}

#[test]
fn a_core_dump_has_names_with_the_copy_that_ran() {
    let Some(profiled) = Profiled::build(AT_FIXED_ADDRESS) else {
        return;
    };
    if !cores_are_files() {
        return;
    }
    profiled.dump(&RUN);
    assert_eq!(profiled.ran(profiled.core()), profiled.copy());
    let named = profiled.backtrace(&profiled.copy());
    assert!(
        named.contains("hot (") && named.contains("main ("),
        "{named}"
    );
    // The copy is found by what ran, not by the path, where another file lies by now.
    fs::copy("/bin/true", profiled.path("prog.new")).unwrap();
    fs::rename(profiled.path("prog.new"), profiled.path("prog")).unwrap();
    let copy = profiled.ran(profiled.core());
    assert!(
        copy.starts_with(profiled.path("store")),
        "{}",
        copy.display()
    );
    fs::remove_file(&copy).unwrap();
    let mut asked = profiled.command(HUGETEXT);
    asked.args(["store", "--store", "store", "path"]);
    let output = asked.arg(profiled.core()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("neither") && said.contains("--store"),
        "{said}"
    );
}

/// gdb compares the headers of a core dump with those of the file, and an old core dump needs the old ones.
#[test]
fn a_core_dump_from_before_a_fix_has_names_with_the_backup() {
    let Some(profiled) = Profiled::build(PIE) else {
        return;
    };
    if !cores_are_files() {
        return;
    }
    profiled.dump(&["./prog"]);
    assert_eq!(profiled.ran(profiled.core()), profiled.path("prog"));
    let fix = ["fix", "-q", "--in-place", "--backup=.old", "prog"];
    let fixed = profiled.command(HUGETEXT).args(fix).status();
    assert!(fixed.unwrap().success());
    let ran = profiled.ran(profiled.core());
    assert_eq!(ran, profiled.path("prog.old"));
    let named = profiled.backtrace(&ran);
    assert!(
        named.contains("hot (") && named.contains("main ("),
        "{named}"
    );
}

#[test]
fn debuggers_find_the_frames_of_a_pie_with_its_own_file() {
    for linked in [PIE, CONGRUENT] {
        let Some(profiled) = Profiled::build(linked) else {
            return;
        };
        if !cores_are_files() {
            return;
        }
        profiled.dump(&RUN);
        assert_eq!(profiled.ran(profiled.core()), profiled.path("prog"));
        let named = profiled.backtrace(&profiled.path("prog"));
        assert!(
            named.contains("hot (") && named.contains("main ("),
            "{linked:?}: {named}"
        );
        match profiled.frames() {
            Some(named) => assert!(
                named.contains(" hot") && named.contains(" main"),
                "{linked:?}: {named}"
            ),
            None => println!("skipped: no eu-stack"),
        }
        let mut running = profiled.command(HUGETEXT);
        running.args(&RUN[1..]).args(["and", "waits"]);
        let mut running = waiting(running);
        let pid = running.id().to_string();
        let attached = profiled
            .command("gdb")
            .args(["-q", "-batch", "-ex", "bt", "-p", &pid])
            .output();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let stack = profiled.command("eu-stack").args(["-p", &pid]).output();
        running.kill().unwrap();
        running.wait().unwrap();
        let named = text(&attached.unwrap().stdout);
        assert!(named.contains("main ("), "{linked:?}: {named}");
        if let Ok(stack) = stack {
            let named = text(&stack.stdout);
            assert!(
                named.contains(" main") && !named.contains("beside"),
                "{linked:?}, eu-stack -p: {named}"
            );
        }
        let first = maps.lines().next().unwrap();
        let path = profiled.path("prog");
        assert!(first.ends_with(path.to_str().unwrap()), "{first}");
        let begins = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        assert_eq!(begins % (2 << 20), 0, "{first}");
    }
}

#[test]
fn a_profile_of_a_pie_needs_no_help() {
    for linked in [PIE, CONGRUENT] {
        let Some(profiled) = Profiled::build(linked) else {
            return;
        };
        for (data, options) in [("default", &[][..]), ("by-kernel", &["--buildid-mmap"])] {
            if !profiled.record(data, options, &RUN) {
                return;
            }
            let named = profiled.busiest(data);
            assert_eq!(named, "hot", "{linked:?}, {data}");
            let injected = format!("{data}-injected");
            let words = ["inject", "-b", "-i", data, "-o", &injected];
            assert!(
                profiled
                    .command("perf")
                    .args(words)
                    .status()
                    .unwrap()
                    .success()
            );
            assert_eq!(profiled.busiest(&injected), "hot", "{linked:?}, {injected}");
            let script = ["script", "-F", "ip,sym", "-i", data];
            let said = profiled.command("perf").args(script).output().unwrap();
            let said = text(&said.stdout);
            assert!(said.contains("hot"), "{linked:?}, {data}");
            let beside = said.lines().filter(|line| line.contains("beside"));
            assert!(beside.count() * 20 < said.lines().count(), "{said}");
        }
    }
}

/// The process of a command, once it waits.
fn waiting(mut command: Command) -> Child {
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0];
    let said = running.stdout.as_mut().unwrap();
    said.read_exact(&mut ready).unwrap();
    running
}

/// `main` lies behind the last window that can be huge. Free addresses complete the first window of one program: in its
/// copy, other text lies there.
#[test]
fn the_stack_of_a_promoted_process_has_its_own_names() {
    const BEHIND_A_HOLE: [&str; 2] = ["-no-pie", "-Wl,--section-start=.text=0x712000"];
    for linked in [PIE, AT_FIXED_ADDRESS, BEHIND_A_HOLE] {
        let Some(profiled) = Profiled::build(linked) else {
            return;
        };
        let mut program = profiled.command(profiled.path("prog"));
        program.args(["and", "waits"]);
        let mut running = waiting(program);
        let pid = running.id().to_string();
        let promoted = profiled.command(HUGETEXT).args(["promote", &pid]).output();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let stack = profiled.command("eu-stack").args(["-p", &pid]).output();
        running.kill().unwrap();
        running.wait().unwrap();
        let promoted = promoted.unwrap();
        let is_copied = maps.contains("/run/hugetext/promoted/");
        let Some(stack) = stack.ok().filter(|_| is_copied) else {
            println!("skipped: no eu-stack, or no copy with a path: {promoted:?}");
            return;
        };
        let named = text(&stack.stdout);
        assert!(
            named.contains(" main") && !named.contains("beside"),
            "{linked:?}: {named}{maps}"
        );
    }
}
