//! The directories of a user (XDG Base Directory Specification).

use std::path::PathBuf;

/// The directory that ends with the session of the user; `None` without one.
pub(crate) fn session() -> Option<PathBuf> {
    let named = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    named.is_absolute().then_some(named)
}

/// The directory that the environment names in `variable`, if that is an absolute path, or else
/// `below_home` in the home directory. `None` without a home directory.
pub(crate) fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    named.or_else(|| std::env::home_dir().map(|home| home.join(below_home)))
}
