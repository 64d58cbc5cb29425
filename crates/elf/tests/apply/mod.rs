//! Carries out operations in memory, for tests and fuzzing.

use hugetext_elf::Operation;

/// Carries operations out in memory.
pub(crate) fn apply(old: &[u8], operations: &[Operation]) -> Vec<u8> {
    let mut new = Vec::new();
    for operation in operations {
        match operation {
            Operation::SetLen { len } => new.resize(*len as usize, 0),
            Operation::Copy { from, to } => {
                let bytes = &old[from.start as usize..from.end as usize];
                new[*to as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Operation::Write { at, bytes } => {
                new[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    new
}
