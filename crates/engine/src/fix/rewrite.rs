//! Writes a new file by a plan, and verifies it before it becomes visible.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hugetext_elf::{Difference, Operation, Plan, Stretch, Verified, rewrite, verify_unshared};
use hugetext_host::{Copier, SharedExtents};
use hugetext_leaf::verdict::LeafUse;
use hugetext_leaf::{Geometry, Leaf};

use super::destination::FixDestination;
use super::plan::FixPlan;
use crate::error::Error;
use crate::method::WarmPolicy;
use crate::on_host::ProgramOnHost;
use crate::program::Program;
use crate::warm::{WarmOutcome, warm};

/// A file is written in pieces of this size, so that each can fill a folio for a PMD leaf of most machines.
const LARGEST: Leaf = Leaf::M2;

/// A new file that is in its place.
#[derive(Debug)]
pub struct WrittenFix {
    /// Its path.
    pub path: PathBuf,
    /// The result of verification.
    pub verified: Verified,
    /// The state of its page cache, if it was laid out for this machine.
    pub cache: Option<WarmOutcome>,
}

/// Writes the new file, verifies it, and only then makes it visible. Where no leaf is to map its text, no folio of it is as
/// large as one. `None` if `destination` asks for no file.
pub fn write_fix(
    on_host: &ProgramOnHost<'_>,
    fix: &FixPlan,
    destination: &FixDestination,
    geometry: &Geometry,
    leaves: LeafUse,
) -> Result<Option<WrittenFix>, Error> {
    if !destination.is_written(fix.done_already) {
        return Ok(None);
    }
    let program = &on_host.program;
    let replacement = destination.create(program)?;
    let path = replacement.destination().to_owned();
    let largest = match leaves {
        LeafUse::Leaves => LARGEST,
        LeafUse::Tables | LeafUse::AsItIs => on_host.host.leaf.half().min(LARGEST),
    };
    let verified = rewrite_in_folios(replacement.file(), &path, program, &fix.plan, largest)?;
    let new = destination.put_into_place(program, replacement)?;
    Ok(Some(WrittenFix {
        cache: page_cache(new, &path, on_host, geometry)
            .map(|cache| WarmOutcome { leaves, ..cache }),
        path,
        verified,
    }))
}

/// Fills the empty file `new` according to a plan for `program`, and verifies it. The file will lie
/// at `to`, or in it.
pub fn rewrite_into(
    new: &File,
    to: &Path,
    program: &Program,
    plan: &Plan,
) -> Result<Verified, Error> {
    rewrite_in_folios(new, to, program, plan, LARGEST)
}

/// The same, in folios of at most `largest`.
fn rewrite_in_folios(
    new: &File,
    to: &Path,
    program: &Program,
    plan: &Plan,
    largest: Leaf,
) -> Result<Verified, Error> {
    let path = || program.path.clone();
    let operations = rewrite(&program.file, &program.image, plan);
    let operations = operations.map_err(|error| Error::unplanned(&program.path, error))?;
    perform(&operations, &program.file, new, largest).map_err(|source| Error::Rewrite {
        from: path(),
        to: to.to_owned(),
        source,
    })?;
    let compared = compare_files(&program.file, new).map_err(Error::io(&program.path))?;
    compared.map_err(|difference| match difference {
        Difference::Read(source) => Error::Io {
            path: path(),
            source,
        },
        source => Error::NotTheSame {
            path: path(),
            source,
        },
    })
}

/// Whether two files are the same program. What they share on disk is not read.
pub fn compare_files(old: &File, new: &File) -> io::Result<Result<Verified, Difference>> {
    let extents = SharedExtents::of(old, new)?;
    let known = |at_old, at_new| match extents.shared(at_old, at_new) {
        (true, len) => Stretch::Shared(len),
        (false, len) => Stretch::Unknown(len),
    };
    Ok(verify_unshared(old, new, known))
}

fn perform(operations: &[Operation], old: &File, new: &File, largest: Leaf) -> io::Result<()> {
    let written = operations.iter().filter_map(|operation| match operation {
        Operation::Write { at, bytes } => Some(*at..at.saturating_add(bytes.len() as u64)),
        _ => None,
    });
    let copier = Copier::new(old, new)?.in_pieces_of(largest);
    let mut copier = copier.apart_from(written);
    for operation in operations {
        match operation {
            Operation::SetLen { len } => new.set_len(*len)?,
            Operation::Copy { from, to } => copier.copy(from.start..from.end, *to)?,
            Operation::Write { at, bytes } => new.write_all_at(bytes, *at)?,
        }
    }
    Ok(())
}

/// The page cache of the file `new` at `path`, if the file was laid out for this machine.
fn page_cache(
    new: File,
    path: &Path,
    on_host: &ProgramOnHost<'_>,
    geometry: &Geometry,
) -> Option<WarmOutcome> {
    let host = on_host.host;
    if host.geometry.as_ref() != Some(geometry) || !host.has_huge_pages() {
        return None;
    }
    let program = Program::from_file(path, new).ok()?;
    let program = ProgramOnHost::new(program, host).ok()?;
    warm(&program, WarmPolicy::LookOnly).ok()
}
