//! Builds the QEMU plugin, which this crate embeds: so an installed `hugetext` is one file and
//! cannot lose its plugin. Cargo has no stable way to depend on another crate's cdylib, and the
//! plugin is two hundred lines without dependencies, so one call of the compiler does it.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let manifest = variable("CARGO_MANIFEST_DIR");
    let source = Path::new(&manifest).join("../tlb-plugin/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=src/wire.rs");

    // QEMU loads it, so it must be of QEMU's libc: a static command for musl goes without.
    let plugin = Path::new(&variable("OUT_DIR")).join("plugin.so");
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        return match std::fs::write(&plugin, []) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("cargo::error={}: {error}", plugin.display());
                ExitCode::FAILURE
            }
        };
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "--crate-name",
            "hugetext_tlb_plugin",
            "--crate-type",
            "cdylib",
        ])
        .args(["--edition", "2024", "--target", &variable("TARGET")])
        // Its speed is the speed of the measurement, whatever the profile of the command.
        .args([
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
        ])
        .arg("-o")
        .arg(&plugin)
        .arg(source.join("lib.rs"));
    match rustc.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            println!("cargo::error=building the QEMU plugin: rustc ended with {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("cargo::error=building the QEMU plugin: {error}");
            ExitCode::FAILURE
        }
    }
}
