//! The machine: facts about its kernel, its pages and its memory.

mod cgroup;
mod kernel_config;
mod memory;
mod nodes;
mod platform;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::sync::OnceLock;

use hugetext_leaf::{
    Architecture, Condition, Conditions, Geometry, Kernel, Leaf, Setting, Version, architecture_of,
};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use cgroup::unified_group;
pub use cgroup::{
    GroupOwners, cgroups, container_id, is_frozen, is_memory_limited, memory_group, memory_limit,
    memory_limit_of, processor_quota,
};
pub use memory::available as available_memory;
pub(crate) use nodes::allowed_processors;
pub use nodes::{NodeInfo, Nodes, bind_to_processors, current_node, own_processors};

pub use platform::{is_emulated, platform};

/// A THP setting: /sys/kernel/mm/transparent_hugepage/enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThpMode {
    /// Every eligible mapping.
    Always,
    /// Mappings with MADV_HUGEPAGE.
    Madvise,
    /// None.
    Never,
    /// The kernel has no transparent huge pages.
    Unavailable,
}

impl fmt::Display for ThpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ThpMode::Always => "always",
            ThpMode::Madvise => "madvise",
            ThpMode::Never => "never",
            ThpMode::Unavailable => "unavailable",
        })
    }
}

/// The facts that decide about leaves on this machine. Reading them takes a millisecond or less.
#[derive(Debug, Clone)]
pub struct Paging {
    /// The release string of uname.
    pub release: String,
    /// The kernel for the rules; `None` if the release does not begin with numbers.
    pub kernel: Option<Kernel>,
    /// The base page.
    pub page: Leaf,
    /// The PMD leaf; `None` without transparent huge pages.
    pub pmd: Option<Leaf>,
    /// The leaf sizes of this architecture and base page, if they are known. For an architecture
    /// that this project does not know, they are what the kernel gives.
    pub geometry: Option<Geometry>,
}

impl Paging {
    /// Reads the facts of the running kernel.
    pub fn this() -> Paging {
        let (release, page) = (release(), page());
        Paging {
            kernel: release
                .parse()
                .ok()
                .map(|version| kernel(version, &release)),
            release,
            page,
            pmd: pmd_leaf(),
            geometry: geometry(architecture(), page, pmd_leaf()),
        }
    }
}

/// The kernel and page sizes of this machine, with facts that tell machines apart.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Machine {
    /// The release string of uname.
    pub release: String,
    /// The version in the release; `None` if it does not begin with numbers.
    pub kernel: Option<Version>,
    /// The kernel's, e.g. `x86_64`.
    pub arch: &'static str,
    /// The base page.
    pub page: Leaf,
    /// The PMD leaf; `None` without transparent huge pages.
    pub pmd: Option<Leaf>,
    /// The leaf sizes of this architecture and base page, if they are known. For an architecture
    /// that this project does not know, they are what the kernel gives.
    pub geometry: Option<Geometry>,
    /// The THP setting for anonymous memory.
    pub thp: ThpMode,
    /// Processors online.
    pub cpus: usize,
    /// The model name of the processors; `None` if the kernel does not give it.
    pub processor: Option<String>,
    /// Memory, bytes.
    pub memory: u64,
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

impl fmt::Display for Machine {
    /// The facts on one line, for readers of figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processor = self.processor.as_deref().unwrap_or(self.arch);
        write!(
            f,
            "Linux {} on {} x {processor}, {:.0} GiB, {} pages, THP {}",
            self.release,
            self.cpus,
            self.memory as f64 / (1u64 << 30) as f64,
            self.page,
            self.thp,
        )
    }
}

