//! QEMU's user-mode emulation with the plugin.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;

use crate::error::EmulatorError;

/// The plugin: a shared object for QEMU's `-plugin FILE,fd=N`, where `N` is the writing end of a
/// pipe that QEMU inherits.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// QEMU for one architecture.
#[derive(Debug)]
pub(crate) struct Qemu {
    program: PathBuf,
    /// The version of the plugin interface that the plugin claims.
    interface: u32,
    /// The version that QEMU prints.
    pub(crate) version: String,
}

impl Qemu {
    /// QEMU for programs of `architecture`, named as QEMU does.
    pub(crate) fn find(architecture: &str) -> Result<Qemu, EmulatorError> {
        if PLUGIN.is_empty() {
            return Err(EmulatorError::NoPlugin);
        }
        let name = format!("qemu-{architecture}");
        let path = which::which(&name).map_err(|_| EmulatorError::NoQemu(name))?;
        let broken = |problem: &str| EmulatorError::broken(&path, problem);
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
            return Err(broken("it does not print its version"));
        };
        if !says("-help")?.contains("QEMU_PLUGIN") {
            return Err(EmulatorError::NoPluginSupport(path));
        }
        Ok(Qemu {
            // Version 2 of the plugin interface came with QEMU 9, which refuses version 1.
            interface: if major < 9 { 1 } else { 2 },
            version: version.to_owned(),
            program: path,
        })
    }

    /// A command that runs `program` and writes its pages to `pipe`, with the files that must stay
    /// open until it has started.
    pub(crate) fn command(
        &self,
        program: &Path,
        pipe: &OwnedFd,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<(Command, OwnedFd)> {
        let plugin = rustix::fs::memfd_create("hugetext-tlb-plugin", MemfdFlags::CLOEXEC)?;
        File::from(plugin.try_clone()?).write_all(PLUGIN)?;
        let mut command = Command::new(&self.program);
        prepare(&mut command);
        command
            .env("HUGETEXT_PLUGIN_API", self.interface.to_string())
            .args(["-seed", "1", "-U", "HUGETEXT_PLUGIN_API", "-plugin"])
            .arg(format!(
                "/proc/self/fd/{},fd={}",
                plugin.as_raw_fd(),
                pipe.as_raw_fd()
            ))
            .arg(program);
        inherit(&plugin)?;
        Ok((command, plugin))
    }
}

/// Makes children inherit the descriptor.
pub(crate) fn inherit(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd.as_fd(), FdFlags::empty())?)
}
