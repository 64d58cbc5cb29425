//! x86-64. Programs come from bookworm, the newest kernels from the backports.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    debian: "amd64",
    machine: "x86_64",
    target: "x86_64-unknown-linux-musl",
    cargo: &[],
    suites: &["bookworm", "trixie-backports"],
    security_suites: &["bookworm-security", "trixie-security"],
    loader: ("lib64", "ld-linux-x86-64.so.2"),
    board: "q35",
    cpu: "max",
    terminal: "ttyS0",
    promotes: true,
};
