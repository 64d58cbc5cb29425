//! QEMU's command line for a guest. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hugetext_lab_agent::PORT;

use crate::arch::Arch;

/// A guest to be started.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) arch: Arch,
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    pub(crate) disks: Vec<PathBuf>,
    /// Whether the disks are NVMe devices, for kernels without virtio_blk.
    pub(crate) nvme: bool,
    pub(crate) cpus: u32,
    /// In MiB.
    pub(crate) memory: u32,
    /// NUMA nodes, each with an equal part of processors and memory.
    pub(crate) nodes: u32,
    /// One guest instruction counts as one nanosecond, so that times do not depend on the host.
    pub(crate) icount: bool,
    /// More words for the kernel's command line.
    pub(crate) append: String,
    /// The path of the console log; `None` connects the console to the terminal.
    pub(crate) console: Option<PathBuf>,
}

/// The QEMU program for guests of `arch`.
pub(crate) fn program(arch: Arch) -> String {
    format!("qemu-system-{}", arch.machine())
}

impl Machine {
    /// The arguments. Standard output is the connection to the lab, unless the terminal uses it.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
        let facts = self.arch.facts();
        add(&[
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        add(&["-machine", facts.board, "-cpu", facts.cpu]);
        add(&[
            "-smp",
            &self.cpus.to_string(),
            "-m",
            &self.memory.to_string(),
        ]);
        for words in self.numa() {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            add(&words);
        }
        if self.icount {
            add(&[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
            ]);
        } else {
            add(&["-accel", "tcg,thread=multi"]);
        }
        add(&["-kernel"]);
        line.push(self.kernel.clone().into());
        line.push("-initrd".into());
        line.push(self.initramfs.clone().into());
        let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
        // A panic or an oops resets the machine at once; -no-reboot makes that the end of QEMU. On
        // a busy host, a guest may miss timer ticks for so long that it takes its timer for broken.
        add(&[
            "-append",
            &format!(
                "console={} panic=-1 oops=panic loglevel=5 mitigations=off no_timer_check {}",
                facts.terminal, self.append
            ),
        ]);
        let (console, port) = match &self.console {
            Some(path) => (
                option("file,id=console,path=", path, ""),
                "file,id=port,path=/dev/stdout",
            ),
            None => (
                "stdio,id=console,signal=off".into(),
                "file,id=port,path=/dev/null",
            ),
        };
        line.push("-chardev".into());
        line.push(console);
        let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
        add(&["-serial", "chardev:console", "-chardev", port]);
        add(&["-device", "virtio-serial-pci"]);
        add(&[
            "-device",
            &format!("virtserialport,chardev=port,name={PORT}"),
        ]);
        if self.nvme {
            add(&["-device", "nvme,id=nvme,serial=lab"]);
        }
        for (number, disk) in self.disks.iter().enumerate() {
            let end = format!(",id=disk{number},if=none,format=raw,cache=unsafe");
            line.push("-drive".into());
            line.push(option("file=", disk, &end));
            line.push("-device".into());
            line.push(if self.nvme {
                format!("nvme-ns,drive=disk{number},bus=nvme,nsid={}", number + 1).into()
            } else {
                format!("virtio-blk-pci,drive=disk{number}").into()
            });
        }
        line
    }
}

impl Machine {
    /// The options of the nodes; none for a machine of one node, which has no NUMA.
    fn numa(&self) -> Vec<[String; 4]> {
        if self.nodes < 2 {
            return Vec::new();
        }
        // The first processor of a node, and the first MiB of its memory.
        let first = |all: u32, node: u32| u64::from(all) * u64::from(node) / u64::from(self.nodes);
        let options = |node: u32| {
            let size = first(self.memory, node + 1) - first(self.memory, node);
            let (cpu, next) = (first(self.cpus, node), first(self.cpus, node + 1));
            let cpus = if next > cpu {
                format!(",cpus={cpu}-{}", next - 1)
            } else {
                String::new()
            };
            [
                "-object".to_owned(),
                format!("memory-backend-ram,id=node{node},size={size}M"),
                "-numa".to_owned(),
                format!("node,nodeid={node},memdev=node{node}{cpus}"),
            ]
        };
        (0..self.nodes).map(options).collect()
    }
}

/// An option that contains a path. QEMU needs commas in it doubled.
fn option(before: &str, path: &Path, after: &str) -> OsString {
    let path = path.to_string_lossy().replace(',', ",,");
    format!("{before}{path}{after}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            arch: Arch::Arm64,
            kernel: "/k".into(),
            initramfs: "/i".into(),
            disks: vec!["/a,b".into()],
            nvme: false,
            cpus: 2,
            memory: 512,
            nodes: 1,
            icount: true,
            append: String::new(),
            console: Some("/c".into()),
        }
    }

    fn words(machine: &Machine) -> Vec<String> {
        let arguments = machine.arguments();
        arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn icount_runs_one_thread_and_commas_are_doubled() {
        let words = words(&machine());
        assert!(words.contains(&"tcg,thread=single".to_owned()));
        assert!(
            words
                .iter()
                .any(|word| word.starts_with("file=/a,,b,id=disk0"))
        );
    }

    #[test]
    fn nodes_share_processors_and_memory() {
        let machine = Machine {
            nodes: 2,
            cpus: 3,
            ..machine()
        };
        let words = words(&machine);
        for word in [
            "memory-backend-ram,id=node1,size=256M",
            "node,nodeid=0,memdev=node0,cpus=0-0",
            "node,nodeid=1,memdev=node1,cpus=1-2",
        ] {
            assert!(words.contains(&word.to_owned()), "{word}: {words:?}");
        }
    }

    #[test]
    fn disks_of_a_kernel_without_virtio_are_namespaces_of_one_controller() {
        let machine = Machine {
            nvme: true,
            ..machine()
        };
        assert!(words(&machine).contains(&"nvme-ns,drive=disk0,bus=nvme,nsid=1".to_owned()));
    }
}
