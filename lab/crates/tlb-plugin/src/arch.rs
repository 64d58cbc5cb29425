//! What the plugin must know of the emulated architecture, by the name that QEMU gives it.

/// The numbers of mmap, munmap, mremap and shmat (arch/*/include/uapi/asm/unistd*.h). A guest of
/// another architecture is assumed to have mapped its files before it runs code from them.
pub(crate) fn mapping_calls(target: &str) -> [i64; 4] {
    match target {
        "x86_64" => [9, 11, 25, 30],
        "i386" => [90, 91, 163, 192],
        // The generic table: arm64, riscv, loongarch.
        _ => [222, 215, 216, 196],
    }
}

/// Whether it has string instructions that repeat themselves.
pub(crate) fn repeats(target: &str) -> bool {
    target == "x86_64"
}
