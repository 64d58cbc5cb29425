//! A process to promote: whether it may be changed, and what it maps.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::{
    Pid, ProcessStatus, Tid, changed_pages, file_id, filesystem_of, huge_spans, parse_mappings,
    perms, pmd_mapped, proc_is_own, threads,
};
use hugetext_leaf::{CopyName, FileId, Filesystem, Leaf, Obstacle, Perms, ProcessVma, Span};
use procfs::FromRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::arch::{Architecture, Native};
use crate::refusal::Refusal;

/// A process that may be promoted.
///
/// Its pidfd does not reserve its number: once the process has been waited for, another one may get
/// the number. So what was found under the number counts only if the process has not ended
/// afterwards, which the pidfd tells.
#[derive(Debug)]
pub struct Target {
    pid: Pid,
    pidfd: OwnedFd,
    memory: File,
    pagemap: File,
    max_pause: Option<Duration>,
}

impl Target {
    /// Opens a process and checks everything that can be checked before it is stopped.
    pub fn open(pid: Pid) -> Result<Target, Refusal> {
        if !Native::SUPPORTED {
            return Err(Refusal::Architecture);
        }
        if pid == Pid::own() {
            return Err(Refusal::Own);
        }
        if !proc_is_own() {
            return Err(Refusal::ForeignProc);
        }
        let pidfd = pidfd_open(pid.into(), PidfdFlags::empty())
            .map_err(|error| Refusal::from(io::Error::from(error)))?;
        let status = ProcessStatus::of(pid)?;
        if status.is_ending() {
            let lives = |tid: &Tid| {
                let status = ProcessStatus::of_thread_in(pid, *tid);
                status.is_ok_and(|status| !status.is_ending())
            };
            return Err(if threads(pid).map_err(Refusal::from)?.iter().any(lives) {
                Refusal::Headless
            } else {
                Refusal::Exiting
            });
        }
        if status.field("VmSize").is_none() {
            let stat = Stat::from_file(format!("/proc/{pid}/stat"));
            return Err(stat.map_or(Refusal::Gone, |stat| Refusal::without_memory(stat.flags)));
        }
        if let Some(by) = status.tracer() {
            return Err(Refusal::Traced { by });
        }
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user"));
        let own = namespace("self").map_err(Refusal::Io)?;
        if namespace(&pid.to_string()).map_err(Refusal::from)? != own {
            return Err(Refusal::UserNamespace);
        }
        for thread in threads(pid).map_err(Refusal::from)? {
            match ProcessStatus::of_thread_in(pid, thread).map_err(Refusal::from) {
                Ok(status) if status.first("Seccomp").unwrap_or(0) != 0 => {
                    return Err(Refusal::Seccomp);
                }
                Ok(_) | Err(Refusal::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        if status.first("THP_enabled") == Some(0) {
            return Err(Refusal::ThpDisabled);
        }
        let exe = File::open(format!("/proc/{pid}/exe")).map_err(Refusal::from)?;
        if let Some(by) = translator(pid).map_err(Refusal::from)? {
            return Err(Refusal::Translated(by));
        }
        if !is_native(&exe).map_err(Refusal::from)? {
            return Err(Refusal::Foreign);
        }
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"));
        let target = Target {
            pid,
            pidfd,
            memory: memory.map_err(Refusal::from)?,
            pagemap: File::open(format!("/proc/{pid}/pagemap")).map_err(Refusal::from)?,
            max_pause: None,
        };
        target.ensure_alive()?;
        Ok(target)
    }

    /// An error if the process has ended. Otherwise its number has been its own until now.
    pub(crate) fn ensure_alive(&self) -> Result<(), Refusal> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(
            &mut [PollFd::new(&self.pidfd, PollFlags::IN)],
            Some(&at_once),
        ) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Refusal::Gone),
            Err(error) => Err(Refusal::Io(error.into())),
        }
    }

    /// Why its memory can no longer be read: the process has ended, ends, or executed another program.
    pub(crate) fn memory_gone(&self) -> Refusal {
        if let Err(ended) = self.ensure_alive() {
            return ended;
        }
        match ProcessStatus::of(self.pid) {
            Ok(status) if status.field("VmSize").is_some() => Refusal::Executed,
            Ok(_) => Refusal::Exiting,
            Err(gone) => gone.into(),
        }
    }

