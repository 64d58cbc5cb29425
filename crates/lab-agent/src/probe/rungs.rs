//! The warm ladder, rung by rung, on a file of a few PMD windows.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use hugetext_host::FileMapping;
use hugetext_lab_agent::{READ_ONLY_FILE, Rung, RungName};
use hugetext_leaf::Span;

use super::files;
use super::memory::{Geometry, own_huge_pages};

/// Pieces that a file is written in where its folios shall be small: no more than a pipe or a
/// package manager writes at once.
pub(super) const SMALL: u64 = 16 << 10;

/// Tries each rung that needs no running program.
pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Vec<Rung>> {
    let windows = if geometry.pmd.bytes() > 2 << 20 { 2 } else { 4 };
    let bytes = windows * geometry.pmd.bytes();
    let fixed = directory.join(READ_ONLY_FILE);
    let path = if fixed.exists() {
        fixed
    } else {
        let path = directory.join("file");
        files::create(&path, bytes, SMALL)?;
        path
    };
    let rungs = [
        RungName::Plain,
        RungName::Collapse,
        RungName::Readahead,
        RungName::Write,
    ];
    rungs
        .into_iter()
        .map(|name| {
            files::drop_cache(&path)?;
            let error = climb(name, &path, geometry).err();
            found(name, error, &path, geometry)
        })
        .collect()
}

/// Does what the rung says, leaving the page cache as it made it.
pub(super) fn climb(name: RungName, path: &Path, geometry: &Geometry) -> io::Result<()> {
    match name {
        RungName::Plain => map(path, geometry).map(drop)?,
        RungName::Collapse => {
            let mapping = map(path, geometry)?;
            mapping.collapse(mapping.range())?;
        }
        RungName::Readahead => {
            let mapping =
                FileMapping::new(&File::open(path)?, windows(path, geometry)?, geometry.pmd)?;
            mapping.want_huge()?;
            mapping.touch(mapping.range())?;
        }
        RungName::Write => files::replace(path, path, geometry.pmd.bytes())?,
        RungName::CollapseInUse | RungName::CollapseRemote => {
            return Err(io::Error::other("needs a running program"));
        }
    }
    Ok(())
}

/// Maps the whole windows of the file as text is mapped, and touches them.
pub(super) fn map(path: &Path, geometry: &Geometry) -> io::Result<FileMapping> {
    let mapping = FileMapping::new(&File::open(path)?, windows(path, geometry)?, geometry.pmd)?;
    mapping.touch(mapping.range())?;
    Ok(mapping)
}

fn windows(path: &Path, geometry: &Geometry) -> io::Result<Span> {
    Ok(Span::new(
        0,
        geometry.pmd.align_down(fs::metadata(path)?.len()),
    ))
}

/// What a plain mapping gets now.
fn found(
    name: RungName,
    error: Option<io::Error>,
    path: &Path,
    geometry: &Geometry,
) -> io::Result<Rung> {
    let mapping = map(path, geometry)?;
    let (found, folios) = own_huge_pages(mapping.addresses(), geometry)?;
    Ok(Rung {
        name,
        error: error.map(|error| error.to_string()),
        possible: mapping.range().len(),
        found,
        folios,
    })
}
