//! Which images there are, and their layers.

use std::collections::BTreeSet;
use std::io;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::blobs::{Blobs, Digest};
use crate::row::ImageName;

/// Indexes within indexes are followed so far.
const DEEPEST: usize = 4;
/// The most layers of an image; docker allows 127.
const MOST_LAYERS: usize = 1000;

/// An image: its name, and the digests of its layers, the lowest first.
#[derive(Debug)]
pub(crate) struct ImageManifest {
    pub(crate) name: ImageName,
    pub(crate) layers: Vec<Digest>,
}

/// A reference of the image specification.
#[derive(Debug, Clone, Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// An index or a manifest: one has manifests, the other layers.
#[derive(Debug, Deserialize)]
struct Node {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    config: Option<Descriptor>,
}

/// One image of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

/// What is needed of an image's configuration.
#[derive(Debug, Deserialize)]
struct Configuration {
    rootfs: Rootfs,
}

#[derive(Debug, Deserialize)]
struct Rootfs {
    diff_ids: Vec<String>,
}

/// The images among `blobs`, each once.
pub(crate) fn images_in(blobs: &Blobs) -> io::Result<Vec<ImageManifest>> {
    match blobs {
        Blobs::Content(_) => stored(blobs),
        Blobs::Layout(_) => layout(blobs),
        Blobs::Archive { files, .. } => {
            if files.contains_key(std::path::Path::new("index.json")) {
                layout(blobs)
            } else {
                saved(blobs)
            }
        }
    }
}

fn layout(blobs: &Blobs) -> io::Result<Vec<ImageManifest>> {
    let index: Node = json(&blobs.file("index.json")?, "index.json")?;
    let mut found = Vec::new();
    for descriptor in index.manifests {
        let name = [
            "io.containerd.image.name",
            "org.opencontainers.image.ref.name",
        ]
        .iter()
        .find_map(|key| descriptor.annotations.get(*key).cloned());
        follow(
            blobs,
            &descriptor.digest,
            name.as_ref(),
            DEEPEST,
            &mut found,
        )?;
    }
    Ok(once(found))
}

/// Adds the images that a digest leads to.
fn follow(
    blobs: &Blobs,
    digest: &str,
    name: Option<&String>,
    deep: usize,
    found: &mut Vec<ImageManifest>,
) -> io::Result<()> {
    let digest = parsed(digest)?;
    let Ok(bytes) = blobs.blob(&digest) else {
        // An index of several architectures, of which one was pulled.
        return match deep {
            DEEPEST => Err(io::Error::other(format!("{digest} is missing"))),
            _ => Ok(()),
        };
    };
    is_whole(&bytes, &digest)?;
    let node: Node = json(&bytes, &digest.to_string())?;
    if node.config.is_some() {
        found.push(ImageManifest {
            name: ImageName {
                name: name.cloned(),
                digest: digest.to_string(),
            },
            layers: digests(node.layers.iter().map(|layer| layer.digest.as_str()))?,
        });
    }
    let deeper = deep.checked_sub(1);
    let deeper = deeper.ok_or_else(|| io::Error::other("indexes lead to each other"))?;
    for descriptor in node.manifests {
        follow(blobs, &descriptor.digest, name, deeper, found)?;
    }
    Ok(())
}

/// The images of `docker save` without an index: layers go by the digests of their content.
fn saved(blobs: &Blobs) -> io::Result<Vec<ImageManifest>> {
    let list: Vec<Saved> = json(&blobs.file("manifest.json")?, "manifest.json")?;
    let mut found = Vec::new();
    for image in list {
        let bytes = blobs.file(&image.config)?;
        let configuration: Configuration = json(&bytes, &image.config)?;
        let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
        let name = image.repo_tags.and_then(|tags| tags.into_iter().next());
        found.push(ImageManifest {
            name: ImageName { name, digest },
            layers: digests(configuration.rootfs.diff_ids.iter().map(String::as_str))?,
        });
    }
    Ok(once(found))
}

/// The images of a store without names: manifests whose layers are there.
fn stored(blobs: &Blobs) -> io::Result<Vec<ImageManifest>> {
    let mut found = Vec::new();
    for digest in blobs.small_blobs()? {
        let Ok(bytes) = blobs.blob(&digest) else {
            continue;
        };
        // Most blobs are configurations and small layers.
        let Ok(node) = serde_json::from_slice::<Node>(&bytes) else {
            continue;
        };
        if node.config.is_none() || node.layers.is_empty() {
            continue;
        }
        is_whole(&bytes, &digest)?;
        let layers = digests(node.layers.iter().map(|layer| layer.digest.as_str()))?;
        let name = None;
        let digest = digest.to_string();
        found.push(ImageManifest {
            name: ImageName { name, digest },
            layers,
        });
    }
    Ok(found)
}

fn once(mut images: Vec<ImageManifest>) -> Vec<ImageManifest> {
    let mut seen = BTreeSet::new();
    images.retain(|image| seen.insert(image.name.digest.clone()));
    images
}

fn digests<'d>(texts: impl Iterator<Item = &'d str>) -> io::Result<Vec<Digest>> {
    let layers: Vec<Digest> = texts
        .take(MOST_LAYERS + 1)
        .map(parsed)
        .collect::<Result<_, _>>()?;
    if layers.len() > MOST_LAYERS {
        return Err(io::Error::other("too many layers"));
    }
    Ok(layers)
}

fn parsed(text: &str) -> io::Result<Digest> {
    Digest::parse(text).ok_or_else(|| io::Error::other(format!("{text:?} is no sha256 digest")))
}

fn is_whole(bytes: &[u8], digest: &Digest) -> io::Result<()> {
    match format!("{:x}", Sha256::digest(bytes)) == digest.hex() {
        is_same if is_same => Ok(()),
        _ => Err(io::Error::other(format!("{digest} is damaged"))),
    }
}

fn json<T: DeserializeOwned>(bytes: &[u8], name: &str) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| io::Error::other(format!("{name}: {error}")))
}
