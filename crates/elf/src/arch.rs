//! Instruction sets: one row of [`KNOWN`] for each.

use hugetext_leaf::{Architecture, Geometry};
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

/// The instruction set of an image (e_machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
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

/// An instruction set whose images this crate can read: 64 bits, little-endian.
struct Known {
    machine: Machine,
    e_machine: elf::Machine,
    /// Its name for uname(2), Rust and QEMU.
    name: &'static str,
}

const KNOWN: [Known; 6] = [
    Known::new(Machine::X86_64, elf::EM_X86_64, "x86_64"),
    Known::new(Machine::Aarch64, elf::EM_AARCH64, "aarch64"),
    Known::new(Machine::Riscv64, elf::EM_RISCV, "riscv64"),
    Known::new(Machine::LoongArch64, elf::EM_LOONGARCH, "loongarch64"),
    // Nothing is known of these but which programs run on them.
    Known::other(elf::EM_PPC64, "powerpc64"),
    Known::other(elf::EM_MIPS, "mips64"),
];

impl Known {
    const fn new(machine: Machine, e_machine: elf::Machine, name: &'static str) -> Known {
        Known {
            machine,
            e_machine,
            name,
        }
    }

    const fn other(e_machine: elf::Machine, name: &'static str) -> Known {
        Known::new(Machine::Other(e_machine.0), e_machine, name)
    }
}

impl Machine {
    pub(crate) fn from_e_machine(value: elf::Machine) -> Machine {
        let known = KNOWN.iter().find(|known| known.e_machine == value);
        known.map_or(Machine::Other(value.0), |known| known.machine)
    }

    /// The instruction set of the machine that the command itself runs on, as
    /// `std::env::consts::ARCH` names it; `None` if no image of it can be read.
    pub fn of_arch(arch: &str) -> Option<Machine> {
        let known = KNOWN.iter().find(|known| known.name == arch);
        known.map(|known| known.machine)
    }

    /// Its name for uname(2), Rust and QEMU; `None` for an unknown one.
    pub fn name(self) -> Option<&'static str> {
        let known = KNOWN.iter().find(|known| known.machine == self);
        known.map(|known| known.name)
    }

    /// The page tables of its kernels; `None` if this project does not know them.
    fn architecture(self) -> Option<&'static Architecture> {
        self.name().and_then(Architecture::named)
    }

    /// Whether kernels of this architecture can have these page sizes; true if this project does
    /// not know the page sizes of the architecture.
    pub fn may_have(self, geometry: &Geometry) -> bool {
        let known = self.architecture();
        known.is_none_or(|known| known.geometries.contains(geometry))
    }

    /// The geometry to assume when the user names none: the one with the smallest base page of the
    /// architecture; `None` if this project does not know its leaf sizes.
    pub fn default_geometry(self) -> Option<Geometry> {
        self.architecture()?.geometries.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_with_page_tables_has_a_row() {
        for architecture in Architecture::ALL {
            let machine = Machine::of_arch(architecture.name).unwrap();
            let geometries = architecture.geometries;
            assert_eq!(machine.default_geometry(), geometries.first().copied());
            assert!(geometries.iter().all(|geometry| machine.may_have(geometry)));
        }
        assert!(!Machine::Riscv64.may_have(&Geometry::X86_64));
        assert!(Machine::LoongArch64.may_have(&Geometry::X86_64));
        assert_eq!(Machine::LoongArch64.default_geometry(), None);
    }

    #[test]
    fn programs_of_a_machine_without_page_tables_run_on_it_all_the_same() {
        let native = Machine::of_arch("powerpc64");
        assert_eq!(native, Some(Machine::from_e_machine(elf::EM_PPC64)));
        assert_eq!(
            Machine::of_arch("s390x"),
            None,
            "its programs are big-endian"
        );
    }
}
