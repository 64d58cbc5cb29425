//! Where the parts of images lie: a directory, or an archive.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The most bytes of a manifest or configuration.
const LONGEST: u64 = 16 << 20;
/// The most files of an archive of images.
const MOST_FILES: usize = 100_000;
/// The directory below containerd's root that holds all blobs.
const CONTAINERD: &str = "io.containerd.content.v1.content";

/// sha256 of a blob, as 64 hexadecimal digits. In a docker archive it is that of the layer's content,
/// elsewhere that of its compressed bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest(String);

impl Digest {
    /// A digest as `sha256:HEX`, or the 64 digits alone.
    pub(crate) fn parse(text: &str) -> Option<Digest> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        let is_hex = hex.len() == 64
            && hex
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| Digest(hex.to_owned()))
    }

    /// The digits.
    pub(crate) fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// The parts of images.
#[derive(Debug)]
pub(crate) enum Blobs {
    /// An OCI layout.
    Layout(PathBuf),
    /// containerd's content store: blobs without an index.
    Content(PathBuf),
    /// An archive of either an OCI layout or of `docker save`, with the place of each of its files, and
    /// which file holds which layer.
    Archive {
        path: PathBuf,
        files: BTreeMap<PathBuf, (u64, u64)>,
    },
}

impl Blobs {
    /// The parts at `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Blobs> {
        if !path.is_dir() {
            return archive(path);
        }
        for content in [path.join(CONTAINERD), path.to_owned()] {
            if content.ends_with(CONTAINERD) && content.is_dir() {
                return Ok(Blobs::Content(content));
            }
        }
        if path.join("index.json").is_file() {
            return Ok(Blobs::Layout(path.to_owned()));
        }
        Err(io::Error::other(
            "no image; name an OCI layout, an archive of `docker save`, or containerd's root directory",
        ))
    }

    /// A small file.
    pub(crate) fn file(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self
            .open_file(Path::new(name))?
            .take(LONGEST + 1)
            .read_to_end(&mut bytes)?;
        if read as u64 > LONGEST {
            return Err(io::Error::other(format!("{name} is too long")));
        }
        Ok(bytes)
    }

    /// A blob that is small.
    pub(crate) fn blob(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        self.file(&blob_name(digest))
    }

    /// Every blob that is small enough to be a manifest.
    pub(crate) fn small_blobs(&self) -> io::Result<Vec<Digest>> {
        let Blobs::Content(root) = self else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in root.join("blobs/sha256").read_dir()? {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(Digest::parse);
            let is_small = entry.metadata().is_ok_and(|there| there.len() < 1 << 20);
            found.extend(digest.filter(|_| is_small));
        }
        found.sort();
        Ok(found)
    }

    /// The bytes of a layer. In a docker archive, `digest` is looked for under all names that versions of
    /// docker gave.
    pub(crate) fn layer(&self, digest: &Digest) -> io::Result<Box<dyn Read>> {
        self.open_file(Path::new(&blob_name(digest)))
    }

    pub(crate) fn open_file(&self, name: &Path) -> io::Result<Box<dyn Read>> {
        match self {
            Blobs::Layout(root) | Blobs::Content(root) => {
                let file = File::open(root.join(name))?;
                Ok(Box::new(BufReader::new(file)))
            }
            Blobs::Archive { path, files } => {
                let missing = || io::Error::other(format!("{} is missing", name.display()));
                let (start, len) = files.get(name).ok_or_else(missing)?;
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(*start))?;
                Ok(Box::new(BufReader::new(file.take(*len))))
            }
        }
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Where each file of an archive lies.
fn archive(path: &Path) -> io::Result<Blobs> {
    let mut archive = tar::Archive::new(File::open(path)?);
    let mut files = BTreeMap::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        if files.len() >= MOST_FILES {
            return Err(io::Error::other("too many files for an archive of images"));
        }
        let name = entry.path()?.components().collect::<PathBuf>();
        let name = name.strip_prefix(".").map(Path::to_owned).unwrap_or(name);
        files.insert(name, (entry.raw_file_position(), entry.size()));
    }
    if files.is_empty() {
        return Err(io::Error::other("no archive of an image"));
    }
    Ok(Blobs::Archive {
        path: path.to_owned(),
        files,
    })
}
