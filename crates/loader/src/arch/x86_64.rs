//! x86-64.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib64/ld-linux-x86-64.so.2",
    platform: Some("x86_64"),
    lib: None,
};

/// The x86-64 psABI levels of this processor, best first (glibc
/// sysdeps/x86_64/dl-hwcaps-subdirs.c).
#[cfg(target_arch = "x86_64")]
pub(super) fn hwcaps() -> Vec<&'static str> {
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
