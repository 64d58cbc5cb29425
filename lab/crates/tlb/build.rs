//! Builds the QEMU plugin, which this crate embeds, so that an installed `hugetext` is one file and
//! cannot lose its plugin. Cargo has no stable way to depend on another crate's cdylib. The plugin
//! is two hundred lines without dependencies, so one call of the compiler builds it.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Set to anything, it leaves the plugin out. A linker of the target is then needed only for the command
/// itself, and for `cargo check` none.
const WITHOUT: &str = "HUGETEXT_WITHOUT_PLUGIN";

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let manifest = variable("CARGO_MANIFEST_DIR");
    let source = Path::new(&manifest).join("../tlb-plugin/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=src/wire.rs");

    println!("cargo::rerun-if-env-changed={WITHOUT}");

    // QEMU loads the plugin, so both need the same libc: a static command for musl has no plugin.
    let plugin = Path::new(&variable("OUT_DIR")).join("plugin.so");
    if variable("CARGO_CFG_TARGET_ENV") == "musl" || !variable(WITHOUT).is_empty() {
        return match std::fs::write(&plugin, []) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("cargo::error={}: {error}", plugin.display());
                ExitCode::FAILURE
            }
        };
    }
    // Named for another architecture than this machine's, and then the plugin is of that one too.
    let linker = std::env::var("RUSTC_LINKER").ok();
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "--crate-name",
            "hugetext_tlb_plugin",
            "--crate-type",
            "cdylib",
        ])
        .args(["--edition", "2024", "--target", &variable("TARGET")])
        // The plugin's speed decides the speed of the measurement, so it is always optimised.
        .args([
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
        ])
        .args(linker.map(|linker| format!("-Clinker={linker}")))
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
