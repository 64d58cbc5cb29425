//! A layer: a tar with what it adds and what it removes (the image specification's layer.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hugetext_elf::Image;
use sha2::{Digest as _, Sha256};

use super::blobs::Digest;
use crate::facts::{Facts, Ground};

/// The most bytes that are read of one program; larger ones are left out.
const LARGEST: u64 = 2 << 30;
/// The most bytes of a layer's content: small ones that never end are no layers.
const LONGEST: u64 = 256 << 30;
/// The most entries of a layer.
const MOST: usize = 5_000_000;

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayerError {
    /// It ends too early, or is no archive.
    #[error("{0}")]
    Damaged(#[from] io::Error),
    /// Its bytes are others than its digest says.
    #[error("its content is not what its digest says")]
    Digest,
    /// It has more than any layer.
    #[error("it is too large")]
    Large,
}

#[derive(Debug, Clone)]
enum Entry {
    /// A program, with what it is.
    Program(Arc<Facts>),
    /// A second name of a file in this layer or below.
    Link(PathBuf),
    /// A directory: what lies below stays.
    Directory,
    /// Anything else, which hides what lies below.
    Other,
}

/// What a layer does.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// Paths of lower layers that are gone.
    removed: BTreeSet<PathBuf>,
    /// Directories whose content in lower layers is gone.
    opaque: BTreeSet<PathBuf>,
    entries: Vec<(PathBuf, Entry)>,
}

/// Hashes and counts what passes.
struct Passing<R> {
    from: R,
    hash: Sha256,
    left: u64,
}

impl<R: Read> Read for Passing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if self.left == 0 {
            return Err(io::Error::other("it is too large"));
        }
        self.hash.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl<R> Passing<R> {
    fn new(from: R) -> Passing<R> {
        let hash = Sha256::new();
        Passing {
            from,
            hash,
            left: LONGEST,
        }
    }

    fn is(self, digest: &Digest) -> bool {
        format!("{:x}", self.hash.finalize()) == digest.hex()
    }
}

impl Layer {
    /// Reads a layer of any compression. Its digest is that of the bytes, or of the content.
    pub(crate) fn read(
        bytes: impl Read,
        digest: &Digest,
        ground: &Ground,
    ) -> Result<Layer, LayerError> {
        let mut bytes = BufReader::new(Passing::new(bytes));
        let magic = bytes.fill_buf()?.get(..4).unwrap_or_default().to_vec();
        let content: Box<dyn Read + '_> = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(&mut bytes)),
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::with_buffer(&mut bytes)?),
            _ => Box::new(&mut bytes),
        };
        let mut content = Passing::new(content);
        let layer = Layer::read_tar(&mut content, ground)?;
        // Padding behind the end of the archive belongs to the digest.
        io::copy(&mut content, &mut io::sink())?;
        let is_content = content.is(digest);
        io::copy(&mut bytes, &mut io::sink())?;
        if is_content || bytes.into_inner().is(digest) {
            return Ok(layer);
        }
        Err(LayerError::Digest)
    }

    fn read_tar(content: &mut impl Read, ground: &Ground) -> Result<Layer, LayerError> {
        let mut layer = Layer::default();
        let mut archive = tar::Archive::new(content);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = plain(&entry.path()?)?;
            if layer.entries.len() >= MOST {
                return Err(LayerError::Large);
            }
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            if name == ".wh..wh..opq" {
                layer.opaque.insert(directory);
                continue;
            }
            if let Some(gone) = name.strip_prefix(".wh.") {
                // What else begins so is overlay's own business.
                if !gone.starts_with(".wh.") && !gone.is_empty() {
                    layer.removed.insert(directory.join(gone));
                }
                continue;
            }
            let kind = entry.header().entry_type();
            let found = if kind.is_file() {
                program(&mut entry, ground)?
            } else if kind.is_hard_link() {
                let target = entry.link_name()?;
                target.map_or(Ok(Entry::Other), |target| plain(&target).map(Entry::Link))?
            } else if kind.is_dir() {
                Entry::Directory
            } else {
                Entry::Other
            };
            layer.entries.push((path, found));
        }
        Ok(layer)
    }
}

/// A path without its root and `.`.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                let problem = format!("{} leads out of the image", path.display());
                return Err(io::Error::other(problem));
            }
        }
    }
    Ok(plain)
}

/// A file, read as far as it takes to know that it is no program.
fn program(entry: &mut impl Read, ground: &Ground) -> io::Result<Entry> {
    let mut bytes = Vec::new();
    entry.take(4).read_to_end(&mut bytes)?;
    if bytes != b"\x7fELF" {
        return Ok(Entry::Other);
    }
    entry.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(match Image::read(bytes.as_slice()) {
        Ok(image) if image.text_len() > 0 => {
            Entry::Program(Arc::new(Facts::of(&image, bytes.as_slice(), ground)))
        }
        _ => Entry::Other,
    })
}

/// What a container sees of several layers.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// All paths but directories; programs with what they are.
    files: BTreeMap<PathBuf, Option<Arc<Facts>>>,
}

impl Tree {
    /// Puts a layer on top. What it removes is removed of lower layers only, wherever it says so.
    pub(crate) fn apply(&mut self, layer: &Layer) {
        for path in &layer.removed {
            self.remove(path, true);
        }
        for directory in &layer.opaque {
            self.remove(directory, false);
        }
        for (path, entry) in &layer.entries {
            let found = match entry {
                Entry::Directory => {
                    self.files.remove(path);
                    continue;
                }
                Entry::Program(facts) => Some(Arc::clone(facts)),
                Entry::Link(target) => self.files.get(target).cloned().flatten(),
                Entry::Other => None,
            };
            self.remove(path, true);
            self.files.insert(path.clone(), found);
        }
    }

    /// Removes all below a path, and the path itself if `with_itself`.
    fn remove(&mut self, path: &Path, with_itself: bool) {
        if with_itself {
            self.files.remove(path);
        }
        let below = self.files.range(path.to_owned()..);
        let below = below
            .map(|(found, _)| found)
            .take_while(|found| found.starts_with(path));
        let below: Vec<PathBuf> = below.filter(|found| *found != path).cloned().collect();
        for found in below {
            self.files.remove(&found);
        }
    }

    /// The programs, by path from the root.
    pub(crate) fn programs(self) -> BTreeMap<PathBuf, Arc<Facts>> {
        let programs = self.files.into_iter();
        programs
            .filter_map(|(path, facts)| Some((Path::new("/").join(path), facts?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
