//! 64-bit RISC-V with hardware floating point (lp64d). glibc puts its libraries into a directory of that
//! ABI's name, unless a distribution has directories by triplet
//! (sysdeps/unix/sysv/linux/riscv/configure.ac). The kernel gives no AT_PLATFORM
//! (arch/riscv/include/asm/elf.h).

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib/ld-linux-riscv64-lp64d.so.1",
    platform: None,
    lib: Some("lib64/lp64d"),
};
