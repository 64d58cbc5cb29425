//! What glibc's loader is and does on each architecture, one file each. musl's follows from its name.
//! A new architecture is its file and its line in [`Facts::of`].

mod aarch64;
mod facts;
mod loongarch64;
mod mips64;
mod narrow;
mod powerpc64;
mod riscv64;
mod s390x;
mod x86_64;

use hugetext_elf::{Encoding, Machine};

pub(crate) use facts::Facts;

impl Facts {
    /// The facts of an instruction set; for an unknown one, those that cannot mislead.
    pub(crate) fn of(machine: Machine, encoding: Encoding) -> Facts {
        match machine {
            Machine::X86_64 => x86_64::FACTS,
            Machine::Aarch64 => aarch64::FACTS,
            Machine::Riscv64 => riscv64::FACTS,
            Machine::LoongArch64 => loongarch64::FACTS,
            Machine::Mips64 => mips64::FACTS,
            Machine::Powerpc64 => powerpc64::facts(encoding.order),
            Machine::S390x => s390x::FACTS,
            other => narrow::facts(other).unwrap_or(Facts {
                interpreter: "/lib/ld.so",
                platform: None,
                lib: None,
            }),
        }
    }
}

/// The subdirectories of glibc-hwcaps that this processor may use, best first.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hwcaps() -> Vec<&'static str> {
    x86_64::hwcaps()
}

/// glibc names none for the other architectures that this project knows.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hwcaps() -> Vec<&'static str> {
    Vec::new()
}
