//! Valgrind with a tool of this crate, compiled against the installed Valgrind: the interface
//! between a tool and Valgrind's core differs from version to version. A compilation takes a
//! fraction of a second, so the result is not kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::MemfdFlags;

use crate::arch;
use crate::error::EmulatorError;

/// The tool: a static program that contains all of Valgrind except its launcher.
const SOURCE: &str = include_str!("../valgrind/pages.c");

/// The address to which Valgrind's own tools are linked (its configure.ac,
/// `valt_load_address_pri_norml`).
const LOAD_ADDRESS: &str = "0x58000000";

/// Valgrind for this machine's own programs.
#[derive(Debug)]
pub(crate) struct Valgrind {
    launcher: PathBuf,
    /// The compiled tool, a file in memory.
    tool: OwnedFd,
    /// The version that Valgrind prints.
    pub(crate) version: String,
}

impl Valgrind {
    /// Valgrind for programs of `wanted`, an architecture as QEMU names it, with the tool compiled.
    pub(crate) fn find(wanted: &str) -> Result<Valgrind, EmulatorError> {
        let architecture = arch::for_valgrind(std::env::consts::ARCH)
            .filter(|_| wanted == std::env::consts::ARCH)
            .ok_or_else(|| EmulatorError::NativeOnly(wanted.to_owned()))?;
        let launcher = which::which("valgrind").map_err(|_| EmulatorError::NoValgrind)?;
        let broken = |problem: &str| EmulatorError::broken(&launcher, problem);
        let output = Command::new(&launcher).arg("--version").output();
        let output = output.map_err(|error| broken(&error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.trim().strip_prefix("valgrind-");
        let version = version.ok_or_else(|| broken("it does not print its version"))?;
        let parts = Parts::find(&launcher, architecture)
            .ok_or_else(|| EmulatorError::NoToolParts(launcher.clone()))?;
        Ok(Valgrind {
            tool: parts.compile()?,
            version: version.to_owned(),
            launcher,
        })
    }

    /// A command that runs `program` and writes its pages to `pipe`.
    pub(crate) fn command(
        &self,
        program: &Path,
        pipe: &OwnedFd,
        prepare: impl FnOnce(&mut Command),
    ) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.tool.as_raw_fd()));
        prepare(&mut command);
        command
            // A tool must be started by the launcher, which can start only the tools of Valgrind's
            // own directory.
            .env("VALGRIND_LAUNCHER", &self.launcher)
            // No options from files or the environment, no files for a debugger, no code that
            // Valgrind would run at the end.
            .args(["--command-line-only=yes", "--tool=hugetext", "--quiet"])
            .args(["--vgdb=no", "--trace-children=no"])
            .args(["--run-libc-freeres=no", "--run-cxx-freeres=no"])
            // Otherwise Valgrind would translate code behind a branch that the program may not
            // reach, and count it.
            .arg("--vex-guest-chase=no")
            .arg(format!("--fd={}", pipe.as_raw_fd()))
            .arg(program);
        command
    }
}

/// The files of a Valgrind installation for building tools.
struct Parts {
    architecture: &'static str,
    headers: PathBuf,
    archives: PathBuf,
}

impl Parts {
    /// The files of the installation that `launcher` belongs to.
    fn find(launcher: &Path, architecture: &'static str) -> Option<Parts> {
        let launcher = fs::canonicalize(launcher).ok()?;
        let prefix = launcher.parent()?.parent()?;
        let debian = format!("lib/{}-linux-gnu/valgrind", std::env::consts::ARCH);
        let parts = |archives: &str| Parts {
            architecture,
            headers: prefix.join("include/valgrind"),
            archives: prefix.join(archives),
        };
        [debian.as_str(), "lib64/valgrind", "lib/valgrind"]
            .map(parts)
            .into_iter()
            .find(Parts::are_there)
    }

    fn are_there(&self) -> bool {
        self.archive("coregrind").exists() && self.headers.join("pub_tool_tooliface.h").exists()
    }

    fn archive(&self, name: &str) -> PathBuf {
        let name = format!("lib{name}-{}-linux.a", self.architecture);
        self.archives.join(name)
    }

    /// The tool, as a file in memory.
    fn compile(&self) -> Result<OwnedFd, EmulatorError> {
        let directory = tempfile::tempdir()?;
        let program = directory.path().join("hugetext-tool");
        let output = self.run_compiler(&program)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let first = text.lines().find(|line| line.contains("error"));
            let problem = first.or(text.lines().next()).unwrap_or("it prints nothing");
            return Err(EmulatorError::Compile(problem.to_owned()));
        }
        let tool = rustix::fs::memfd_create("hugetext-tlb-tool", MemfdFlags::CLOEXEC)
            .map_err(io::Error::from)?;
        File::from(tool.try_clone()?).write_all(&fs::read(&program)?)?;
        Ok(tool)
    }

    fn run_compiler(&self, program: &Path) -> Result<Output, EmulatorError> {
        let architecture = self.architecture;
        let mut command = Command::new("cc");
        command
            .args(["-x", "c", "-std=gnu11", "-O2", "-I"])
            .arg(&self.headers)
            // The options with which Valgrind compiles and links its own tools (Makefile.all.am,
            // Makefile.tool.am).
            .args(["-fno-pie", "-fno-stack-protector", "-fno-builtin"])
            .arg("-fno-strict-aliasing")
            .arg("-DVGO_linux=1")
            .arg(format!("-DVGA_{architecture}=1"))
            .arg(format!("-DVGP_{architecture}_linux=1"))
            .arg(format!("-DVGPV_{architecture}_linux_vanilla=1"))
            .args(["-static", "-no-pie", "-nodefaultlibs", "-nostartfiles"])
            .args(["-u", "_start", "-Wl,--build-id=none"])
            .arg(format!("-Wl,-Ttext-segment={LOAD_ADDRESS}"))
            .args(["-", "-o"])
            .arg(program)
            .args(["-x", "none"])
            .args([self.archive("coregrind"), self.archive("vex")])
            .arg("-lgcc")
            .arg(self.archive("gcc-sup"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => EmulatorError::NoCompiler,
            _ => EmulatorError::Compile(error.to_string()),
        })?;
        if let Some(mut input) = child.stdin.take() {
            // A compiler that cannot read the file reports the reason and fails.
            let _ = input.write_all(SOURCE.as_bytes());
        }
        Ok(child.wait_with_output()?)
    }
}
