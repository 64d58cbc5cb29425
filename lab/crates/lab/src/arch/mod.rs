//! The architectures of guests, one file each. A new one is its file, a variant of [`Arch`], and its
//! [`Flavour`](crate::kernel::Flavour)s.

mod amd64;
mod arm64;
mod facts;
mod riscv64;

use facts::Facts;
use serde::{Deserialize, Serialize};

/// A processor architecture, by Debian's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arch {
    Amd64,
    Arm64,
    Riscv64,
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
