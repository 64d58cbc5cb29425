//! Programs of other architectures. They are linked here, fixed, and run by QEMU as before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::sample::{hugetext, json, path, text};

/// An architecture for which Debian has a cross compiler and a C library.
struct Target {
    name: &'static str,
    qemu: Qemu,
    /// Compiler options.
    options: &'static [&'static str],
    /// Those of programs with an interpreter.
    dynamic: &'static [&'static str],
    /// Linkers of shared objects that its loader takes.
    linkers: &'static [&'static str],
    /// Geometries of its kernels, each with the leaf that a text of some MiB is laid out for.
    geometries: &'static [(&'static str, u64)],
}

/// How programs of a target run.
enum Qemu {
    /// By this emulator.
    Needed(&'static str),
    /// By the kernel, which is one of x86-64.
    NotNeeded,
}

/// The leaves are 64K and 2M in the first geometry, and 2M and 32M in the second. The size of the
/// text decides which leaf is used.
const ARM64: &[(&str, u64)] = &[("arm64-4k", 2 << 20), ("arm64-16k", 2 << 20)];

const BFD: &str = "-fuse-ld=bfd";
const LLD: &str = "-fuse-ld=lld";

/// Both classes, and both byte orders of each.
const TARGETS: [Target; 7] = [
    Target {
        name: "aarch64-linux-gnu",
        qemu: Qemu::Needed("qemu-aarch64"),
        options: &[],
        dynamic: &[],
        linkers: &[BFD, LLD],
        geometries: ARM64,
    },
    Target {
        name: "riscv64-linux-gnu",
        qemu: Qemu::Needed("qemu-riscv64"),
        // GNU ld 2.40 marks PIEs with thread-local data by DT_TEXTREL, although they have no text
        // relocations.
        options: &["-DTHREAD="],
        dynamic: &[],
        linkers: &[BFD, LLD],
        geometries: ARM64,
    },
    Target {
        name: "i686-linux-gnu",
        qemu: Qemu::NotNeeded,
        options: &[],
        // The cross compiler's C library is not where programs look for it.
        dynamic: &[
            "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2",
            "-Wl,-rpath=/usr/i686-linux-gnu/lib",
        ],
        linkers: &[BFD, LLD],
        geometries: &[("x86-64", 2 << 20)],
    },
    Target {
        name: "arm-linux-gnueabihf",
        qemu: Qemu::Needed("qemu-arm"),
        options: &[],
        dynamic: &[],
        linkers: &[BFD, LLD],
        geometries: &[("arm64-4k", 2 << 20), ("arm-lpae", 2 << 20)],
    },
    Target {
        name: "s390x-linux-gnu",
        qemu: Qemu::Needed("qemu-s390x"),
        options: &[],
        dynamic: &[],
        linkers: &[BFD, LLD],
        geometries: &[("s390x", 1 << 20)],
    },
    Target {
        name: "powerpc64-linux-gnu",
        qemu: Qemu::Needed("qemu-ppc64"),
        options: &[],
        dynamic: &[],
        // lld knows the second version of the ABI only.
        linkers: &[BFD],
        geometries: &[("ppc64-4k", 2 << 20), ("ppc64-64k", 2 << 20)],
    },
    Target {
        name: "mips-linux-gnu",
        qemu: Qemu::Needed("qemu-mips"),
        // lld wants it said that the C library asks for an executable stack.
        options: &["-Wl,-z,execstack"],
        dynamic: &[],
        linkers: &[BFD, LLD],
        geometries: &[("mips64-4k", 2 << 20)],
    },
];

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/sample.c");
const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/open.c");
const BARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fix/bare.c");

fn compile(compiler: &str, source: &str, out: &Path, options: &[&str]) -> bool {
    let output = Command::new(compiler)
        .args([source, "-o", path(out)])
        .args(options)
        .output();
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!("skipped: {compiler} {options:?}: {}", text(&output.stderr));
            false
        }
        Err(_) => {
            println!("skipped: no {compiler} on this machine");
            false
        }
    }
}

/// The compiler option for the lld that comes with Rust. This lld knows all these architectures.
fn lld() -> String {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map_or_else(|_| String::new(), |output| text(&output.stdout));
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    format!("-B{}/lib/rustlib/{host}/bin/gcc-ld", sysroot.trim_end())
}

