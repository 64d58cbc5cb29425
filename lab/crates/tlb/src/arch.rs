//! The names of architectures.

/// Valgrind's name for an architecture; `None` if this crate's tool was not tried on it.
pub(crate) fn for_valgrind(arch: &str) -> Option<&'static str> {
    match arch {
        "x86_64" => Some("amd64"),
        "aarch64" => Some("arm64"),
        _ => None,
    }
}
