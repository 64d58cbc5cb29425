//! The identity of this machine in the rows: what tells hosts of the same name apart.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest as _, Sha256};

/// Where systemd and D-Bus keep the identity of a machine.
const FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Why nothing tells this machine from others. Many hosts without an identity would be one host in the rows.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {problem}, so nothing tells this machine from others; in a container, mount that file of the host, or \
     give --machine ID with a text that no other machine has and that stays",
    path.display()
)]
pub(crate) struct MachineError {
    path: PathBuf,
    problem: String,
}

/// The identity of this machine, which is no secret: a hash of `named`, or of its machine-id.
pub(crate) fn machine(named: Option<&str>) -> Result<String, MachineError> {
    match named {
        Some(id) => Ok(hash(id)),
        None => known_by(&FILES.map(Path::new)),
    }
}

/// The hash of the first of `files` that holds an identity. The error tells of the first file.
fn known_by(files: &[&Path]) -> Result<String, MachineError> {
    let mut first = None;
    for path in files {
        match id(path) {
            Ok(id) => return Ok(hash(&id)),
            Err(problem) => {
                first.get_or_insert(MachineError {
                    path: path.to_path_buf(),
                    problem,
                });
            }
        }
    }
    Err(first.unwrap_or_else(|| MachineError {
        path: PathBuf::new(),
        problem: "missing".to_owned(),
    }))
}

/// What a file holds, if it is an identity. Images hold an empty file, or the word `uninitialized`.
fn id(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "missing".to_owned(),
        _ => error.to_string(),
    })?;
    let id = text.trim();
    let is_id = id.len() == 32
        && id.chars().all(|letter| letter.is_ascii_hexdigit())
        && id.chars().any(|letter| letter != '0');
    match id {
        "" => Err("empty".to_owned()),
        _ if is_id => Ok(id.to_owned()),
        _ => Err("not the 32 hexadecimal digits of an identity".to_owned()),
    }
}

fn hash(id: &str) -> String {
    let hash = Sha256::new()
        .chain_update("hugetext-inventory")
        .chain_update(id.trim());
    format!("{:x}", hash.finalize()).chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_machine_without_an_identity_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("machine-id");
        for (content, says) in [
            (None, "missing"),
            (Some(String::new()), "empty"),
            (Some("\n".to_owned()), "empty"),
            (
                Some("uninitialized\n".to_owned()),
                "not the 32 hexadecimal digits",
            ),
            (Some("0".repeat(32)), "not the 32 hexadecimal digits"),
        ] {
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            let said = known_by(&[&path]).unwrap_err().to_string();
            let file = path.to_str().unwrap();
            assert!(said.starts_with(&format!("{file}: {says}")), "{said}");
            assert!(said.contains("--machine ID"), "{said}");
        }
    }

    #[test]
    fn the_identity_of_dbus_is_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let [empty, other] = ["machine-id", "dbus"].map(|name| directory.path().join(name));
        fs::write(&empty, "").unwrap();
        fs::write(&other, format!("{ID}\n")).unwrap();
        let known = known_by(&[&empty, &other]).unwrap();
        assert_eq!(known, known_by(&[&other]).unwrap());
        // A container may pass on what its host is known by.
        assert_eq!(known, machine(Some(ID)).unwrap());
    }

    #[test]
    fn names_tell_machines_apart() {
        assert_ne!(machine(Some("one")).unwrap(), machine(Some("two")).unwrap());
    }
}
