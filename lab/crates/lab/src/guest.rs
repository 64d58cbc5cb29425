//! The programs that the lab builds for guests: the agent and the command, linked statically, and
//! synthetic programs of every layout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Arch;
use crate::cache::Cache;
use crate::error::{At, Result};
use crate::tool;

/// Text of the synthetic programs, in bytes: two 2 MiB windows and a remainder.
const TEXT: u64 = (4 << 20) + (256 << 10);
/// The p_align of the programs whose names end in `-2m`.
const LARGE_ALIGN: u64 = 2 << 20;

/// The files built for one architecture: name in the guest's program directory, and path here.
pub(crate) type Built = Vec<(String, PathBuf)>;

/// The directory of the built files: below the target directory of this checkout, since other
/// checkouts that share the cache may build other files.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/lab");

/// The two workspaces whose programs guests run: this one, with the agent, and that of the command.
const HERE: &str = env!("CARGO_MANIFEST_DIR");
const PRODUCT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The directory of what cargo builds for tests.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target");

/// How the agent and the command are compiled for guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Optimisation {
    /// As for users: for whatever measures.
    Release,
    /// As for tests, with which they share what cargo has built: for what only asks whether a rule holds.
    Quick,
}

impl Optimisation {
    /// Options of `cargo build`.
    fn options(self) -> &'static [&'static str] {
        match self {
            Optimisation::Release => &["--release", "--target-dir", DIRECTORY],
            Optimisation::Quick => &["--target-dir", TESTS],
        }
    }

    /// Where cargo puts programs for `target`.
    fn binaries(self, target: &str) -> PathBuf {
        match self {
            Optimisation::Release => Path::new(DIRECTORY).join(target).join("release"),
            Optimisation::Quick => Path::new(TESTS).join(target).join("debug"),
        }
    }
}

/// Builds all programs for guests of `arch`. `programs` holds the packaged libraries.
pub(crate) fn build(cache: &Cache, arch: Arch, optimisation: Optimisation) -> Result<Built> {
    let mut built = rust_programs(arch, optimisation)?;
    let directory = Path::new(DIRECTORY).join(arch.debian());
    fs::create_dir_all(&directory).at(&directory)?;
    for program in synthetic(arch) {
        let path = directory.join(&program.name);
        // Another lab may be reading the existing file.
        let new = directory.join(format!("{}.{}", program.name, std::process::id()));
        tool::run(&mut program.compile(arch, &new, &cache.programs(arch)))?;
        fs::rename(&new, &path).at(&path)?;
        built.push((program.name, path));
    }
    Ok(built)
}

/// The agent, the command and its benchmarks, and a program to promote where that is possible. They are static, so that
/// they run on any guest without libraries.
fn rust_programs(arch: Arch, optimisation: Optimisation) -> Result<Built> {
    let facts = arch.facts();
    let programs = ["hugetext-lab-agent", "hugetext-bench", "hugetext"];
    let [mut own, mut command] = [HERE, PRODUCT].map(|workspace| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo
            .args(["build", "--locked", "--target", facts.target])
            .args(optimisation.options())
            // With --example, cargo builds other targets only if they are named.
            .arg("--bins")
            .current_dir(workspace)
            // Guests hold their programs in memory. A profile's `strip` would concern build scripts, too, and these
            // are shared with other builds.
            .env(rustflags(facts.target), "-Cstrip=symbols")
            .envs(facts.cargo.iter().copied());
        cargo
    });
    tool::run(own.args(["-p", "hugetext-lab-agent", "-p", "hugetext-lab-bench"]))?;
    command.args(["-p", "hugetext"]);
    if facts.promotes {
        command.args(["-p", "hugetext-promote", "--example", "busy"]);
    }
    tool::run(&mut command)?;
    let binaries = optimisation.binaries(facts.target);
    let built = programs.map(|name| (name.to_owned(), binaries.join(name)));
    let busy = ("busy".to_owned(), binaries.join("examples/busy"));
    let busy = Some(busy).filter(|_| facts.promotes);
    Ok(built.into_iter().chain(busy).collect())
}

/// Cargo's variable with rustc's options for `target` alone.
fn rustflags(target: &str) -> String {
    let target = target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_RUSTFLAGS")
}

/// The assembly source of the programs.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// A program compiled from assembly, by the machine's compiler or the cross compiler.
struct Synthetic {
    name: String,
    /// File name of its assembly.
    source: &'static str,
    text: u64,
    large_align: bool,
    /// The link options.
    flags: Vec<String>,
}

fn synthetic(arch: Arch) -> Vec<Synthetic> {
    let loader = |libc: &str| {
        let path = match libc {
            "musl" => format!("/lib/ld-musl-{}.so.1", arch.machine()),
            _ => {
                let (directory, name) = arch.facts().loader;
                format!("/{directory}/{name}")
            }
        };
        format!("-Wl,--dynamic-linker={path}")
    };
    let words = |flags: &str| flags.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let pie = |libc: &str, more: &str| {
        let mut flags = words("-pie -Wl,--no-as-needed,-rpath,$ORIGIN,--allow-shlib-undefined -L.");
        flags.push(loader(libc));
        flags.extend(words(more));
        flags
    };
    let program = |name: &str, text, large_align, flags| Synthetic {
        name: name.to_owned(),
        source: "program.S",
        text,
        large_align,
        flags,
    };
    let mut all = Vec::new();
    for (large, end) in [(false, ""), (true, "-2m")] {
        let library = format!("libtext{end}.so");
        all.push(program(
            &format!("exec{end}"),
            TEXT,
            large,
            words("-static -no-pie"),
        ));
        all.push(program(
            &format!("static-pie{end}"),
            TEXT,
            large,
            words("-static-pie"),
        ));
        all.push(program(
            &format!("pie{end}"),
            TEXT,
            large,
            pie("glibc", "-Wl,-z,now"),
        ));
        all.push(Synthetic {
            name: library.clone(),
            source: "library.S",
            text: TEXT,
            large_align: large,
            flags: words(&format!("-shared -Wl,-soname,{library}")),
        });
        for libc in ["glibc", "musl"] {
            let flags = pie(libc, &format!("-l:{library}"));
            all.push(program(&format!("so{end}-{libc}"), 0, false, flags));
        }
    }
    all.push(program(
        "gccjit",
        0,
        false,
        pie("glibc", "-l:libgccjit.so.0"),
    ));
    all
}

impl Synthetic {
    /// Compiles to `new`, which is next to the libraries that it links.
    fn compile(&self, arch: Arch, new: &Path, programs: &Path) -> Command {
        let mut gcc = Command::new(format!("{}-linux-gnu-gcc", arch.machine()));
        gcc.current_dir(new.parent().unwrap_or(new))
            .args(["-nostdlib", "-nostartfiles", "-o"])
            .arg(new)
            .arg(format!("-DTEXT={}", self.text))
            .arg(Path::new(SOURCES).join(self.source))
            .arg("-L")
            .arg(programs)
            // One segment from offset 0, so that its windows are those of the file.
            .arg("-Wl,-z,noseparate-code,--build-id=none")
            .args(&self.flags);
        if self.large_align {
            gcc.arg(format!("-Wl,-z,max-page-size={LARGE_ALIGN:#x}"));
        }
        gcc
    }
}
