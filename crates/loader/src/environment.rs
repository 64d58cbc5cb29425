//! The part of a process's environment that the loader uses.

use std::os::unix::ffi::OsStringExt;

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
            hwcaps: processor_levels(),
        }
    }
}

/// The x86-64 psABI levels of this processor, best first (glibc
/// sysdeps/x86_64/dl-hwcaps-subdirs.c).
#[cfg(target_arch = "x86_64")]
fn processor_levels() -> Vec<&'static str> {
    macro_rules! all {
        ($($feature:tt)*) => { true $(&& std::is_x86_feature_detected!($feature))* };
    }
    let v2 = all!("sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b");
    let v3 = v2 && all!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe" "xsave");
    let v4 = v3 && all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")]
        .into_iter()
        .filter_map(|(supported, level)| supported.then_some(level))
        .collect()
}

/// glibc names no levels for the other architectures this project knows.
#[cfg(not(target_arch = "x86_64"))]
fn processor_levels() -> Vec<&'static str> {
    Vec::new()
}
