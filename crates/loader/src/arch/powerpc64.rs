//! 64-bit POWER. Big-endian programs have the first version of the ABI, little-endian ones the second
//! (sysdeps/unix/sysv/linux/powerpc/shlib-versions). AT_PLATFORM names the processor.

use hugetext_elf::ByteOrder;

use super::facts::Facts;

pub(super) const fn facts(order: ByteOrder) -> Facts {
    Facts {
        interpreter: match order {
            ByteOrder::BigEndian => "/lib64/ld64.so.1",
            ByteOrder::LittleEndian => "/lib64/ld64.so.2",
        },
        platform: None,
        lib: None,
    }
}
