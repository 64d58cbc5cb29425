//! The methods of warm, one after the other, on a file of a few PMD windows.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use hugetext_host::{Advice, FileMapping, advise_process};
use hugetext_lab_agent::{Method, MethodName, PROGRAMS, READ_ONLY_FILE};
use hugetext_leaf::Span;
use rustix::process::{PidfdFlags, pidfd_open};

use super::files;
use super::memory::{Geometry, MappedFile, own_huge_pages};
use super::process::Running;

/// The synthetic program whose text is collapsed while it runs. It is not position-independent, so
/// its windows are those of its file.
const PROGRAM: &str = "exec-2m";

/// Sizes of the writes that give a file small folios: no more than a pipe or a package manager
/// writes at once.
pub(super) const SMALL: u64 = 16 << 10;

/// Tries each method.
pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Vec<Method>> {
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
    let methods = [
        MethodName::Plain,
        MethodName::Collapse,
        MethodName::Readahead,
        MethodName::Write,
    ];
    let mut found: Vec<Method> = methods
        .into_iter()
        .map(|name| {
            files::drop_cache(&path)?;
            let error = climb(name, &path, geometry).err();
            found(name, error, &path, geometry)
        })
        .collect::<io::Result<_>>()?;
    found.extend(in_use(directory, geometry)?);
    Ok(found)
}

/// The methods for the text of a running program; none if the synthetic program's text has no window.
fn in_use(directory: &Path, geometry: &Geometry) -> io::Result<Vec<Method>> {
    let program = directory.join(PROGRAM);
    let source = Path::new(PROGRAMS).join(PROGRAM);
    if fs::metadata(&source)?.len() < geometry.pmd.bytes() {
        return Ok(Vec::new());
    }
    if !program.exists() {
        files::replace(&source, &program, SMALL)?;
    }
    [MethodName::CollapseInUse, MethodName::CollapseRemote]
        .into_iter()
        .map(|name| {
            files::drop_cache(&program)?;
            let running = Running::start(&program, directory)?;
            running.touch_text(&program, geometry.page)?;
            let collapsed = match name {
                MethodName::CollapseRemote => collapse_remote(&running, &program, geometry),
                _ => climb(MethodName::Collapse, &program, geometry),
            };
            found(name, collapsed.err(), &program, geometry)
        })
        .collect()
}

fn collapse_remote(running: &Running, program: &Path, geometry: &Geometry) -> io::Result<()> {
    let pidfd = pidfd_open(running.pid().into(), PidfdFlags::empty())?;
    let whole = |mapping: MappedFile| {
        let end = geometry.pmd.align_down(mapping.span.end);
        Span::new(geometry.pmd.align_up(mapping.span.start), end)
    };
    let spans: Vec<Span> = running.text(program)?.into_iter().map(whole).collect();
    advise_process(pidfd, &spans, Advice::Collapse).map(drop)
}

/// Carries out the method, and leaves the page cache in the resulting state.
pub(super) fn climb(name: MethodName, path: &Path, geometry: &Geometry) -> io::Result<()> {
    match name {
        MethodName::Plain => map(path, geometry).map(drop)?,
        MethodName::Collapse => {
            let mapping = map(path, geometry)?;
            mapping.collapse(mapping.range())?;
        }
        MethodName::Readahead => {
            let mapping = mapping(path, geometry)?;
            mapping.want_huge()?;
            mapping.touch(mapping.range())?;
        }
        MethodName::Write => files::replace(path, path, geometry.pmd.bytes())?,
        MethodName::CollapseInUse | MethodName::CollapseRemote => {
            return Err(io::Error::other("needs a running program"));
        }
    }
    Ok(())
}

/// Brings the file into folios of the largest leaf that it can fill, by the first method that works,
/// in the order of `hugetext warm`. Returns that method.
pub(super) fn warm(path: &Path, geometry: &Geometry) -> io::Result<Option<MethodName>> {
    let Some(leaf) = geometry.leaf_for(fs::metadata(path)?.len()) else {
        return Ok(None);
    };
    for name in [
        MethodName::Collapse,
        MethodName::Readahead,
        MethodName::Write,
    ] {
        files::drop_cache(path)?;
        // A refusal shows in the result.
        let _ = climb(name, path, geometry);
        let (found, _) = own_huge_pages(map(path, geometry)?.addresses(), geometry)?;
        let enough = if leaf == geometry.pmd {
            found.pmd
        } else {
            found.contpte
        };
        if enough > 0 {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The whole windows of the file, mapped as text is.
pub(super) fn mapping(path: &Path, geometry: &Geometry) -> io::Result<FileMapping> {
    let bytes = fs::metadata(path)?.len();
    let none = || io::Error::other(format!("{}: smaller than every leaf", path.display()));
    let leaf = geometry.leaf_for(bytes).ok_or_else(none)?;
    FileMapping::new(
        &File::open(path)?,
        Span::new(0, leaf.align_down(bytes)),
        leaf,
    )
}

/// The same windows, touched.
pub(super) fn map(path: &Path, geometry: &Geometry) -> io::Result<FileMapping> {
    let mapping = mapping(path, geometry)?;
    mapping.touch(mapping.range())?;
    Ok(mapping)
}

/// How a plain mapping maps the file now.
fn found(
    name: MethodName,
    error: Option<io::Error>,
    path: &Path,
    geometry: &Geometry,
) -> io::Result<Method> {
    let mapping = map(path, geometry)?;
    let (found, folios) = own_huge_pages(mapping.addresses(), geometry)?;
    Ok(Method {
        name,
        error: error.map(|error| error.to_string()),
        possible: mapping.range().len(),
        found,
        folios,
    })
}
