//! Sizes as users write them: `500M`, `8G`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(u64);

impl Size {
    /// In bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    /// A number with an optional unit K, M, G or T. The units are powers of 1024.
    fn from_str(text: &str) -> Result<Size, String> {
        let config = parse_size::Config::new().with_binary();
        let bytes = config.parse_size(text);
        bytes
            .map(Size)
            .map_err(|error| format!("{text} is not a size: {error}; write bytes as 500M or 8G"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let bytes = |text: &str| text.parse::<Size>().map(Size::bytes);
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("500M"), Ok(500 << 20));
        assert_eq!(bytes("8GiB"), Ok(8 << 30));
        assert_eq!(bytes("1kb"), Ok(1 << 10));
        assert!(bytes("").is_err() && bytes("8X").is_err() && bytes("-1").is_err());
        assert!(bytes("99999999999T").is_err());
    }
}
