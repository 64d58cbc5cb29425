//! The instruction sets of 32 bits. None of them gets an AT_PLATFORM that this project could know without
//! the processor: `i686`, `v7l` and the like name it.

use hugetext_elf::Machine;

use super::facts::Facts;

/// The facts of an instruction set of 32 bits; `None` if it is not one that glibc has a loader for.
pub(super) fn facts(machine: Machine) -> Option<Facts> {
    let interpreter = match machine {
        Machine::X86 => "/lib/ld-linux.so.2",
        Machine::X32 => "/libx32/ld-linux-x32.so.2",
        // Of hardware floating point, which all distributions have.
        Machine::Arm => "/lib/ld-linux-armhf.so.3",
        Machine::Riscv32 => "/lib/ld-linux-riscv32-ilp32d.so.1",
        Machine::Powerpc | Machine::S390 | Machine::Mips => "/lib/ld.so.1",
        _ => return None,
    };
    Some(Facts {
        interpreter,
        platform: None,
        lib: None,
    })
}
