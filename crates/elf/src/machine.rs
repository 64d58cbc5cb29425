//! Instruction sets.

use hugetext_leaf::Geometry;
use object::elf;
use serde::Serialize;

/// The instruction set of an image (e_machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Machine {
    /// EM_X86_64.
    #[serde(rename = "x86-64")]
    X86_64,
    /// EM_AARCH64.
    Aarch64,
    /// EM_RISCV.
    Riscv64,
    /// EM_LOONGARCH.
    LoongArch64,
    /// Any other e_machine.
    Other(u16),
}

impl Machine {
    pub(crate) fn from_e_machine(value: elf::Machine) -> Machine {
        match value {
            elf::EM_X86_64 => Machine::X86_64,
            elf::EM_AARCH64 => Machine::Aarch64,
            elf::EM_RISCV => Machine::Riscv64,
            elf::EM_LOONGARCH => Machine::LoongArch64,
            other => Machine::Other(other.0),
        }
    }

    /// The instruction set that the command itself runs on, as `std::env::consts::ARCH` names it.
    pub fn of_arch(arch: &str) -> Machine {
        match arch {
            "x86_64" => Machine::X86_64,
            "aarch64" => Machine::Aarch64,
            "riscv64" => Machine::Riscv64,
            "loongarch64" => Machine::LoongArch64,
            _ => Machine::Other(0),
        }
    }

    /// Whether kernels of this architecture can have these page sizes; true if this project does
    /// not know the page sizes of the architecture.
    pub fn may_have(self, geometry: &Geometry) -> bool {
        match self {
            Machine::X86_64 => *geometry == Geometry::X86_64,
            Machine::Aarch64 => *geometry != Geometry::X86_64,
            _ => true,
        }
    }

    /// The geometry to assume when the user names none: the one with the smallest base page of the
    /// architecture; `None` if this project does not know its leaf sizes.
    pub fn default_geometry(self) -> Option<Geometry> {
        match self {
            Machine::X86_64 => Some(Geometry::X86_64),
            Machine::Aarch64 => Some(Geometry::ARM64_4K),
            _ => None,
        }
    }
}
