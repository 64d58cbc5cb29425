//! What the processor is, and what runs this kernel as a guest.

use hugetext_leaf::verdict::Platform;

/// The processor and the hypervisor, as the processor tells them.
#[cfg(target_arch = "x86_64")]
pub fn platform() -> Platform {
    Platform {
        hypervisor: hypervisor(),
        intel: vendor(0) == *b"GenuineIntel",
        signature: Some(hugetext_leaf::verdict::Signature::of(cpuid(1).eax)),
    }
}

/// Whether the processor is one of QEMU's emulator, whose TLB is not that of hardware.
#[cfg(target_arch = "x86_64")]
pub fn is_emulated() -> bool {
    has_hypervisor() && vendor(HYPERVISOR_LEAF) == *b"TCGTCGTCGTCG"
}

/// The leaf of CPUID in which hypervisors give their name.
#[cfg(target_arch = "x86_64")]
const HYPERVISOR_LEAF: u32 = 0x4000_0000;

/// A leaf of CPUID.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
    // SAFETY: every processor of x86-64 has the instruction CPUID, and it changes nothing but the registers that it answers in.
    #[allow(unused_unsafe, reason = "safe since Rust 1.94")]
    unsafe {
        std::arch::x86_64::__cpuid(leaf)
    }
}

/// The name in EBX, ECX and EDX, or of leaf 0 in EBX, EDX and ECX.
#[cfg(target_arch = "x86_64")]
fn vendor(leaf: u32) -> [u8; 12] {
    let answer = cpuid(leaf);
    let words = match leaf {
        0 => [answer.ebx, answer.edx, answer.ecx],
        _ => [answer.ebx, answer.ecx, answer.edx],
    };
    let mut name = [0; 12];
    for (to, word) in name.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    name
}

/// Bit 31 of ECX of leaf 1: hypervisors set it, and hardware does not.
#[cfg(target_arch = "x86_64")]
fn has_hypervisor() -> bool {
    cpuid(1).ecx >> 31 == 1
}

#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<hugetext_leaf::verdict::Hypervisor> {
    use hugetext_leaf::verdict::Hypervisor;
    has_hypervisor().then(|| match &vendor(HYPERVISOR_LEAF) {
        b"KVMKVMKVM\0\0\0" => Hypervisor::Kvm,
        b"XenVMMXenVMM" => Hypervisor::Xen,
        b"Microsoft Hv" => Hypervisor::HyperV,
        b"VMwareVMware" => Hypervisor::Vmware,
        _ => Hypervisor::Other,
    })
}

/// The processor and the hypervisor. The device tree of arm64 and RISC-V names a hypervisor, if there is one.
#[cfg(not(target_arch = "x86_64"))]
pub fn platform() -> Platform {
    use hugetext_leaf::verdict::Hypervisor;
    let said = std::fs::read("/proc/device-tree/hypervisor/compatible");
    let named = said.ok().map(|said| match said.as_slice() {
        said if said.starts_with(b"linux,kvm") => Hypervisor::Kvm,
        said if said.starts_with(b"xen") => Hypervisor::Xen,
        _ => Hypervisor::Other,
    });
    Platform {
        hypervisor: named,
        intel: false,
        signature: None,
    }
}

/// Whether the processor is emulated, as far as something says so. The times of calls tell it, too.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_emulated() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_the_same() {
        let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else {
            return println!("skipped: no /proc/cpuinfo");
        };
        let flags = info.lines().find(|line| line.starts_with("flags"));
        let Some(flags) = flags else {
            return println!("skipped: no flags in /proc/cpuinfo");
        };
        let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
        assert_eq!(platform().hypervisor.is_some(), is_guest);
        assert_eq!(platform().intel, info.contains("GenuineIntel"));
        let family = info.lines().find(|line| line.starts_with("cpu family"));
        let family = family.and_then(|line| line.split_once(':')?.1.trim().parse().ok());
        assert_eq!(platform().signature.map(|number| number.family), family);
    }
}
