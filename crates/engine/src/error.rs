//! The errors of the engine.

use hugetext_host::names::shown;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use hugetext_elf::{Difference, ImageError, PlanError, Refusal};
use hugetext_host::{ChildError, Guard, NamespaceError, Pid, ProcessError, ReplaceError};
use hugetext_leaf::Cause;
use hugetext_leaf::replica::Node;
use hugetext_store::StoreError;

use crate::remedy::{Remedy, io_remedy, replace_remedy};
use crate::voucher::Voucher;

/// An error about one file, one process or this machine. It names what it concerns and the problem,
/// in one line; [`Error::remedy`] tells what would help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on a file failed.
    #[error("{}: {source}", shown(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The headers of a file are not those of a program.
    #[error("{}: {source}", shown(path))]
    Image {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: ImageError,
    },
    /// The program is for another instruction set than this machine executes.
    #[error(
        "{}: for another instruction set than this machine executes",
        shown(path)
    )]
    Foreign {
        /// The program.
        path: PathBuf,
    },
    /// This project does not know the page sizes of the program's architecture.
    #[error("{}: the page sizes of its architecture are unknown", shown(path))]
    UnknownGeometry {
        /// The program.
        path: PathBuf,
    },
    /// The machine maps no leaf larger than the base page.
    #[error("{}: this machine maps no leaf larger than the base page", shown(path))]
    NoLeaf {
        /// The program.
        path: PathBuf,
    },
    /// No strategy of a fix may touch the file.
    #[error("{}: {source}", shown(path))]
    Unfixable {
        /// The program.
        path: PathBuf,
        /// The reason.
        source: Refusal,
    },
    /// An attribute of the file forbids that it is replaced or copied.
    #[error("{}: {guard}", shown(path))]
    Guarded {
        /// The file.
        path: PathBuf,
        /// The attribute.
        guard: Guard,
    },
    /// Something keeps a checksum of the file.
    #[error("{}: {voucher}", shown(path))]
    Vouched {
        /// The file.
        path: PathBuf,
        /// The owner of the checksum.
        voucher: Voucher,
    },
    /// The file to write is the file to read.
    #[error("{}: is the input", shown(path))]
    OutputIsInput {
        /// The file.
        path: PathBuf,
    },
    /// An I/O error ended the rewriting of a file.
    #[error(
        "{}: {}",
        shown(failed_side(from, to, source)),
        rewrite_problem(source)
    )]
    Rewrite {
        /// The file that was read.
        from: PathBuf,
        /// The place of the new file.
        to: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Verification failed. Nothing was changed.
    #[error("{}: the result would not be the same program: {source}", shown(path))]
    NotTheSame {
        /// The program.
        path: PathBuf,
        /// The first difference.
        source: Difference,
    },
    /// The old file could not be kept under a second name.
    #[error("{}: no backup: {source}", shown(path))]
    Backup {
        /// The second name.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A new file could not be put at a path.
    #[error("{}: {source}", shown(path))]
    Replace {
        /// The path.
        path: PathBuf,
        /// The problem.
        source: ReplaceError,
    },
    /// A new file could not take the place of the one it was made from.
    #[error("{}: {source}", shown(path))]
    ReplaceInPlace {
        /// The path.
        path: PathBuf,
        /// The problem.
        source: ReplaceError,
    },
    /// The store of copies failed.
    #[error("{subject}: {source}")]
    Store {
        /// The store, or the original of a copy.
        subject: String,
        /// The problem.
        source: StoreError,
    },
    /// The user has no home directory for a store.
    #[error("store: no home directory")]
    NoHome,
    /// The directory for copies cannot be made.
    #[error("{}: {source}", shown(path))]
    NoStoreDirectory {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Text in the store cannot be on huge pages.
    #[error("{}: {cause}", shown(path))]
    UnfitStore {
        /// The store.
        path: PathBuf,
        /// The reason.
        cause: Cause,
    },
    /// Files in the store cannot be executed.
    #[error("{}: mounted noexec", shown(path))]
    NoexecStore {
        /// The store.
        path: PathBuf,
    },
    /// A copy is needed, and there is no place for it.
    #[error("{}: no place for a copy", shown(path))]
    NoCopyPlace {
        /// The original.
        path: PathBuf,
    },
    /// The control group has no memory for copies in a tmpfs.
    #[error("{}: the memory cgroup has no room for copies", shown(path))]
    NoRoomForCopies {
        /// The directory of the tmpfs.
        path: PathBuf,
    },
    /// A tmpfs for copies could not be mounted.
    #[error("{}: no tmpfs: {source}", shown(path))]
    NoTmpfs {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be shown or hidden at a path.
    #[error("{}: {source}", shown(path))]
    Mount {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file or its copy is not what was prepared any more.
    #[error("{}: changed meanwhile, so it runs without its copy", shown(path))]
    ChangedMeanwhile {
        /// The file.
        path: PathBuf,
    },
    /// A child process that fills a directory could not report its result.
    #[error("{}: {source}", shown(path))]
    Child {
        /// The directory.
        path: PathBuf,
        /// The problem.
        source: ChildError,
    },
    /// This process gets no mount namespace.
    #[error("run: no mount namespace: {0}")]
    NoNamespace(NamespaceError),
    /// This process is in a namespace in which it may have lost its identity.
    #[error("run: entering the namespace failed halfway: {0}")]
    HalfwayInNamespace(io::Error),
    /// The kernel does not keep leaves away from the command.
    #[error(
        "run: the text of the command cannot be kept from leaves, which do harm on this machine: {0}"
    )]
    NoTables(io::Error),
    /// A list of files to keep warm cannot be read or written.
    #[error("{place}: {problem}")]
    KeepList {
        /// The file, and the line if it is known.
        place: String,
        /// The problem.
        problem: String,
    },
    /// Text could not be locked in memory.
    #[error("{}: not locked: {source}", shown(path))]
    Lock {
        /// The program.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel does not say on which nodes the pages of a file lie.
    #[error("{}: the nodes of its pages are unknown: {source}", shown(path))]
    NodesOfFile {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The machine has no such node, or the node has no memory.
    #[error("{node} has no memory on this machine; with memory: {}", list(known))]
    NoNode {
        /// The node that was named.
        node: Node,
        /// The nodes with memory.
        known: Vec<Node>,
    },
    /// The kernel refuses a memory policy.
    #[error("memory cannot be placed on a node: {source}")]
    NoPolicy {
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel does not say on which nodes the pages of a process lie.
    #[error("process {pid}: the nodes of its pages are unknown: {source}")]
    Nodes {
        /// The process.
        pid: Pid,
        /// The kernel's error.
        source: io::Error,
    },
    /// A process could not be inspected.
    #[error("process {pid}: {source}")]
    Process {
        /// The process.
        pid: Pid,
        /// The problem.
        source: ProcessError,
    },
    /// The mounts of this process cannot be read.
    #[error("/proc/self/mountinfo: {0}")]
    Mounts(io::Error),
    /// The name of the running kernel does not begin with a version.
    #[error("{release}: the version of this kernel cannot be read")]
    NoKernelVersion {
        /// The release string of uname.
        release: String,
    },
    /// The running kernel has no huge pages.
    #[error("{release}: this kernel has no transparent huge pages")]
    NoHugePages {
        /// The release string of uname.
        release: String,
    },
    /// The size of huge pages cannot be read, because sysfs is not mounted.
    #[error("/sys/kernel/mm: this file is missing, so the size of huge pages is unknown")]
    NoSysfs,
}

/// Nodes in one line.
fn list(nodes: &[Node]) -> String {
    let each: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    each.join(", ")
}

impl Error {
    /// An I/O error about a file, as the argument of `map_err`.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io {
            path: path.clone(),
            source,
        }
    }

    /// An error that concerns a process, as the argument of `map_err`.
    pub(crate) fn process(pid: Pid) -> impl Fn(ProcessError) -> Error {
        move |source| Error::Process { pid, source }
    }

    /// The error about the program at `path` for which there is no plan.
    pub(crate) fn unplanned(path: &Path, error: PlanError) -> Error {
        let path = path.to_owned();
        match error {
            PlanError::Image(source) => Error::Image { path, source },
            PlanError::Refusal(source) => Error::Unfixable { path, source },
        }
    }

    /// The error for a kernel, named `release`, that does not tell the size of its huge pages.
    pub fn no_huge_pages(release: &str) -> Error {
        if Path::new("/sys/kernel/mm").exists() {
            let release = release.to_owned();
            Error::NoHugePages { release }
        } else {
            Error::NoSysfs
        }
    }

    /// The problem without the name of the file.
    pub fn reason(&self) -> String {
        match self {
            Error::Unfixable { source, .. } => source.to_string(),
            Error::Image { source, .. } => source.to_string(),
            Error::Guarded { guard, .. } => format!("the file is {guard}"),
            Error::Vouched { voucher, .. } => format!("the file {voucher}"),
            other => plain(other),
        }
    }

    /// What would help, where it is known and not obvious.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Error::Io { source, .. }
            | Error::Image {
                source: ImageError::Read(source),
                ..
            } => {
                return io_remedy(source);
            }
            Error::Rewrite { source, .. } => return io_remedy(source),
            Error::UnknownGeometry { .. } => Remedy::NameGeometry,
            Error::Guarded { guard, .. } => match guard {
                Guard::Verity => Remedy::FixBeforeSealing,
                Guard::Signed => Remedy::FixBeforeSigning,
                Guard::Immutable => Remedy::ElsewhereOrMutable,
                Guard::AppendOnly => Remedy::ElsewhereOrNotAppendOnly,
                Guard::Privileged => Remedy::PermitPrivileged,
            },
            Error::Vouched {
                voucher: Voucher::Package { .. },
                ..
            } => Remedy::PermitPackageChecksum,
            Error::Vouched { .. } => Remedy::PermitChecksum,
            Error::OutputIsInput { .. } => Remedy::ReplaceInput,
            Error::NotTheSame { .. } => Remedy::NothingChanged,
            Error::Backup { source, .. } if source.kind() == ErrorKind::AlreadyExists => {
                Remedy::OtherBackupName
            }
            Error::Replace { source, .. } => return replace_remedy(source),
            Error::ReplaceInPlace { source, .. } => match source.io().map(io::Error::kind) {
                Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                    Remedy::WriteElsewhere
                }
                _ => return replace_remedy(source),
            },
            Error::Store { source, .. } => match source {
                StoreError::ReadOnly(_) => Remedy::AskStoreOwner,
                StoreError::Full { .. } | StoreError::DamagedLimit(_) => Remedy::RaiseStoreLimit,
                StoreError::Busy(_)
                | StoreError::Changed
                | StoreError::JustChanged
                | StoreError::OpenForWriting => Remedy::TryAgain,
                _ => return None,
            },
            Error::NoHome => Remedy::NameStore,
            Error::NoStoreDirectory { .. } | Error::NoexecStore { .. } => Remedy::OtherStore,
            Error::UnfitStore { .. } => Remedy::CopiesInMemory,
            Error::NoNamespace(_) => Remedy::WarmedInPlace,
            Error::HalfwayInNamespace(_) => Remedy::NoCopies,
            Error::Lock { .. } => Remedy::RaiseMemlock,
            Error::Mounts(source) if source.kind() == ErrorKind::NotFound => Remedy::MountProc,
            Error::Mounts(source) => return io_remedy(source),
            Error::NoHugePages { .. } => Remedy::EnableThp,
            Error::NoSysfs => Remedy::MountSysfs,
            _ => return None,
        })
    }
}

/// Whether an error of the rewriting is one of writing.
fn is_of_writing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

fn failed_side<'p>(from: &'p Path, to: &'p Path, error: &io::Error) -> &'p Path {
    if is_of_writing(error) { to } else { from }
}

fn rewrite_problem(error: &io::Error) -> String {
    let what = if is_of_writing(error) {
        "written"
    } else {
        "rewritten"
    };
    format!("cannot be {what}: {error}")
}

/// An error in words. The "(os error 13)" of each I/O error is left out, because it does not help
/// the user.
pub fn plain(error: impl fmt::Display) -> String {
    let text = error.to_string();
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        plain.push_str(rest.strip_prefix(')').unwrap_or(rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_words_without_numbers() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(
            plain(format_args!("one: {error}; two: {error}, too")),
            "one: No such file or directory; two: No such file or directory, too"
        );
    }
}