impl Target {
    fn compile(&self, source: &str, out: &Path, options: &[&str]) -> bool {
        let lld = lld();
        let is_static = options.iter().any(|option| option.starts_with("-static"));
        let dynamic = if is_static { &[][..] } else { self.dynamic };
        let options = [self.options, dynamic, options, &[&lld]].concat();
        compile(&format!("{}-gcc", self.name), source, out, &options)
    }

    /// The output of a program. Its interpreter and libraries are those of the target.
    fn run(&self, program: &Path, arguments: &[&str]) -> Option<String> {
        match self.qemu {
            Qemu::NotNeeded if cfg!(target_arch = "x86_64") => {
                let output = Command::new(program).args(arguments).output();
                finished(program, &output.ok()?)
            }
            Qemu::NotNeeded => {
                println!("skipped: programs of {} need another kernel", self.name);
                None
            }
            Qemu::Needed(qemu) => {
                let root = format!("/usr/{}", self.name);
                run(qemu, &["-L", &root], program, arguments)
            }
        }
    }

    /// Whether it has the geometries of arm64, whose leaves differ most.
    fn has_those_of_arm64(&self) -> bool {
        self.geometries == ARM64
    }
}

/// What a program said that must have succeeded.
fn finished(program: &Path, output: &Output) -> Option<String> {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{}: {said}", program.display());
    Some(text(&output.stdout))
}

fn run(qemu: &str, options: &[&str], program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(qemu)
        .args(options)
        .arg(program)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        println!("skipped: no {qemu} on this machine");
        return None;
    };
    finished(program, &output)
}

/// What eu-elflint has against a file, without the numbers in it.
fn lint(file: &Path) -> BTreeSet<String> {
    let output = Command::new("eu-elflint")
        .args(["--gnu-ld", path(file)])
        .output();
    let said = output.map_or_else(|_| String::new(), |output| text(&output.stdout));
    let without_numbers = |line: &str| line.replace(|c: char| c.is_ascii_hexdigit(), "");
    said.lines().map(without_numbers).collect()
}

/// The fixed program, and the leaf that it was fixed for. `None` if it was linked for smaller
/// pages, or at a fixed address with the ELF header in its text.
fn fix(old: &Path, strategy: &str, geometry: &str) -> Option<(PathBuf, u64)> {
    let new = old.with_extension(format!("{strategy}-{geometry}"));
    let options = ["--strategy", strategy, "--geometry", geometry];
    let report = json(&[&["fix", path(old), "-o", path(&new)], &options[..]].concat());
    if let Some(reason) = report["refused"].as_str() {
        let expected = [
            "linked for pages smaller",
            "the text begins with the ELF header",
        ];
        let is_expected = expected.iter().any(|known| reason.starts_with(known));
        assert!(is_expected, "{}: {reason}", old.display());
        return None;
    }
    let leaf = report["plan"]["plan"]["leaf"].as_u64().unwrap();
    assert!(report["plan"]["reached_after"].as_u64().unwrap() > 0);
    let same = hugetext(&["check", "--same", path(old), path(&new)]);
    assert!(same.status.success(), "{}", text(&same.stdout));
    assert!(lint(&new).is_subset(&lint(old)), "{}", new.display());
    Some((new, leaf))
}

/// Tests all kinds of programs. Returns whether any could be compiled and run for this target.
fn kinds_survive(target: &Target, directory: &TempDir) -> bool {
    let kinds: [(&str, &[&str]); 7] = [
        ("pie", &["-pie", "-fPIE"]),
        ("no-pie", &["-no-pie"]),
        ("static", &["-static"]),
        ("pie-lld", &["-pie", "-fPIE", "-fuse-ld=lld"]),
        ("no-pie-lld", &["-no-pie", "-fuse-ld=lld"]),
        ("static-lld", &["-static", "-fuse-ld=lld"]),
        ("static-pie", &["-static-pie", "-fPIE"]),
    ];
    let mut any = false;
    for (kind, options) in kinds {
        let program = directory.path().join(format!("{}-{kind}", target.name));
        if !target.compile(SAMPLE, &program, options) {
            continue;
        }
        let Some(said) = target.run(&program, &[]) else {
            return false;
        };
        assert!(said.starts_with("read-only data"), "{said}");
        for (geometry, expected) in target.geometries {
            for strategy in ["shift", "merge"] {
                if let Some((new, leaf)) = fix(&program, strategy, geometry) {
                    assert_eq!(leaf, *expected, "{kind}");
                    let what = format!("{kind} by {strategy} for {geometry}");
                    assert_eq!(target.run(&new, &[]).as_ref(), Some(&said), "{what}");
                    any = true;
                }
            }
        }
    }
    any
}

