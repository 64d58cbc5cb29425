//! Runs a program and reports the pages that it executes.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use rustix::pipe::PipeFlags;

use crate::error::EmulatorError;
use crate::qemu::{Qemu, inherit};
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