impl Machine {
    /// Reads the facts of the running kernel.
    pub fn this() -> Machine {
        let (release, page) = (release(), page());
        Machine {
            kernel: release.parse().ok(),
            release,
            arch: architecture(),
            page,
            pmd: pmd_leaf(),
            geometry: geometry(architecture(), page, pmd_leaf()),
            thp: thp_mode(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(),
            memory: memory::total(),
        }
    }
}

/// The identity of this boot: another one after each, also of a copied disk.
pub fn boot_id() -> io::Result<String> {
    let said = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(said.trim().to_owned())
}

fn release() -> String {
    let system = rustix::system::uname();
    system.release().to_string_lossy().into_owned()
}

fn page() -> Leaf {
    Leaf::from_bytes(rustix::param::page_size() as u64).unwrap_or(Leaf::K4)
}

/// The running kernel. Its settings are read only if they matter.
fn kernel(version: Version, release: &str) -> Kernel {
    let usual = Conditions::usual();
    let met = Condition::ALL.into_iter().filter(|condition| {
        if condition.matters(version) {
            is_met(*condition, release)
        } else {
            usual.contains(*condition)
        }
    });
    Kernel {
        version,
        met: met.collect(),
    }
}

/// Whether the running kernel meets a condition. A tunable that cannot be read breaks none.
fn is_met(condition: Condition, release: &str) -> bool {
    match condition.setting() {
        Setting::Config(option) => kernel_config::built_in(option, release),
        Setting::Tunable { path, off } => chosen(path).as_deref() != Some(off),
    }
}

/// The PMD leaf; `None` without transparent huge pages.
pub(crate) fn pmd_leaf() -> Option<Leaf> {
    static LEAF: OnceLock<Option<Leaf>> = OnceLock::new();
    let read = || read_number(&format!("{THP}/hpage_pmd_size")).and_then(Leaf::from_bytes);
    *LEAF.get_or_init(read)
}

/// The architecture of the kernel, as Rust names it. It can be another one than that of this command,
/// which may be a program of 32 bits on a kernel of 64.
pub fn architecture() -> &'static str {
    static ARCHITECTURE: OnceLock<&str> = OnceLock::new();
    ARCHITECTURE.get_or_init(|| {
        let system = rustix::system::uname();
        let known = architecture_of(&system.machine().to_string_lossy());
        known.unwrap_or(std::env::consts::ARCH)
    })
}

/// The leaf sizes of an architecture that this project knows; otherwise those that the kernel gives.
fn geometry(arch: &str, page: Leaf, pmd: Option<Leaf>) -> Option<Geometry> {
    let known = Architecture::named(arch).and_then(|known| known.with(page, pmd));
    known.or(pmd.map(|pmd| Geometry::native(page, pmd)))
}

/// The model name in /proc/cpuinfo on x86; arm64 gives numbers only. Only the entry of the first
/// processor is read: every command reads it at its start, and machines may have hundreds of
/// entries.
fn processor() -> Option<String> {
    let info = BufReader::new(File::open("/proc/cpuinfo").ok()?);
    let first = info
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let mut fields = first.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    fields.next()
}

/// The THP setting for anonymous memory.
pub fn thp_mode() -> ThpMode {
    match chosen(&format!("{THP}/enabled")).as_deref() {
        Some("always") => ThpMode::Always,
        Some("madvise") => ThpMode::Madvise,
        Some("never") => ThpMode::Never,
        _ => ThpMode::Unavailable,
    }
}

/// The word in brackets of a sysfs file that lists all its values.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.split(['[', ']']).nth(1).map(str::to_owned)
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The version of the C library that this program runs on, as (major, minor). `None` if it is not
/// glibc; that tells nothing about other programs of the machine.
pub fn glibc_version() -> Option<(u32, u32)> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: gnu_get_libc_version() returns a pointer to a static NUL-terminated string.
        let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        let (major, minor) = text.to_str().ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_the_kernel_that_runs_the_test() {
        let machine = Machine::this();
        assert!(machine.kernel.is_some());
        assert!(machine.cpus > 0);
        if let (Some(geometry), Some(pmd)) = (machine.geometry, machine.pmd) {
            assert_eq!(geometry.pmd, pmd);
        }
    }

    #[test]
    fn an_unknown_architecture_has_the_leaves_that_its_kernel_gives() {
        let of = |arch, page, pmd| geometry(arch, page, pmd).map(|found| found.to_string());
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(of("aarch64", Leaf::K16, None), name("arm64-16k"));
        assert_eq!(of("riscv64", Leaf::K4, Some(Leaf::M2)), name("riscv64"));
        assert_eq!(
            of("loongarch64", Leaf::K16, Some(Leaf::M32)),
            name("native")
        );
        assert_eq!(of("s390x", Leaf::K4, Some(Leaf::M2)), name("native"));
        assert_eq!(
            of("sparc64", Leaf::K4, None),
            None,
            "no transparent huge pages"
        );
    }
}
