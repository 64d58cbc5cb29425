//! Why a program cannot be emulated.

use std::io;
use std::path::{Path, PathBuf};

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
