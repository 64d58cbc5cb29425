//! Who keeps a checksum of a file.

use hugetext_host::names::shown;
use std::fmt;
use std::path::PathBuf;

/// The owner of a file's checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voucher {
    /// A file next to it: NSS (.chk), libraries in FIPS mode (.hmac), detached signatures (.sig).
    Beside(PathBuf),
    /// OpenSSL's FIPS module, with the path of its configuration file if one was found.
    Openssl(Option<PathBuf>),
    /// The program itself, in a note: libgcrypt in FIPS mode.
    Itself,
    /// The list of an installed package.
    Package {
        /// Its name.
        name: String,
        /// The program that reports changed files.
        manager: &'static str,
    },
}

impl fmt::Display for Voucher {
    /// A predicate about the file: `is checked against …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Voucher::Beside(path) => write!(f, "is checked against {}", shown(path)),
            Voucher::Openssl(Some(path)) => {
                write!(f, "is checked against the module-mac in {}", shown(path))
            }
            Voucher::Openssl(None) => {
                f.write_str("is checked against the module-mac in OpenSSL's fipsmodule.cnf")
            }
            Voucher::Itself => f.write_str("checks its own file (note FDO, integrity)"),
            Voucher::Package { name, manager } => {
                write!(
                    f,
                    "belongs to package {name}, whose checksums {manager} keeps"
                )
            }
        }
    }
}
