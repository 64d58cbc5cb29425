//! The part of a process's environment that the loader uses.

use std::os::unix::ffi::OsStringExt;

use crate::arch;

/// The parts of a process's environment and processor that decide where libraries are found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// LD_LIBRARY_PATH.
    pub library_path: Option<Vec<u8>>,
    /// LD_PRELOAD.
    pub preload: Option<Vec<u8>>,
    /// Subdirectories of glibc-hwcaps that this processor may use, best first.
    pub hwcaps: Vec<&'static str>,
}

impl Environment {
    /// The environment of the calling process, which a program that it executes inherits.
    pub fn current() -> Environment {
        let variable = |name| std::env::var_os(name).map(OsStringExt::into_vec);
        Environment {
            library_path: variable("LD_LIBRARY_PATH"),
            preload: variable("LD_PRELOAD"),
            hwcaps: arch::hwcaps(),
        }
    }
}
