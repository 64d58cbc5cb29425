//! arm64.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib/ld-linux-aarch64.so.1",
    platform: Some("aarch64"),
    lib: None,
};
