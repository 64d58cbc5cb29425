//! Real programs under the emulators. The counts of the plugin, tool and models are compared with
//! those of the plain reference, which reads instruction by instruction the log that QEMU or
//! Valgrind writes of the same program. Both emulators are also compared with each other.

#![allow(clippy::unwrap_used)]

mod reference;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hugetext_elf::Image;
use hugetext_leaf::{Leaf, Span, vmas};
use hugetext_tlb::{Core, Emulator, EmulatorKind, Object, Placement, Totals, Translation, replay};
use reference::Reference;

/// Sorts numbers; TURNS is how often a string instruction repeats itself.
const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    static char text[5000]; static void fill(unsigned long n) { char *p = text;\n\
    #ifdef __x86_64__\n\
    __asm__ volatile (\"rep stosb\" : \"+D\"(p), \"+c\"(n) : \"a\"(1) : \"memory\");\n\
    #endif\n}\n\
    static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n\
    int main(void) { int v[500]; unsigned x = 1;\n\
    for (int i = 0; i < 500; i++) v[i] = (x = x * 69069 + 1) >> 8;\n\
    fill(0); fill(TURNS); qsort(v, 500, sizeof *v, order); printf(\"%d %f\\n\", v[250], v[0] / 3.0); return 0; }\n";

/// The program uses no C library, so that the processor's features select no code: the instructions
/// are the same under every emulator. Each function has its own pages, and one function spans two
/// pages.
const BARE: &str = "static char text[5000]; static int v[300];\n\
    #define APART __attribute__((noinline, aligned(4096)))\n\
    APART static void fill(unsigned long n) { char *p = text;\n\
    #ifdef __x86_64__\n\
    __asm__ volatile (\"rep stosb\" : \"+D\"(p), \"+c\"(n) : \"a\"(1) : \"memory\");\n\
    #endif\n}\n\
    APART static int less(int a, int b) { __asm__ volatile (\"jmp 1f; .fill 4080, 1, 0x90; 1:\"); return a < b; }\n\
    APART static void sort(void) { for (int i = 1; i < 300; i++)\n\
    for (int j = i; j > 0 && less(v[j], v[j - 1]); j--) { int t = v[j]; v[j] = v[j - 1]; v[j - 1] = t; } }\n\
    void _start(void) { unsigned x = 1;\n\
    for (int i = 0; i < 300; i++) v[i] = (x = x * 69069 + 1) >> 8;\n\
    fill(0); fill(1000); fill(1000); sort();\n\
    __asm__ volatile (\"syscall\" : : \"a\"(231), \"D\"(0)); __builtin_unreachable(); }\n";

/// Threads, and a forked child whose instructions are not the program's.
const THREADED: &str = "#include <pthread.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
    static volatile unsigned x;\n\
    static void *work(void *n) { for (long i = 0; i < 200000; i++) x += i; return n; }\n\
    int main(void) { pthread_t t[2]; pid_t child = fork(); int status = 1;\n\
    if (child == 0) { for (int i = 0; i < 20; i++) work(0); return 7; }\n\
    waitpid(child, &status, 0);\n\
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);\n\
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n\
    return WEXITSTATUS(status) != 7; }\n";

/// The paths of Debian and Fedora.
#[cfg(target_arch = "aarch64")]
const LACKEY: &str = "/usr/libexec/valgrind/lackey-arm64-linux";
#[cfg(not(target_arch = "aarch64"))]
const LACKEY: &str = "/usr/libexec/valgrind/lackey-amd64-linux";

/// The emulator, or the reason that it is missing.
fn emulator(kind: EmulatorKind) -> Option<Emulator> {
    Emulator::of_kind(kind, std::env::consts::ARCH)
        .inspect_err(|why| println!("skipped: {why}"))
        .ok()
}

/// A program compiled from `source`, or the reason that it cannot be.
fn compiled(directory: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let program = directory.join("program");
    let text = directory.join("program.c");
    fs::write(&text, source).unwrap();
    let mut command = Command::new("cc");
    command.args(options).arg("-o").arg(&program).arg(&text);
    let status = command.status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler for {options:?} ({status:?})");
        return None;
    }
    Some(program)
}

/// The program that sorts, loaded at fixed addresses.
fn sorting(directory: &Path, turns: u32) -> Option<PathBuf> {
    let turns = format!("-DTURNS={turns}");
    let options = ["-static", "-no-pie", "-Wl,-Ttext-segment=0x5c0000"];
    compiled(
        directory,
        PROGRAM,
        &[&["-O1", &turns][..], &options].concat(),
    )
}

/// Two layouts: all in base pages; and the text in 64K folios with its first window in a PMD leaf.
fn layouts(program: &Path) -> Vec<Object> {
    let image = Image::read(&fs::File::open(program).unwrap()).unwrap();
    let base = Object {
        placement: Placement::Fixed,
        vmas: vmas(&image.segments, Leaf::K4),
        ..Object::default()
    };
    let large = Object {
        huge: vec![HUGE],
        folios: vec![(Span::new(0, 1 << 40), Leaf::K64)],
        ..base.clone()
    };
    vec![base, large]
}

