//! Paths in JSON, which is UTF-8. In documents, bytes that are not UTF-8 become U+FFFD. In what hugetext reads
//! again to find the file, they are kept ([`exact`]).

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Serializes a path as text, also if its bytes are no UTF-8.
pub fn path<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// As [`path`], for a path that may be missing.
pub fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = path.as_ref().map(|path| path.to_string_lossy());
    text.serialize(serializer)
}

/// A path with all its bytes: as text, or as numbers if they are no UTF-8.
pub mod exact {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Serializes a path.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    /// Reads what [`serialize`] wrote.
    pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}
