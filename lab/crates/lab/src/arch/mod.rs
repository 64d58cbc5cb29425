//! The architectures of guests, one file each. A new one is its file, a variant of [`Arch`], and its
//! [`Flavour`](crate::kernel::Flavour)s.

mod amd64;
mod arm64;
mod riscv64;

use serde::{Deserialize, Serialize};

/// A processor architecture, by Debian's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arch {
    Amd64,
    Arm64,
    Riscv64,
}

/// What the lab must know of an architecture.
pub(crate) struct Facts {
    /// The name in Debian packages.
    pub(crate) debian: &'static str,
    /// The first word of compilers' triples and of the name of QEMU's command, as uname(2) has it.
    pub(crate) machine: &'static str,
    /// Rust's target for programs that run on any guest without libraries.
    pub(crate) target: &'static str,
    /// Environment of cargo for that target.
    pub(crate) cargo: &'static [(&'static str, &'static str)],
    /// Suites of the main archive that have its programs and kernels.
    pub(crate) suites: &'static [&'static str],
    /// Suites of the security archive, which has the newest builds of a release's own kernel.
    pub(crate) security_suites: &'static [&'static str],
    /// The directory and name of glibc's loader.
    pub(crate) loader: (&'static str, &'static str),
    /// QEMU's machine.
    pub(crate) board: &'static str,
    /// QEMU's processor.
    pub(crate) cpu: &'static str,
    /// The device of the console.
    pub(crate) terminal: &'static str,
    /// Whether the command promotes there.
    pub(crate) promotes: bool,
}

impl Arch {
    pub(crate) const ALL: [Arch; 3] = [Arch::Amd64, Arch::Arm64, Arch::Riscv64];

    pub(crate) const fn facts(self) -> &'static Facts {
        match self {
            Arch::Amd64 => &amd64::FACTS,
            Arch::Arm64 => &arm64::FACTS,
            Arch::Riscv64 => &riscv64::FACTS,
        }
    }

    /// The name in Debian packages.
    pub(crate) fn debian(self) -> &'static str {
        self.facts().debian
    }

    /// The first word of compilers' triples and of the name of QEMU's command.
    pub(crate) fn machine(self) -> &'static str {
        self.facts().machine
    }
}
