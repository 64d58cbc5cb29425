//! The first archive of a guest: its initramfs.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hugetext_lab_agent::{JOB, Job, MODULES, PROGRAMS};

use crate::arch::Arch;
use crate::cache::Unit;
use crate::cpio::Archive;
use crate::error::{At, Result};
use crate::guest::Built;

/// The content of an initramfs.
pub(crate) struct Contents<'a> {
    pub(crate) arch: Arch,
    pub(crate) job: &'a Job,
    /// The cached kernel, with the modules that the job loads; `None` for another kernel.
    pub(crate) kernel: Option<(&'a Unit, &'a [String])>,
    pub(crate) programs: &'a Unit,
    pub(crate) built: &'a Built,
    /// Archives to append to ours, unchanged.
    pub(crate) more: &'a [PathBuf],
}

/// Writes the initramfs to `path`.
pub(crate) fn initramfs(path: &Path, contents: &Contents<'_>) -> Result<()> {
    let to = BufWriter::new(File::create(path).at(path)?);
    let mut archive = Archive::new(to);
    for directory in [
        "bin", "dev", "etc", "lab", MODULES, PROGRAMS, "lib", "lib64", "mnt", "proc", "sys", "tmp",
    ] {
        archive.directory(directory).at(path)?;
    }
    let job = serde_json::to_vec(contents.job).map_err(std::io::Error::other);
    archive.file(JOB, &job.at(path)?).at(path)?;
    if let Some((kernel, modules)) = contents.kernel {
        for name in modules {
            archive
                .file(&format!("/lab/{name}"), &kernel.read(name)?)
                .at(path)?;
        }
    }
    for name in contents.programs.names() {
        let bytes = contents.programs.read(name)?;
        archive
            .file(&format!("{PROGRAMS}/{name}"), &bytes)
            .at(path)?;
    }
    for (name, built) in contents.built {
        let bytes = fs::read(built).at(built)?;
        archive
            .file(&format!("{PROGRAMS}/{name}"), &bytes)
            .at(path)?;
    }
    for (name, target) in links(contents.arch) {
        archive.link(&name, &target).at(path)?;
    }
    let mut to = archive.finish().at(path)?;
    for more in contents.more {
        to.write_all(&fs::read(more).at(more)?).at(path)?;
    }
    to.flush().at(path)
}

/// The first process, the shell, and the dynamic loaders at their usual paths.
fn links(arch: Arch) -> Vec<(String, String)> {
    let program = |name: &str| format!("{PROGRAMS}/{name}");
    let musl = format!("ld-musl-{}.so.1", arch.machine());
    let (directory, glibc) = arch.facts().loader;
    vec![
        ("init".to_owned(), program("hugetext-lab-agent")),
        ("bin/sh".to_owned(), program("busybox")),
        (format!("lib/{musl}"), program(&musl)),
        (format!("{directory}/{glibc}"), program(glibc)),
    ]
}
