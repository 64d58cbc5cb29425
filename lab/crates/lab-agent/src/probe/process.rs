//! Programs that keep running while their mappings are inspected.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hugetext_lab_agent::{HugePages, PROGRAMS};
use hugetext_leaf::Leaf;
use procfs::process::Process;

use super::memory::{Geometry, MappedFile, Pages, file_mappings};
use hugetext_host::Pid;

/// A running program, killed when this value is dropped.
pub(super) struct Running(Child);

impl Running {
    /// Starts one of the synthetic programs, and returns when it reports that it has started. Its
    /// own directory is searched first for libraries.
    pub(super) fn start(program: &Path, libraries: &Path) -> io::Result<Running> {
        let mut command = Command::new(program);
        let mut running = Running(search(&mut command, libraries).spawn()?);
        let mut byte = [0];
        if let Some(stdout) = &mut running.0.stdout {
            stdout.read_exact(&mut byte)?;
        }
        Ok(running)
    }

    /// Starts the compiler, which waits for its input, and returns when its text is mapped: a
    /// process exists before the kernel has mapped its new program.
    pub(super) fn start_compiler(cc1: &Path) -> io::Result<Running> {
        let mut command = Command::new(cc1);
        command.args(["-quiet", "-ffreestanding", "-o", "/dev/null", "-"]);
        let mut running = Running(search(&mut command, Path::new(PROGRAMS)).spawn()?);
        loop {
            match running.text(cc1) {
                Err(error) => match running.0.try_wait()? {
                    None => std::thread::yield_now(),
                    Some(status) => return Err(io::Error::other(format!("{error}: {status}"))),
                },
                Ok(_) => return Ok(running),
            }
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::of_child(&self.0)
    }

    /// Its file mappings.
    pub(super) fn mappings(&self) -> io::Result<Vec<MappedFile>> {
        let process = Process::new(self.pid().as_raw()).map_err(io::Error::other)?;
        file_mappings(&process)
    }

    /// Its executable mappings of `file`.
    pub(super) fn text(&self, file: &Path) -> io::Result<Vec<MappedFile>> {
        let file = file.to_string_lossy();
        let mut mappings = self.mappings()?;
        mappings.retain(|mapping| mapping.exec && mapping.path == file);
        if mappings.is_empty() {
            Err(io::Error::other(format!("{file} is not mapped executable")))
        } else {
            Ok(mappings)
        }
    }

    /// Faults every page of its text of `file` into its address space. The kernel handles a read of
    /// another process's memory as a fault there, by its mapping.
    pub(super) fn touch_text(&self, file: &Path, page: Leaf) -> io::Result<()> {
        let memory = File::open(format!("/proc/{}/mem", self.0.id()))?;
        for mapping in self.text(file)? {
            for address in (mapping.span.start..mapping.span.end).step_by(page.bytes() as usize) {
                // The last pages of a mapping may lie beyond the end of the file.
                let _ = memory.read_at(&mut [0], address);
            }
        }
        Ok(())
    }

    /// How its text of `file` is mapped.
    pub(super) fn huge_pages(&self, file: &Path, geometry: &Geometry) -> io::Result<HugePages> {
        let mut found = HugePages::default();
        for mapping in self.text(file)? {
            found.pmd += mapping.pmd;
            if let Some(leaf) = geometry.contpte {
                let pages = Pages::of(&self.pid().to_string(), mapping.span, geometry.page)?;
                found.contpte += pages.in_blocks(leaf);
            }
        }
        Ok(found)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn search<'c>(command: &'c mut Command, libraries: &Path) -> &'c mut Command {
    let path = format!("{}:{PROGRAMS}", libraries.display());

    command
        .env("LD_LIBRARY_PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
}
