//! Instruction sets: one row of [`KNOWN`] for each.

use hugetext_leaf::{Architecture, Class, Geometry};
use object::elf;
use schemars::JsonSchema;
use serde::Serialize;

/// The instruction set of an image (e_machine and EI_CLASS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Machine {
    /// EM_X86_64.
    #[serde(rename = "x86-64")]
    X86_64,
    /// EM_X86_64 with addresses of 32 bits.
    X32,
    /// EM_386.
    X86,
    /// EM_AARCH64.
    Aarch64,
    /// EM_ARM.
    Arm,
    /// EM_RISCV.
    Riscv64,
    /// EM_RISCV with addresses of 32 bits.
    Riscv32,
    /// EM_LOONGARCH.
    LoongArch64,
    /// EM_PPC64.
    Powerpc64,
    /// EM_PPC.
    Powerpc,
    /// EM_S390.
    S390x,
    /// EM_S390 with addresses of 32 bits.
    S390,
    /// EM_MIPS: the ABI n64.
    Mips64,
    /// EM_MIPS: the ABIs o32 and n32.
    Mips,
    /// Any other e_machine.
    Other(u16),
}

/// An instruction set.
struct Known {
    machine: Machine,
    e_machine: elf::Machine,
    class: Class,
    /// Its name for Rust.
    name: &'static str,
    /// The architectures whose kernels run it, by Rust's names. The first are those of 64 bits, since
    /// most machines have such a kernel: a program of 32 bits has its page tables.
    kernels: &'static [&'static str],
}

const KNOWN: [Known; 14] = [
    Known::wide(Machine::X86_64, elf::EM_X86_64, "x86_64", &["x86_64"]),
    Known::narrow(Machine::X32, elf::EM_X86_64, "x32", &["x86_64"]),
    Known::narrow(Machine::X86, elf::EM_386, "x86", &["x86_64", "x86"]),
    Known::wide(Machine::Aarch64, elf::EM_AARCH64, "aarch64", &["aarch64"]),
    Known::narrow(Machine::Arm, elf::EM_ARM, "arm", &["aarch64", "arm"]),
    Known::wide(Machine::Riscv64, elf::EM_RISCV, "riscv64", &["riscv64"]),
    Known::narrow(
        Machine::Riscv32,
        elf::EM_RISCV,
        "riscv32",
        &["riscv64", "riscv32"],
    ),
    Known::wide(
        Machine::LoongArch64,
        elf::EM_LOONGARCH,
        "loongarch64",
        &["loongarch64"],
    ),
    Known::wide(
        Machine::Powerpc64,
        elf::EM_PPC64,
        "powerpc64",
        &["powerpc64"],
    ),
    Known::narrow(
        Machine::Powerpc,
        elf::EM_PPC,
        "powerpc",
        &["powerpc64", "powerpc"],
    ),
    Known::wide(Machine::S390x, elf::EM_S390, "s390x", &["s390x"]),
    Known::narrow(Machine::S390, elf::EM_S390, "s390", &["s390x"]),
    Known::wide(Machine::Mips64, elf::EM_MIPS, "mips64", &["mips64"]),
    Known::narrow(Machine::Mips, elf::EM_MIPS, "mips", &["mips64", "mips"]),
];

impl Known {
    const fn wide(
        machine: Machine,
        e_machine: elf::Machine,
        name: &'static str,
        kernels: &'static [&'static str],
    ) -> Known {
        Known {
            machine,
            e_machine,
            class: Class::Bits64,
            name,
            kernels,
        }
    }

    const fn narrow(
        machine: Machine,
        e_machine: elf::Machine,
        name: &'static str,
        kernels: &'static [&'static str],
    ) -> Known {
        Known {
            class: Class::Bits32,
            ..Known::wide(machine, e_machine, name, kernels)
        }
    }
}

impl Machine {
    pub(crate) fn new(e_machine: elf::Machine, class: Class) -> Machine {
        let mut known = KNOWN.iter();
        let known = known.find(|known| (known.e_machine, known.class) == (e_machine, class));
        known.map_or(Machine::Other(e_machine.0), |known| known.machine)
    }

    fn known(self) -> Option<&'static Known> {
        KNOWN.iter().find(|known| known.machine == self)
    }

    /// Whether kernels of this architecture, by Rust's name, execute it. The order of bytes is another
    /// matter.
    pub fn runs_on(self, architecture: &str) -> bool {
        self.known()
            .is_some_and(|known| known.kernels.contains(&architecture))
    }

    /// Its name for Rust; `None` for an unknown one.
    pub fn name(self) -> Option<&'static str> {
        self.known().map(|known| known.name)
    }

    /// The page tables of the kernels that execute it, as far as this project knows them.
    fn architectures(self) -> impl Iterator<Item = &'static Architecture> {
        let kernels = self.known().map_or(&[][..], |known| known.kernels);
        kernels.iter().filter_map(|name| Architecture::named(name))
    }

    /// Whether kernels that execute it can have these page sizes; true if this project knows none.
    pub fn may_have(self, geometry: &Geometry) -> bool {
        let mut known = self.architectures();
        self.default_geometry().is_none() || known.any(|one| one.geometries.contains(geometry))
    }

    /// The geometry to assume when the user names none: the one with the smallest base page of the
    /// kernels that execute it; `None` if this project does not know its leaf sizes.
    pub fn default_geometry(self) -> Option<Geometry> {
        self.architectures().next()?.geometries.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_with_page_tables_runs_its_own_programs() {
        for architecture in Architecture::ALL {
            let own = KNOWN.iter().find(|known| known.name == architecture.name);
            let machine = own.unwrap().machine;
            assert!(machine.runs_on(architecture.name));
            let geometries = architecture.geometries;
            assert!(geometries.iter().all(|geometry| machine.may_have(geometry)));
        }
        assert!(!Machine::Riscv64.may_have(&Geometry::X86_64));
        assert!(Machine::LoongArch64.may_have(&Geometry::X86_64));
        assert_eq!(Machine::LoongArch64.default_geometry(), None);
    }

    #[test]
    fn a_program_of_32_bits_has_the_page_tables_of_the_kernel_of_64() {
        let x86 = Machine::new(elf::EM_386, Class::Bits32);
        assert!(x86.runs_on("x86_64") && x86.runs_on("x86") && !x86.runs_on("aarch64"));
        assert_eq!(x86.default_geometry(), Some(Geometry::X86_64));
        assert_eq!(Machine::Arm.default_geometry(), Some(Geometry::ARM64_4K));
        assert!(Machine::Arm.may_have(&Geometry::ARM_LPAE));
        assert!(!Machine::X86_64.runs_on("x86"), "a kernel of 32 bits");
    }

    #[test]
    fn the_class_tells_instruction_sets_apart() {
        assert_eq!(Machine::new(elf::EM_MIPS, Class::Bits64), Machine::Mips64);
        assert_eq!(Machine::new(elf::EM_MIPS, Class::Bits32), Machine::Mips);
        let unknown = Machine::new(elf::EM_386, Class::Bits64);
        assert_eq!(unknown, Machine::Other(elf::EM_386.0));
        assert!(!unknown.runs_on("x86_64"));
    }
}