/// The program is linked across the end of this window.
const HUGE: Span = Span::new(0x400000, 0x600000);

fn run(emulator: &Emulator, program: &Path) -> Totals {
    run_with(emulator, program, quiet)
}

fn run_with(emulator: &Emulator, program: &Path, prepare: impl FnOnce(&mut Command)) -> Totals {
    let (mut child, stream) = emulator.start(program, [""; 0], prepare).unwrap();
    let both = |core| [(core, 0), (core, 1)];
    let lanes: Vec<(&Core, usize)> = Core::ALL.into_iter().flat_map(both).collect();
    let totals = replay(stream, &lanes, 2, layouts);
    assert!(child.wait().unwrap().success());
    totals.unwrap()
}

/// The environment is empty: the C library reads it, and executes more instructions for a longer
/// one.
fn quiet(command: &mut Command) {
    command.env_clear().stdout(Stdio::null());
}

/// The counts, and the first and last byte of every executed instruction, in order, as the emulator
/// itself logs them.
fn logged(emulator: &Emulator, program: &Path) -> Option<(Totals, Vec<(u64, u64)>)> {
    let (totals, mut executed) = match emulator.kind() {
        EmulatorKind::Qemu if !emulator.to_string().starts_with("QEMU 7.") => {
            println!("skipped: {emulator} writes its log in another way than QEMU 7");
            return None;
        }
        EmulatorKind::Qemu => qemu_log(emulator, program),
        EmulatorKind::Valgrind => (run(emulator, program), lackey_log(program)?),
    };
    // Each turn of a string instruction is logged, but is not a separate instruction.
    executed.dedup();
    Some((totals, executed))
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// One instruction per block, each execution logged, each translation with its bytes.
fn qemu_log(emulator: &Emulator, program: &Path) -> (Totals, Vec<(u64, u64)>) {
    let log = program.with_extension("log");
    let totals = run_with(emulator, program, |command| {
        quiet(command);
        command
            .env("QEMU_SINGLESTEP", "1")
            .env("QEMU_LOG_FILENAME", &log)
            .env("QEMU_LOG", "in_asm,exec,nochain");
    });
    let mut sizes = HashMap::new();
    let mut executed = Vec::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        if let Some(listed) = line.strip_prefix("0x") {
            let (address, rest) = listed.split_once(':').unwrap();
            let is_byte = |word: &&str| word.len() == 2 && u8::from_str_radix(word, 16).is_ok();
            let bytes = rest.split_whitespace().take_while(is_byte).count() as u64;
            sizes.insert(hex(address), bytes);
        } else if line.starts_with("Trace ") {
            let address = hex(line.split('/').nth(1).unwrap());
            executed.push((address, address + sizes[&address] - 1));
        }
    }
    (totals, executed)
}

/// Valgrind's own example tool, which prints every instruction: `I  04000c30,3`. It is started in
/// the same way as ours, since Debian's `valgrind` is a script that sets variables.
fn lackey_log(program: &Path) -> Option<Vec<(u64, u64)>> {
    let lackey = Path::new(LACKEY);
    if !lackey.exists() {
        println!("skipped: no {LACKEY}");
        return None;
    }
    let mut command = Command::new(lackey);
    quiet(&mut command);
    let output = command
        .env("VALGRIND_LAUNCHER", "valgrind")
        .args(["--command-line-only=yes", "--tool=lackey", "--quiet"])
        .args(["--trace-mem=yes", "--vgdb=no", "--vex-guest-chase=no"])
        .args(["--run-libc-freeres=no", "--run-cxx-freeres=no"])
        .arg(program)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    let instruction = |line: &str| {
        let (address, size) = line.strip_prefix("I")?.trim().split_once(',')?;
        Some((hex(address), hex(address) + size.parse::<u64>().ok()? - 1))
    };
    Some(text.lines().filter_map(instruction).collect())
}

/// The page table of the second layout, written out for this program.
fn large(address: u64, text: Span) -> Translation {
    let block = Span::new(address & !0xffff, (address & !0xffff) + 0x10000);
    let (leaf, run) = if HUGE.contains(address) {
        (Leaf::M2, Leaf::M2)
    } else if text.start <= block.start && block.end <= text.end {
        (Leaf::K4, Leaf::K64)
    } else {
        let group = Span::new(address & !0x3fff, (address & !0x3fff) + 0x4000);
        let whole = text.start <= group.start && group.end <= text.end;
        (Leaf::K4, if whole { Leaf::K16 } else { Leaf::K4 })
    };
    Translation { address, leaf, run }
}

#[test]
fn qemu_counts_as_the_reference_does() {
    if let Some(emulator) = emulator(EmulatorKind::Qemu) {
        counts_as_the_reference_does_and_the_same_every_time(&emulator);
    }
}