#[test]
fn programs_of_other_architectures_run_as_before() {
    for target in &TARGETS {
        let directory = tempfile::tempdir().unwrap();
        if kinds_survive(target, &directory) {
            println!("{}: fixed and run", target.name);
        }
    }
}

/// Small text is laid out for 64K. Large text is laid out for 32M if pages have 16K.
#[test]
fn the_leaf_follows_the_text_on_other_architectures() {
    for target in TARGETS.iter().filter(|target| target.has_those_of_arm64()) {
        let directory = tempfile::tempdir().unwrap();
        for (bytes, geometry, expected) in [
            ("300000", "arm64-4k", 64 << 10),
            ("70000000", "arm64-16k", 32 << 20),
        ] {
            let program = directory.path().join(bytes);
            let text = format!("-DTEXT=\"{bytes}\"");
            let options = ["-fuse-ld=lld", "-Wl,-z,max-page-size=65536", &text];
            if !target.compile(SAMPLE, &program, &options) {
                continue;
            }
            let Some(said) = target.run(&program, &[]) else {
                continue;
            };
            let (new, leaf) = fix(&program, "shift", geometry).unwrap();
            assert_eq!(leaf, expected);
            assert_eq!(target.run(&new, &[]), Some(said));
        }
    }
}

#[test]
fn shared_objects_of_other_architectures_load_as_before() {
    for target in &TARGETS {
        let directory = tempfile::tempdir().unwrap();
        let (main, library) = (
            directory.path().join("main"),
            directory.path().join("library"),
        );
        if !target.compile(OPEN, &main, &[]) {
            continue;
        }
        for linker in target.linkers {
            let shared = ["-shared", "-fPIC", linker];
            if !target.compile(SAMPLE, &library, &shared) {
                continue;
            }
            let Some(said) = target.run(&main, &[path(&library)]) else {
                continue;
            };
            for strategy in ["shift", "merge"] {
                for (geometry, _) in target.geometries {
                    if let Some((new, _)) = fix(&library, strategy, geometry) {
                        assert_eq!(target.run(&main, &[path(&new)]).as_ref(), Some(&said));
                    }
                }
            }
        }
    }
}

/// Debian 12 has no C library for loongarch64, so the program does not use one. A shared object
/// can be fixed and verified, but no program can load it.
#[test]
fn loongarch64_by_the_same_code() {
    let directory = tempfile::tempdir().unwrap();
    let kinds: [(&str, &[&str]); 3] = [
        ("static", &["-static"]),
        ("static-pie", &["-static-pie", "-fPIE"]),
        ("shared", &["-shared", "-fPIC"]),
    ];
    for (kind, options) in kinds {
        let program = directory.path().join(kind);
        let bare = [
            "--target=loongarch64-linux-gnu",
            "-nostdlib",
            "-ffreestanding",
        ];
        let lld = lld();
        let options = [&bare[..], &[&lld, "-fuse-ld=lld"], options].concat();
        if !compile("clang-19", BARE, &program, &options) {
            continue;
        }
        let said = match kind {
            "shared" => None,
            _ => run("qemu-loongarch64", &[], &program, &[]),
        };
        for (strategy, geometry) in [
            ("shift", "arm64-4k"),
            ("merge", "arm64-4k"),
            ("shift", "arm64-16k"),
        ] {
            let (new, _) = fix(&program, strategy, geometry).unwrap();
            if said.is_some() {
                assert_eq!(said.as_deref(), Some("read-only data\n"));
                assert_eq!(
                    run("qemu-loongarch64", &[], &new, &[]),
                    said,
                    "{kind} {strategy}"
                );
            }
        }
    }
}
