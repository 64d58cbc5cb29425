//! What keeps a checksum of a file and compares it.

mod find;
mod kinds;

pub(crate) use find::checked_at_use;
pub use kinds::Voucher;
