//! 64-bit RISC-V, which Debian has since trixie. One kernel of that release is enough; the backports have
//! none for it.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    debian: "riscv64",
    machine: "riscv64",
    // Debian has the glibc that is linked statically here, but no musl for cross compilers.
    target: "riscv64gc-unknown-linux-gnu",
    cargo: &[
        (
            "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER",
            "riscv64-linux-gnu-gcc",
        ),
        (
            "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Ctarget-feature=+crt-static",
        ),
    ],
    suites: &["trixie"],
    security_suites: &[],
    loader: ("lib", "ld-linux-riscv64-lp64d.so.1"),
    board: "virt",
    // With Svnapot, in case that a kernel uses it.
    cpu: "rv64,svnapot=true",
    terminal: "ttyS0",
    promotes: false,
};
