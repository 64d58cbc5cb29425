//! arm64. Programs come from bookworm, the newest kernels from the backports.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    debian: "arm64",
    machine: "aarch64",
    target: "aarch64-unknown-linux-musl",
    cargo: &[("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")],
    suites: &["bookworm", "trixie-backports"],
    security_suites: &["bookworm-security", "trixie-security"],
    loader: ("lib", "ld-linux-aarch64.so.1"),
    board: "virt,gic-version=3",
    // A processor with four-level tables and every page size.
    cpu: "neoverse-n1",
    terminal: "ttyAMA0",
    promotes: true,
};
