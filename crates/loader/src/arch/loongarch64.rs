//! 64-bit LoongArch.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib64/ld-linux-loongarch-lp64d.so.1",
    platform: Some("loongarch"),
    lib: None,
};
