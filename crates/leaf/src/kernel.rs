//! A kernel, as far as the rules distinguish kernels.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::condition::Conditions;

/// A kernel version: `6.18` or `6.18.15-amd64`. The text after the numbers is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major number: 6 in 6.18.
    pub major: u16,
    /// The minor number: 18 in 6.18.
    pub minor: u16,
}

impl Version {
    /// The version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Version {
        Version { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    /// As `6.18`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that does not begin with `MAJOR.MINOR`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kernel version; an example is 6.18")]
pub struct ParseVersionError(String);

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u16>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Version { major, minor }),
            _ => Err(ParseVersionError(text.to_owned())),
        }
    }
}

/// The facts of a kernel that the rules depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Its version.
    pub version: Version,
    /// The conditions of rules that it meets.
    pub met: Conditions,
}

impl From<Version> for Kernel {
    /// A kernel of this version with the usual settings.
    fn from(version: Version) -> Kernel {
        Kernel {
            version,
            met: Conditions::usual(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_as_uname_prints_them() {
        assert_eq!("6.18.44-fc-v657".parse(), Ok(Version::new(6, 18)));
        assert_eq!("6.1".parse(), Ok(Version::new(6, 1)));
        assert!("6".parse::<Version>().is_err());
        assert!("".parse::<Version>().is_err());
        assert!("six.one".parse::<Version>().is_err());
        assert!("99999999.1".parse::<Version>().is_err());
    }
}
