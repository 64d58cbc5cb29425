//! What would change a verdict.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::{Doubt, Judgement, Verdict};

/// What runs this kernel as a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// Linux KVM, under QEMU, Firecracker, Cloud Hypervisor and others.
    Kvm,
    /// Xen.
    Xen,
    /// Microsoft Hyper-V.
    HyperV,
    /// VMware.
    Vmware,
    /// Another one.
    Other,
}

/// The processor and what lies below this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Platform {
    /// What runs this kernel as a guest; `None` on bare metal, and where nothing says so.
    pub hypervisor: Option<Hypervisor>,
    /// Whether the processor is one of Intel.
    pub intel: bool,
    /// The family, model and stepping of an x86 processor, as CPUID gives them. A guest that moves to another host may get
    /// others.
    pub signature: Option<Signature>,
}

/// The number of an x86 processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Signature {
    /// Family: 26 is Zen 5.
    pub family: u32,
    /// Model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
}

impl Signature {
    /// From EAX of leaf 1 of CPUID (Intel SDM and AMD APM, CPUID Fn0000_0001_EAX).
    pub fn of(eax: u32) -> Signature {
        let field = |shift: u32, bits: u32| (eax >> shift) & ((1 << bits) - 1);
        let (base, extended) = (field(8, 4), field(20, 8));
        let extends_model = base == 0x6 || base == 0xf;
        let high = if extends_model { field(16, 4) << 4 } else { 0 };
        Signature {
            family: base + if base == 0xf { extended } else { 0 },
            model: high | field(4, 4),
            stepping: field(0, 4),
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "family {}, model {}", self.family, self.model)
    }
}

/// What would make huge text worth more on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The host backs the memory of this guest by huge pages.
    HugePagesOnTheHost,
    /// The host runs KVM with nx_huge_pages=off, where the guest is trusted or the processor not affected by iTLB multihit.
    NxHugePagesOff,
    /// A processor whose instruction TLB has more large entries.
    LaterProcessor,
    /// A kernel with transparent huge pages.
    KernelWithHugePages,
    /// The same question again, while less other work runs.
    QuietMachine,
}

/// What would change the verdict, the likeliest first. Empty where nothing needs to.
pub fn changes(judgement: &Judgement, platform: Platform) -> Vec<Change> {
    match (judgement.verdict, judgement.doubt) {
        (Verdict::WorthIt, _) => Vec::new(),
        (Verdict::StartsOnly | Verdict::Harmful, _) if !judgement.is_one_entry() => {
            match platform.hypervisor {
                Some(Hypervisor::Kvm) if platform.intel => {
                    vec![Change::HugePagesOnTheHost, Change::NxHugePagesOff]
                }
                Some(_) => vec![Change::HugePagesOnTheHost],
                None => vec![Change::LaterProcessor],
            }
        }
        (_, Some(Doubt::NoHugePages)) => vec![Change::KernelWithHugePages],
        (_, Some(Doubt::Disagreement)) => vec![Change::QuietMachine],
        _ => Vec::new(),
    }
}
