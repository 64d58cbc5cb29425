//! Runs a program and reports the pages that it executes.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;

use crate::qemu::Qemu;
use crate::valgrind::Valgrind;

/// Bytes that the pipe should hold, so that the emulator and the models seldom wait for each other:
/// the maximum for an unprivileged process (/proc/sys/fs/pipe-max-size).
const PIPE_SIZE: usize = 1 << 20;

/// The kinds of emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmulatorKind {
    /// QEMU's user-mode emulation, with a plugin. A statically linked QEMU cannot load plugins.
    Qemu,
    /// Valgrind, with a tool that is compiled against it: for programs of this machine only.
    Valgrind,
}

/// An emulator for the programs of one architecture. All kinds write the same frames.
#[derive(Debug)]
pub struct Emulator(Installed);

#[derive(Debug)]
enum Installed {
    Qemu(Qemu),
    Valgrind(Valgrind),
}

/// Why a program cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// QEMU is not on the PATH.
    #[error("{0} is not installed: install the package qemu-user")]
    NoQemu(String),
    /// Valgrind is not on the PATH.
    #[error("valgrind is not installed: install the packages valgrind and gcc")]
    NoValgrind,
    /// The emulator does not run, or does not print its version.
    #[error("{}: cannot be used: {problem}", path.display())]
    Broken {
        /// The executable.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// This QEMU loads no plugins.
    #[error("{}: built without plugins, as any statically linked QEMU is", .0.display())]
    NoPluginSupport(PathBuf),
    /// The command was built without the plugin, as every static one is.
    #[error("this build of hugetext has no QEMU plugin")]
    NoPlugin,
    /// Valgrind does not run programs of other architectures.
    #[error("Valgrind does not run programs of {0} on this machine")]
    NativeOnly(String),
    /// The files for building tools are missing from the Valgrind installation.
    #[error("{}: its headers and archives for tools are missing: install the development package \
        of Valgrind", .0.display())]
    NoToolParts(PathBuf),
    /// There is no C compiler.
    #[error("cc, which compiles the Valgrind tool, is not installed: install the package gcc")]
    NoCompiler,
    /// The compiler refused the tool.
    #[error("compiling the Valgrind tool: {0}")]
    Compile(String),
    /// No kind of emulator can be used.
    #[error("neither QEMU nor Valgrind can be used: {qemu}; {valgrind}")]
    Neither {
        /// The reason against QEMU.
        qemu: Box<EmulatorError>,
        /// The reason against Valgrind.
        valgrind: Box<EmulatorError>,
    },
    /// A pipe, a file in memory or the process could not be created.
    #[error("starting the emulation: {0}")]
    Start(#[from] io::Error),
}

impl EmulatorError {
    pub(crate) fn broken(path: &Path, problem: &str) -> EmulatorError {
        EmulatorError::Broken {
            path: path.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

impl Emulator {
    /// The emulator for programs of `architecture`, named as QEMU does (`x86_64`, `aarch64`): QEMU
    /// if it is installed and loads plugins, because it is faster; otherwise Valgrind.
    pub fn find(architecture: &str) -> Result<Emulator, EmulatorError> {
        let qemu = match Emulator::of_kind(EmulatorKind::Qemu, architecture) {
            Ok(emulator) => return Ok(emulator),
            Err(error) => Box::new(error),
        };
        Emulator::of_kind(EmulatorKind::Valgrind, architecture).map_err(|error| match error {
            EmulatorError::NativeOnly(_) => *qemu,
            error => EmulatorError::Neither {
                qemu,
                valgrind: Box::new(error),
            },
        })
    }

    /// The emulator of one kind.
    pub fn of_kind(kind: EmulatorKind, architecture: &str) -> Result<Emulator, EmulatorError> {
        Ok(Emulator(match kind {
            EmulatorKind::Qemu => Installed::Qemu(Qemu::find(architecture)?),
            EmulatorKind::Valgrind => Installed::Valgrind(Valgrind::find(architecture)?),
        }))
    }

    /// The kind.
    pub fn kind(&self) -> EmulatorKind {
        match self.0 {
            Installed::Qemu(_) => EmulatorKind::Qemu,
            Installed::Valgrind(_) => EmulatorKind::Valgrind,
        }
    }

    /// Starts `program` with `arguments`; `prepare` sets its standard streams and environment. The
    /// returned file is the input of [`crate::replay`]; it ends when the program does.
    ///
    /// QEMU's own random numbers are fixed by a seed. Nothing is left behind when the program ends
    /// or is killed: the plugin or tool is a file in memory.
    pub fn start<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(Child, File), EmulatorError> {
        let (reader, writer) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        // A smaller pipe works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_SIZE);
        let (mut command, _plugin) = match &self.0 {
            Installed::Qemu(qemu) => {
                let (command, plugin) = qemu.command(program, &writer, prepare)?;
                (command, Some(plugin))
            }
            Installed::Valgrind(valgrind) => (valgrind.command(program, &writer, prepare), None),
        };
        inherit(&writer)?;
        // The writing end is closed here on return, so that the pipe ends when the child does.
        let child = command.args(arguments).spawn()?;
        Ok((child, File::from(reader)))
    }
}

impl fmt::Display for EmulatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EmulatorKind::Qemu => "QEMU",
            EmulatorKind::Valgrind => "Valgrind",
        })
    }
}

/// The emulator's name and version.
impl fmt::Display for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match &self.0 {
            Installed::Qemu(qemu) => &qemu.version,
            Installed::Valgrind(valgrind) => &valgrind.version,
        };
        write!(f, "{} {version}", self.kind())
    }
}

/// Makes children inherit the descriptor.
pub(crate) fn inherit(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd.as_fd(), FdFlags::empty())?)
}
