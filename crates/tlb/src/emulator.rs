//! Starts a program under QEMU's user-mode emulation with the plugin in it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;

/// The plugin: a shared object for QEMU's `-plugin FILE,fd=N`, where `N` is the writing end of a
/// pipe that QEMU inherits.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// Bytes the pipe should hold, so that QEMU and the models seldom wait for each other: the most an
/// unprivileged process may ask for (/proc/sys/fs/pipe-max-size).
const PIPE_SIZE: usize = 1 << 20;

const NO_PLUGINS: &str = "built without plugins, as any statically linked one is (Debian 13's); \
    it needs a dynamically linked one (Debian 12's), configured with --enable-plugins";

/// QEMU for one architecture.
#[derive(Debug)]
pub struct Emulator {
    program: PathBuf,
    /// The version of the plugin interface to claim.
    interface: u32,
    /// As QEMU states it.
    version: String,
}

/// Why a program cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// QEMU is not on the PATH.
    #[error("{0} is not installed: install the package qemu-user")]
    Missing(String),
    /// QEMU does not run, or does not say its version.
    #[error("{}: no usable QEMU: {problem}", path.display())]
    Broken {
        /// The executable.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The command is a static one, built without the plugin.
    #[error("this static build has no QEMU plugin: use one for glibc")]
    NoPlugin,
    /// A pipe or a memory file could not be made, or QEMU not be started.
    #[error("starting the emulation: {0}")]
    Start(#[from] io::Error),
}

impl Emulator {
    /// The emulator for programs of `architecture`, named as QEMU does (`x86_64`, `aarch64`).
    pub fn find(architecture: &str) -> Result<Emulator, EmulatorError> {
        if PLUGIN.is_empty() {
            return Err(EmulatorError::NoPlugin);
        }
        let name = format!("qemu-{architecture}");
        let path = which::which(&name).map_err(|_| EmulatorError::Missing(name))?;
        let broken = |problem: &str| EmulatorError::Broken {
            path: path.clone(),
            problem: problem.to_owned(),
        };
        let says = |option| match Command::new(&path).arg(option).output() {
            Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Err(error) => Err(broken(&error.to_string())),
        };
        let text = says("--version")?;
        let version = text
            .split_whitespace()
            .skip_while(|word| *word != "version")
            .nth(1);
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        let (Some(version), Some(major)) = (version, major) else {
            return Err(broken("it does not say its version"));
        };
        if !says("-help")?.contains("QEMU_PLUGIN") {
            return Err(broken(NO_PLUGINS));
        }
        Ok(Emulator {
            // Version 2 of the plugin interface came with QEMU 9, which refuses version 1.
            interface: if major < 9 { 1 } else { 2 },
            version: version.to_owned(),
            program: path,
        })
    }

    /// QEMU's version, as it states it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts `program` with `arguments`; `prepare` sets its standard streams and environment. The
    /// file is what [`crate::replay`] reads; it ends when the program does.
    ///
    /// What QEMU itself would draw at random is fixed (its seed). Nothing is left behind when the
    /// program ends or is killed: the plugin is a file in memory.
    pub fn start<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(Child, File), EmulatorError> {
        let plugin = rustix::fs::memfd_create("hugetext-tlb-plugin", MemfdFlags::CLOEXEC)
            .map_err(io::Error::from)?;
        File::from(plugin.try_clone()?).write_all(PLUGIN)?;
        let (reader, writer) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        // A smaller pipe works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_SIZE);

        let mut command = Command::new(&self.program);
        prepare(&mut command);
        command
            .env("HUGETEXT_PLUGIN_API", self.interface.to_string())
            .args(["-seed", "1", "-U", "HUGETEXT_PLUGIN_API", "-plugin"])
            .arg(format!(
                "/proc/self/fd/{},fd={}",
                plugin.as_raw_fd(),
                writer.as_raw_fd()
            ))
            .arg(program)
            .args(arguments);
        inherit(&plugin)?;
        inherit(&writer)?;
        // Both are closed here on return, so that the pipe ends with the child.
        let child = command.spawn()?;
        Ok((child, File::from(reader)))
    }
}

/// Lets children have the descriptor.
fn inherit(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd.as_fd(), FdFlags::empty())?)
}