#[test]
fn valgrind_counts_as_the_reference_does() {
    if let Some(emulator) = emulator(EmulatorKind::Valgrind) {
        counts_as_the_reference_does_and_the_same_every_time(&emulator);
    }
}

fn counts_as_the_reference_does_and_the_same_every_time(emulator: &Emulator) {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = sorting(directory.path(), 1000) else {
        return;
    };
    let Some((totals, executed)) = logged(emulator, &program) else {
        return;
    };
    assert_eq!(totals.instructions, executed.len() as u64);
    assert_eq!(totals.threads, 1);

    let text = layouts(&program)[0]
        .vmas
        .iter()
        .find(|vma| vma.perms.exec)
        .unwrap()
        .addresses;
    for count in &totals.counts {
        let mut reference = Reference::new(count.core);
        for address in executed.iter().flat_map(|(first, last)| [*first, *last]) {
            reference.access(match count.layout {
                0 => Translation::base_page(address),
                _ => large(address, text),
            });
        }
        let name = count.core.name;
        assert_eq!(
            count.misses, reference.misses,
            "{name}, layout {}",
            count.layout
        );
    }
    // The base pages of a small program fit into the first level of most cores.
    let first_level = |name| {
        let of = |count: &&hugetext_tlb::Count| count.core.name == name;
        totals.counts.iter().find(of).map(|count| count.misses.l1)
    };
    assert!(first_level("cortex-a53") > first_level("zen4"));
    // Without the log, blocks are counted as a whole. The counts are the same, at every run.
    let plain = run(emulator, &program);
    assert_eq!(plain.counts, totals.counts);
    assert_eq!(run(emulator, &program), plain);

    // More turns are not more instructions.
    let program = sorting(directory.path(), 5000).unwrap();
    assert_eq!(run(emulator, &program).instructions, plain.instructions);
}

/// The counts of both emulators for one program, if both are installed.
fn by_both(program: &Path) -> Option<[Totals; 2]> {
    let (qemu, valgrind) = (
        emulator(EmulatorKind::Qemu)?,
        emulator(EmulatorKind::Valgrind)?,
    );
    Some([run(&qemu, program), run(&valgrind, program)])
}

#[test]
#[cfg(target_arch = "x86_64")]
fn without_a_library_both_emulators_count_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-O1", "-static", "-no-pie", "-nostdlib", "-ffreestanding"];
    let address = ["-fno-stack-protector", "-Wl,-Ttext-segment=0x5c0000"];
    let options = [&options[..], &address].concat();
    let Some(program) = compiled(directory.path(), BARE, &options) else {
        return;
    };
    let Some([qemu, valgrind]) = by_both(&program) else {
        return;
    };
    assert!(qemu.instructions > 100_000 && qemu.page_changes > 40_000);
    // A translation may hold a page that the program does not reach, and each emulator translates
    // differently.
    assert!(qemu.pages.abs_diff(valgrind.pages) <= 1);
    let changes = |totals: &Totals| (totals.instructions, totals.page_changes, totals.threads);
    assert_eq!(changes(&valgrind), changes(&qemu));
    let misses = |totals: &Totals| totals.counts.iter().map(|count| count.misses).collect();
    let (valgrind, qemu): (Vec<_>, Vec<_>) = (misses(&valgrind), misses(&qemu));
    assert_eq!(valgrind, qemu);
}

#[test]
fn with_a_library_both_emulators_count_nearly_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), THREADED, &["-O1", "-pthread"]) else {
        return;
    };
    let Some([qemu, valgrind]) = by_both(&program) else {
        return;
    };
    let shown = |totals: &Totals| (totals.instructions, totals.page_changes, totals.pages);
    println!("{:?} {:?}", shown(&qemu), shown(&valgrind));
    assert_eq!((qemu.threads, valgrind.threads), (3, 3));
    let near = |qemu: u64, valgrind: u64, percent: u64| {
        assert!(
            qemu.abs_diff(valgrind) * 100 <= qemu * percent,
            "{qemu} {valgrind}"
        );
    };
    near(qemu.instructions, valgrind.instructions, 1);
    near(qemu.pages, valgrind.pages, 10);
}

#[test]
fn valgrind_counts_all_threads_and_no_forked_child() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), THREADED, &["-O1", "-pthread"]) else {
        return;
    };
    let Some(emulator) = emulator(EmulatorKind::Valgrind) else {
        return;
    };
    let totals = run(&emulator, &program);
    assert_eq!(totals.threads, 3);
    // Two times 200000 turns of a few instructions. The child's 4 million turns are not counted.
    assert!((400_000..4_000_000).contains(&totals.instructions));
}

#[test]
fn a_missing_emulator_names_the_package() {
    let error = Emulator::find("pdp11").unwrap_err();
    assert!(error.to_string().contains("qemu-user"), "{error}");
}
