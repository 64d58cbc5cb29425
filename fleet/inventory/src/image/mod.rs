//! Container images, read without running them: OCI layouts, docker archives and containerd's store.

mod blobs;
mod layer;
mod manifest;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use blobs::{Blobs, Digest};
pub(crate) use layer::{Layer, LayerError, Tree};
pub(crate) use manifest::{ImageManifest, images_in};

use crate::facts::{Facts, Ground};
use crate::row::ImageName;

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The place cannot be read, or is no image.
    #[error("{}: {problem}", path.display())]
    Place {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A layer is damaged or missing.
    #[error("{}: layer {layer}: {problem}; pull or build the image again", path.display())]
    Layer {
        /// The image's place.
        path: PathBuf,
        /// The layer.
        layer: String,
        /// What is wrong.
        problem: LayerError,
    },
}

/// An image, and the programs that a container of it would see.
#[derive(Debug)]
pub(crate) struct ReadImage {
    pub(crate) name: ImageName,
    pub(crate) programs: BTreeMap<PathBuf, Arc<Facts>>,
}

/// Reads images. A layer that several images share is read once.
#[derive(Debug)]
pub(crate) struct Reader<'g> {
    ground: &'g Ground,
    layers: BTreeMap<Digest, Arc<Layer>>,
    /// How many layers were read. A test asserts that none was read twice.
    pub(crate) read: usize,
}

impl<'g> Reader<'g> {
    pub(crate) fn new(ground: &'g Ground) -> Reader<'g> {
        Reader {
            ground,
            layers: BTreeMap::new(),
            read: 0,
        }
    }

    /// The images at `path`. What cannot be read of one image keeps none of the others back.
    pub(crate) fn read(
        &mut self,
        path: &Path,
    ) -> Result<Vec<Result<ReadImage, ImageError>>, ImageError> {
        let place = |problem: io::Error| ImageError::Place {
            path: path.to_owned(),
            problem: problem.to_string(),
        };
        let blobs = Blobs::open(path).map_err(place)?;
        let images = images_in(&blobs).map_err(place)?;
        Ok(images
            .into_iter()
            .map(|image| self.image(path, &blobs, image))
            .collect())
    }

    fn image(
        &mut self,
        path: &Path,
        blobs: &Blobs,
        image: ImageManifest,
    ) -> Result<ReadImage, ImageError> {
        let mut tree = Tree::default();
        for digest in &image.layers {
            let layer = self
                .layer(blobs, digest)
                .map_err(|problem| ImageError::Layer {
                    path: path.to_owned(),
                    layer: digest.to_string(),
                    problem,
                })?;
            tree.apply(&layer);
        }
        Ok(ReadImage {
            name: image.name,
            programs: tree.programs(),
        })
    }

    fn layer(&mut self, blobs: &Blobs, digest: &Digest) -> Result<Arc<Layer>, LayerError> {
        if let Some(layer) = self.layers.get(digest) {
            return Ok(Arc::clone(layer));
        }
        let layer = Arc::new(Layer::read(blobs.layer(digest)?, digest, self.ground)?);
        self.read = self.read.saturating_add(1);
        self.layers.insert(digest.clone(), Arc::clone(&layer));
        Ok(layer)
    }
}
