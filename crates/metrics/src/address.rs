//! Where metrics are served.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A Unix socket, as `unix:/run/hugetext-auto/metrics.sock`, or an address of TCP, as `127.0.0.1:9897`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and port.
    Tcp(SocketAddr),
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address; write \"unix:\" and an absolute path, or as \"127.0.0.1:9897\"")]
pub struct AddressError(String);

impl Address {
    /// Whether other machines can reach it.
    pub fn is_remote(&self) -> bool {
        match self {
            Address::Unix(_) => false,
            Address::Tcp(address) => !address.ip().is_loopback(),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_absolute = path.starts_with('/');
            let path = PathBuf::from(path);
            return is_absolute
                .then_some(Address::Unix(path))
                .ok_or(AddressError(text));
        }
        text.parse()
            .map(Address::Tcp)
            .map_err(|_| AddressError(text))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_the_network_is_told_from_what_does_not() {
        for (text, remote) in [
            ("unix:/run/x.sock", false),
            ("127.0.0.1:1", false),
            ("127.8.0.1:1", false),
            ("[::1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.0.2.1:1", true),
        ] {
            let address = Address::try_from(text.to_owned()).unwrap();
            assert_eq!(address.is_remote(), remote, "{text}");
            assert_eq!(address.to_string(), text);
        }
        for wrong in ["", "unix:x", "localhost:1", "127.0.0.1", "9897"] {
            assert!(Address::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
