//! The cache of fetched files: directories with a manifest that holds each file's checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::arch::Arch;
use crate::error::{At, LabError, Result};
use crate::kernel::KernelId;

const MANIFEST: &str = "manifest.json";

/// The cache directory of the lab.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn at(root: &Path) -> Result<Cache> {
        fs::create_dir_all(root).at(root)?;
        let root = root.canonicalize().at(root)?;
        Ok(Cache { root })
    }

    pub(crate) fn kernel(&self, id: KernelId) -> PathBuf {
        self.root.join("kernels").join(id.to_string())
    }

    /// Programs and libraries that guests of `arch` run.
    pub(crate) fn programs(&self, arch: Arch) -> PathBuf {
        self.root.join("programs").join(arch.debian())
    }

    /// apt's own state: package lists and downloads.
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// Disks of running guests. Each lab has a directory, named after its process.
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The last console output of each guest.
    pub(crate) fn consoles(&self) -> PathBuf {
        self.root.join("consoles")
    }

    /// The fetched kernels.
    pub(crate) fn kernels(&self) -> Vec<KernelId> {
        let entries = fs::read_dir(self.root.join("kernels"))
            .into_iter()
            .flatten();
        let mut ids: Vec<KernelId> = entries
            .flatten()
            .filter(|entry| entry.path().join(MANIFEST).exists())
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort();
        ids
    }
}

/// For each module name, the files to load, the module itself last; relative to the unit.
pub(crate) type Loads = BTreeMap<String, Vec<String>>;

/// A directory of the cache, as described by its manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Unit {
    /// The packages that it was made from, with their versions.
    pub(crate) packages: Vec<String>,
    /// The modules of a kernel.
    pub(crate) loads: Loads,
    files: BTreeMap<String, String>,
    #[serde(skip)]
    directory: PathBuf,
}

impl Unit {
    /// Renames `filled`, a directory next to `target`, to `target`, where it becomes the unit.
    pub(crate) fn keep(
        filled: &Path,
        target: &Path,
        packages: Vec<String>,
        loads: Loads,
    ) -> Result<()> {
        let mut files = BTreeMap::new();
        checksums(filled, filled, &mut files)?;
        let unit = Unit {
            packages,
            loads,
            files,
            directory: PathBuf::new(),
        };
        let manifest = filled.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&unit).map_err(io::Error::other);
        fs::write(&manifest, text.at(&manifest)?).at(&manifest)?;
        if target.exists() {
            fs::remove_dir_all(target).at(target)?;
        }
        fs::rename(filled, target).at(target)
    }

    /// Reads the manifest; `None` if the unit does not exist.
    pub(crate) fn open(directory: &Path) -> Result<Option<Unit>> {
        let manifest = directory.join(MANIFEST);
        let text = match fs::read(&manifest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.at(&manifest)?,
        };
        let unit: Unit =
            serde_json::from_slice(&text).map_err(|_| LabError::Corrupted(manifest))?;
        Ok(Some(Unit {
            directory: directory.to_owned(),
            ..unit
        }))
    }

    /// The bytes of a file, checked against the manifest.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name)?;
        let bytes = fs::read(&path).map_err(|_| LabError::Corrupted(path.clone()))?;
        if self.files.get(name) != Some(&hex(&Sha256::digest(&bytes))) {
            return Err(LabError::Corrupted(path));
        }
        Ok(bytes)
    }

    /// The path of a file of the unit.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        if self.files.contains_key(name) {
            Ok(path)
        } else {
            Err(LabError::Corrupted(path))
        }
    }

    /// Every file, relative to the directory.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn checksums(root: &Path, at: &Path, files: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(at).at(at)? {
        let path = entry.at(at)?.path();
        if path.is_dir() {
            checksums(root, &path, files)?;
            continue;
        }
        let mut hash = Sha256::new();
        io::copy(&mut File::open(&path).at(&path)?, &mut hash).at(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        files.insert(name.to_string_lossy().into_owned(), hex(&hash.finalize()));
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let filled = root.path().join("new");
        let target = root.path().join("unit");
        fs::create_dir(&filled).unwrap();
        fs::write(filled.join("vmlinuz"), "kernel").unwrap();
        Unit::keep(&filled, &target, Vec::new(), Loads::new()).unwrap();
        let unit = Unit::open(&target).unwrap().unwrap();
        assert_eq!(unit.read("vmlinuz").unwrap(), b"kernel");
        assert!(unit.read("other").is_err());
        fs::write(target.join("vmlinuz"), "kernal").unwrap();
        let error = unit.read("vmlinuz").unwrap_err().to_string();
        assert!(error.contains("fetch --again"), "{error}");
        fs::write(target.join(MANIFEST), "{").unwrap();
        assert!(Unit::open(&target).is_err());
    }
}
