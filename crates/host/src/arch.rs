//! What this crate must know of the architecture that it is built for.

/// The instruction that returns to the caller; empty where it is unknown.
pub(crate) const RETURN: &[u8] = if cfg!(target_arch = "x86_64") {
    &[0xc3]
} else if cfg!(target_arch = "aarch64") {
    // ret
    &[0xc0, 0x03, 0x5f, 0xd6]
} else if cfg!(target_arch = "riscv64") {
    // jalr zero, 0(ra)
    &[0x67, 0x80, 0x00, 0x00]
} else {
    &[]
};