    /// Bounds each stop of the process. A change that would take longer is given up and undone
    /// ([`SwapError::TooLong`](crate::SwapError::TooLong)). The kernel may take longer for one call than
    /// for those before it, so the bound can be exceeded by such a call. Where threads get no processor, it can be
    /// exceeded by a tenth of a second.
    pub fn with_max_pause(self, max_pause: Option<Duration>) -> Target {
        Target { max_pause, ..self }
    }

    pub(crate) fn max_pause(&self) -> Option<Duration> {
        self.max_pause
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its pidfd.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Reads its memory, even if the access rights of the mapping forbid it.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(buffer, address)
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// The pages of `addresses` that are no longer pages of their file.
    pub(crate) fn changed_pages(&self, addresses: Span) -> io::Result<Vec<Span>> {
        changed_pages(&self.pagemap, addresses)
    }

    /// The thread ids at this moment.
    pub(crate) fn threads(&self) -> io::Result<Vec<Tid>> {
        threads(self.pid)
    }

    /// Whether a thread executes text. The kernel's own threads in a process, those of io_uring
    /// and vhost, share its memory but never return to user mode. They cannot make an injected
    /// call, and a stop would end the call in which they wait. A thread whose state cannot be read
    /// has ended.
    pub(crate) fn executes(&self, tid: Tid) -> bool {
        /// include/linux/sched.h: "Task is an IO worker", "Kernel thread cloned from userspace thread"
        /// (since Linux 6.4).
        const PF_IO_WORKER: u32 = 0x10;
        const PF_USER_WORKER: u32 = 0x4000;
        Stat::from_file(format!("/proc/{}/task/{tid}/stat", self.pid))
            .is_ok_and(|stat| stat.flags & (PF_IO_WORKER | PF_USER_WORKER) == 0)
    }

    /// All its mappings, with the facts about its text that a plan needs.
    pub fn mappings(&self) -> io::Result<Mappings> {
        let text = fs::read(format!("/proc/{}/smaps", self.pid))?;
        let maps = parse_mappings(&text)?;
        // Only paths may hold bytes that are not UTF-8.
        let text = String::from_utf8_lossy(&text);
        if text.is_empty() {
            // The process has given up its memory: it is ending.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let flags = text
            .lines()
            .filter_map(|line| line.strip_prefix("VmFlags:"));
        let mut mappings = Mappings::default();
        for (map, flags) in maps.into_iter().zip(flags) {
            let flags: BTreeSet<&str> = flags.split_whitespace().collect();
            let path = path_of(&map);
            let mut vma = vma_of(&map, path.as_deref(), &flags);
            if vma.perms.exec && vma.file.is_some() && vma.obstacle.is_none() {
                vma.changed = self.changed_pages(vma.addresses)?;
                vma.huge = self.huge_spans(&map, vma.addresses)?;
            }
            if matches!(map.pathname, MMapPath::Vdso) {
                mappings.vdso = Some(vma.addresses);
            }
            mappings.vmas.push(vma);
            mappings.paths.push(path);
        }
        self.look_at_data(&mut mappings)?;
        Ok(mappings)
    }

    /// Looks for changed pages in the read-only data beside text: a plan may join it with the text.
    fn look_at_data(&self, mappings: &mut Mappings) -> io::Result<()> {
        let vmas = &mappings.vmas;
        // A copy of the text is of another file.
        let is_text = |vma: Option<&ProcessVma>| vma.is_some_and(|vma| vma.perms.exec);
        let beside_text = |index: usize| {
            vmas.get(index).is_some_and(|data| {
                let before = index.checked_sub(1).and_then(|before| vmas.get(before));
                let may_join = data.file.is_some() && data.obstacle.is_none();
                let read_only = data.perms.read && !data.perms.write && !data.perms.exec;
                let beside = is_text(before) || is_text(vmas.get(index + 1));
                may_join && read_only && beside
            })
        };
        let data: Vec<usize> = (0..vmas.len())
            .filter(|index| beside_text(*index))
            .collect();
        for index in data {
            if let Some(vma) = mappings.vmas.get_mut(index) {
                vma.changed = self.changed_pages(vma.addresses)?;
            }
        }
        Ok(())
    }

    fn huge_spans(&self, map: &MemoryMap, addresses: Span) -> io::Result<Vec<Span>> {
        match (pmd_mapped(map), huge_spans(&self.pagemap, addresses)) {
            (0, _) => Ok(Vec::new()),
            // Before PAGEMAP_SCAN (Linux 6.7), only the sum is known. The windows count as huge
            // only if the sum covers all of them.
            (bytes, Err(error)) if error.raw_os_error() == Some(libc::ENOTTY) => {
                let windows = Span::new(
                    Leaf::M2.align_up(addresses.start),
                    Leaf::M2.align_down(addresses.end),
                );
                Ok(if bytes >= windows.len() {
                    vec![windows]
                } else {
                    Vec::new()
                })
            }
            (_, spans) => spans,
        }
    }

    /// The file mapped at `addresses`. It is opened through map_files if the capabilities permit
    /// that: map_files names the inode itself, even if its path now leads elsewhere. Otherwise it
    /// is opened by its path, if the path still leads to that inode.
    pub fn file_at(&self, addresses: Span, path: Option<&Path>, file: FileId) -> io::Result<File> {
        let Span { start, end } = addresses;
        let link = format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid);
        let by_link = File::open(link);
        let (Err(error), Some(path)) = (&by_link, path) else {
            return by_link;
        };
        let inside = path.strip_prefix("/").unwrap_or(path);
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let by_path = File::open(root.join(inside))?;
        let metadata = by_path.metadata()?;
        if (metadata.dev(), metadata.ino()) != (file.dev, file.ino) {
            // An overlay shows its own inodes, and maps files of the filesystems below it.
            let what = match filesystem_of(&by_path)? {
                Filesystem::Overlay => "its file lies below an overlay",
                _ => "its file was replaced",
            };
            let reason = format!("{what}, and only root can open it: {error}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(by_path)
    }
}

/// All mappings of a process, by address.
#[derive(Debug, Default)]
pub struct Mappings {
    /// The mappings.
    pub vmas: Vec<ProcessVma>,
    /// The path of each, as /proc/PID/maps shows it.
    pub paths: Vec<Option<PathBuf>>,
    pub(crate) vdso: Option<Span>,
}

impl Mappings {
    /// The mapping at an address, and its path.
    pub fn at(&self, address: u64) -> Option<(&ProcessVma, Option<&Path>)> {
        let both = self.vmas.iter().zip(&self.paths);
        both.map(|(vma, path)| (vma, path.as_deref()))
            .find(|(vma, _)| vma.addresses.contains(address))
    }

    /// The mappings of promoted copies, each with its parsed name.
    pub fn copies(&self) -> impl Iterator<Item = (&ProcessVma, CopyName)> {
        self.vmas.iter().zip(&self.paths).filter_map(|(vma, path)| {
            let name = CopyName::in_maps(&path.as_deref()?.to_string_lossy())?;
            Some((vma, name))
        })
    }

    /// The first mapping of a file, and its path.
    pub fn of_file(&self, file: FileId) -> Option<(&ProcessVma, Option<&Path>)> {
        let both = self.vmas.iter().zip(&self.paths);
        both.map(|(vma, path)| (vma, path.as_deref()))
            .find(|(vma, _)| vma.file == Some(file))
    }
}

fn path_of(map: &MemoryMap) -> Option<PathBuf> {
    match &map.pathname {
        MMapPath::Path(path) => Some(path.clone()),
        _ => None,
    }
}

fn vma_of(map: &MemoryMap, path: Option<&Path>, flags: &BTreeSet<&str>) -> ProcessVma {
    let file = path.map(|_| file_id(map));
    let shared = map.perms.contains(MMPermissions::SHARED);
    ProcessVma {
        addresses: Span::new(map.address.0, map.address.1),
        offset: map.offset,
        perms: perms(map.perms),
        file,
        obstacle: obstacle(path, shared, flags),
        bti: flags.contains("bt"),
        huge: Vec::new(),
        changed: Vec::new(),
    }
}

/// VmFlags that a private file mapping may have and its replacement may lack: the present rights,
/// the rights that it may get, soft-dirty, the old "do not write", and advice on readahead and
/// huge pages.
const PLAIN: [&str; 11] = [
    "rd", "wr", "ex", "mr", "mw", "me", "sd", "dw", "sr", "rr", "hg",
];

fn obstacle(path: Option<&Path>, shared: bool, flags: &BTreeSet<&str>) -> Option<Obstacle> {
    let path = path.unwrap_or(Path::new("")).to_string_lossy();
    let in_memory = path.starts_with("/memfd:");
    if flags.contains("sl") {
        Some(Obstacle::Sealed)
    } else if CopyName::in_maps(&path).is_some() {
        Some(Obstacle::Promoted)
    } else if in_memory || flags.contains("ht") {
        Some(Obstacle::Memory)
    } else if shared {
        Some(Obstacle::Shared)
    } else if flags.contains("nh") {
        Some(Obstacle::SmallPagesWanted)
    } else {
        let unknown = flags
            .iter()
            .find(|flag| !PLAIN.contains(flag) && **flag != "bt");
        unknown.map(|flag| Obstacle::Flag {
            name: (*flag).to_owned(),
        })
    }
}

/// The translator that a process runs under, as far as the path of its program shows.
fn translator(pid: Pid) -> io::Result<Option<&'static str>> {
    let exe = fs::read_link(format!("/proc/{pid}/exe"))?;
    let in_valgrind = exe
        .parent()
        .is_some_and(|parent| parent.ends_with("valgrind"));
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    let in_qemu = name.starts_with("qemu-") && !name.starts_with("qemu-system");
    Ok(match (in_valgrind, in_qemu) {
        (true, _) => Some("valgrind"),
        (_, true) => Some("qemu-user"),
        _ => None,
    })
}

/// Whether a program file is an ELF64 file for the instruction set of this program.
fn is_native(exe: &File) -> io::Result<bool> {
    let own = File::open("/proc/self/exe")?;
    let head = |file: &File| {
        let mut head = [0u8; 20];
        file.read_exact_at(&mut head, 0).map(|()| head)
    };
    let (own, other) = (head(&own)?, head(exe)?);
    // EI_MAG to EI_DATA, and e_machine (gABI, ELF header).
    Ok(own.get(..6) == other.get(..6) && own.get(18..20) == other.get(18..20))
}

/// The PROT_ bits for [`Perms`].
pub(crate) fn prot(perms: Perms, bti: bool) -> u64 {
    /// PROT_BTI (arch/arm64/include/uapi/asm/mman.h).
    const BTI: c_int = 0x10;
    let bit = |on: bool, bit: c_int| if on { bit } else { 0 };
    let bits = bit(perms.read, libc::PROT_READ)
        | bit(perms.write, libc::PROT_WRITE)
        | bit(perms.exec, libc::PROT_EXEC)
        | bit(bti, BTI);
    bits.unsigned_abs().into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The flags of kthreadd; PF_EXITING and PF_RANDOMIZE.
    #[test]
    fn a_process_that_ends_is_no_kernel_thread() {
        let refusal = |flags| Refusal::without_memory(flags);
        assert!(matches!(refusal(0x0020_8040), Refusal::KernelThread));
        assert!(matches!(refusal(0x0040_0004), Refusal::Exiting));
    }

    /// Its number may be that of another process from then on.
    #[test]
    fn a_process_that_was_waited_for_is_gone() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let target = Target::open(Pid::of_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        match target {
            Ok(target) => {
                assert!(matches!(target.ensure_alive(), Err(Refusal::Gone)));
                assert!(matches!(target.memory_gone(), Refusal::Gone));
            }
            Err(why) => eprintln!("skipped: {why}"),
        }
    }

    #[test]
    fn a_process_that_was_killed_executed_nothing() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let target = Target::open(Pid::of_child(&child));
        let living = target.as_ref().map(Target::memory_gone);
        child.kill().unwrap();
        // It is a zombie until it is waited for, and may still be on its way there.
        let ending = target.as_ref().map(Target::memory_gone);
        child.wait().unwrap();
        let gone = target.as_ref().map(Target::memory_gone);
        match (living, ending, gone) {
            (Ok(living), Ok(ending), Ok(gone)) => {
                assert!(matches!(living, Refusal::Executed), "{living}");
                let may_be = matches!(ending, Refusal::Executed | Refusal::Exiting);
                assert!(may_be || matches!(ending, Refusal::Gone), "{ending}");
                assert!(matches!(gone, Refusal::Gone), "{gone}");
            }
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => eprintln!("skipped: {why}"),
        }
    }
}
