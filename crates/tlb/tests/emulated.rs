//! A real program under QEMU: what the plugin and the models count, against the plain reference fed
//! instruction by instruction from QEMU's own log of the same run.

#![allow(clippy::unwrap_used)]

mod reference;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_elf::Image;
use hugetext_leaf::{Leaf, Span, vmas};
use hugetext_tlb::{Core, Emulator, Object, Placement, Totals, Translation, replay};
use reference::Reference;

/// TURNS is how often a string instruction repeats itself.
const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    static char text[5000]; static void fill(unsigned long n) { char *p = text;\n\
    #ifdef __x86_64__\n\
    __asm__ volatile (\"rep stosb\" : \"+D\"(p), \"+c\"(n) : \"a\"(1) : \"memory\");\n\
    #endif\n}\n\
    static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n\
    int main(void) { int v[500]; unsigned x = 1;\n\
    for (int i = 0; i < 500; i++) v[i] = (x = x * 69069 + 1) >> 8;\n\
    fill(0); fill(TURNS); qsort(v, 500, sizeof *v, order); printf(\"%d %f\\n\", v[250], v[0] / 3.0); return 0; }\n";

/// The tools and a program loaded at addresses that are known beforehand, or why not.
fn prepare(directory: &Path, turns: u32) -> Result<(Emulator, PathBuf), String> {
    let emulator = Emulator::find(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let (source, program) = (directory.join("sort.c"), directory.join("sort"));
    fs::write(&source, PROGRAM).unwrap();
    let status = Command::new("cc")
        .args([
            "-O1",
            "-static",
            "-no-pie",
            "-Wl,-Ttext-segment=0x5c0000",
            &format!("-DTURNS={turns}"),
            "-o",
        ])
        .args([&program, &source])
        .status();
    match status {
        Ok(status) if status.success() => Ok((emulator, program)),
        other => Err(format!("no C compiler that links statically ({other:?})")),
    }
}

/// All in base pages; and as if its text lay in 64K folios, its first window in a PMD leaf.
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

fn run(emulator: &Emulator, program: &Path, log: Option<&Path>) -> Totals {
    let prepare = |command: &mut Command| {
        command.env_clear().stdout(std::process::Stdio::null());
        if let Some(log) = log {
            // One instruction per block, each execution logged, each translation with its bytes.
            command
                .env("QEMU_SINGLESTEP", "1")
                .env("QEMU_LOG_FILENAME", log);
            command.env("QEMU_LOG", "in_asm,exec,nochain");
        }
    };
    let (mut child, stream) = emulator.start(program, [""; 0], prepare).unwrap();
    let both = |core| [(core, 0), (core, 1)];
    let lanes: Vec<(&Core, usize)> = Core::ALL.into_iter().flat_map(both).collect();
    let totals = replay(stream, &lanes, 2, layouts);
    assert!(child.wait().unwrap().success());
    totals.unwrap()
}

/// First and last byte of every instruction executed, in order.
fn instructions(log: &str) -> Vec<(u64, u64)> {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut sizes = HashMap::new();
    let mut executed = Vec::new();
    for line in log.lines() {
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
    executed
}

/// The page table of the second layout, written down for this program alone.
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
fn counts_as_the_reference_does_and_the_same_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let (emulator, program) = match prepare(directory.path(), 1000) {
        Ok(tools) => tools,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    let log = directory.path().join("log");
    let totals = run(&emulator, &program, Some(&log));
    let mut executed = instructions(&fs::read_to_string(&log).unwrap());
    // Each turn of a string instruction is logged, and is not an instruction of its own.
    executed.dedup();
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
    // The base pages of a small program fit into the first level of most cores, not of all.
    let first_level = |name| {
        let of = |count: &&hugetext_tlb::Count| count.core.name == name;
        totals.counts.iter().find(of).map(|count| count.misses.l1)
    };
    assert!(first_level("cortex-a53") > first_level("zen4"));

    // Whole blocks, no log: the same.
    let plain = run(&emulator, &program, None);
    assert_eq!(plain.counts, totals.counts);
    assert_eq!(plain, run(&emulator, &program, None));

    // More turns are no more instructions.
    let (_, program) = prepare(directory.path(), 5000).unwrap();
    assert_eq!(
        run(&emulator, &program, None).instructions,
        plain.instructions
    );
}

#[test]
fn a_missing_emulator_names_the_package() {
    let error = Emulator::find("pdp11").unwrap_err();
    assert!(error.to_string().contains("qemu-user"), "{error}");
}
