//! 64-bit MIPS, the ABI n64 (sysdeps/unix/sysv/linux/mips/configure.ac). The kernel gives no AT_PLATFORM
//! before 5.4, and one that names the processor since (arch/mips/include/asm/elf.h).

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib64/ld.so.1",
    platform: None,
    lib: None,
};
