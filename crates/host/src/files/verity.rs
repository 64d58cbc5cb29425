//! fs-verity: the kernel checks each page of a file as it is read
//! (Documentation/filesystems/fsverity.rst).

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use rustix::ioctl::{self, Setter, Updater, opcode};

/// `struct fsverity_enable_arg` (linux/fsverity.h).
#[repr(C)]
struct EnableArg {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    salt_size: u32,
    salt_ptr: u64,
    sig_size: u32,
    reserved1: u32,
    sig_ptr: u64,
    reserved2: [u64; 11],
}

/// FS_VERITY_HASH_ALG_SHA256.
const SHA256: u32 = 1;
/// Bytes of the longest digest (SHA-512).
const LONGEST: usize = 64;

/// `struct fsverity_digest` with room for the longest one.
#[repr(C)]
struct Digest {
    algorithm: u16,
    size: u16,
    digest: [u8; LONGEST],
}

/// Has the kernel check each page of a file that nobody has open for writing, from now on. The file
/// can no longer be written. Filesystems without fs-verity answer with several errors (ENOTTY,
/// EOPNOTSUPP, EINVAL).
pub fn enable_verity(file: &File) -> io::Result<()> {
    const ENABLE: ioctl::Opcode = opcode::write::<EnableArg>(b'f', 133);
    let arg = EnableArg {
        version: 1,
        hash_algorithm: SHA256,
        block_size: 4096,
        salt_size: 0,
        salt_ptr: 0,
        sig_size: 0,
        reserved1: 0,
        sig_ptr: 0,
        reserved2: [0; 11],
    };
    // SAFETY: FS_IOC_ENABLE_VERITY reads a fsverity_enable_arg, which has this layout; the pointers
    // in it are null with lengths of 0.
    unsafe { ioctl::ioctl(file, Setter::<ENABLE, EnableArg>::new(arg)) }.map_err(io::Error::from)
}

/// The digest against which the kernel checks pages, in hexadecimal; an error if it checks none.
pub fn measure_verity(file: &File) -> io::Result<String> {
    // The number names the header of the structure, four bytes; the digest follows it.
    const MEASURE: ioctl::Opcode = opcode::read_write::<[u8; 4]>(b'f', 134);
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    if !stat.stx_attributes.contains(StatxAttributes::VERITY) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut digest = Digest {
        algorithm: 0,
        size: LONGEST as u16,
        digest: [0; LONGEST],
    };
    // SAFETY: FS_IOC_MEASURE_VERITY writes a fsverity_digest of at most `size` bytes after its
    // header, for which there is room.
    unsafe { ioctl::ioctl(file, Updater::<MEASURE, Digest>::new(&mut digest)) }?;
    let bytes = digest.digest.get(..usize::from(digest.size));
    let hex = bytes.unwrap_or_default().iter();
    Ok(hex.map(|byte| format!("{byte:02x}")).collect())
}
