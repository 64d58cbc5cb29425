//! Numbers with their units, for readers.

use std::fmt;

use indicatif::BinaryBytes;

/// Bytes for display: `19.8 MiB`.
pub fn bytes(value: u64) -> String {
    BinaryBytes(value).to_string().replace(".00 ", " ")
}

/// A share in percent, without decimals; `-` if the whole is zero.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}%", 100.0 * part as f64 / whole as f64)
    }
}

/// A count with its noun: `1 window`, `13 windows`.
pub fn count<N: Copy + PartialEq + From<u8> + fmt::Display>(number: N, thing: &str) -> String {
    let plural = if thing.ends_with('s') { "es" } else { "s" };
    if number == N::from(1) {
        format!("{number} {thing}")
    } else {
        format!("{number} {thing}{plural}")
    }
}

/// A large number for display: `13,087`.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(count(0_usize, "window"), "0 windows");
        assert_eq!(count(1_u64, "window"), "1 window");
        assert_eq!(count(2_u32, "process"), "2 processes");
    }
}
