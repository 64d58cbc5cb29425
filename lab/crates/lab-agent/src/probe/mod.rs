//! The measurements, one file per kind.

mod commands;
mod files;
mod locks;
mod memory;
mod methods;
mod placement;
mod pressure;
mod process;
mod programs;
mod promote;
mod protect;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hugetext_lab_agent::{Cell, Probe, ProbeOutcome};

/// Runs one cell. An error is its outcome.
pub(crate) fn run(cell: &Cell) -> ProbeOutcome {
    attempt(cell).unwrap_or_else(|error| ProbeOutcome::Failed(error.to_string()))
}

fn attempt(cell: &Cell) -> io::Result<ProbeOutcome> {
    let thp = Path::new("/sys/kernel/mm/transparent_hugepage");
    fs::write(thp.join("enabled"), cell.thp.word())?;
    let geometry = memory::Geometry::of_this_kernel()?;
    let place = Directory::fresh(&cell.place)?;
    let (at, geometry) = (place.path.as_path(), &geometry);
    Ok(match cell.probe {
        Probe::Methods => ProbeOutcome::Methods(methods::probe(at, geometry)?),
        Probe::Placement => ProbeOutcome::Placement(placement::probe(at, geometry)?),
        Probe::Programs => ProbeOutcome::Programs(programs::probe(at, geometry)?),
        Probe::Warm => ProbeOutcome::Warm(programs::warm_command(at, geometry)?),
        Probe::Commands => ProbeOutcome::Commands(commands::probe(at, geometry)?),
        Probe::Promote => ProbeOutcome::Promoted(promote::probe(at)?),
        Probe::PromoteRounds => ProbeOutcome::Promoted(promote::rounds(at)?),
        Probe::Compile => ProbeOutcome::Compile(programs::compile(at, geometry)?),
        Probe::Pressure => ProbeOutcome::Pressure(pressure::probe(at, geometry)?),
        Probe::Mprotect => ProbeOutcome::Mprotect(protect::probe(geometry)?),
        Probe::Locks => ProbeOutcome::Locks(locks::probe()?),
    })
}

/// The directory for a cell's files: an empty one in its place, removed with its content when the
/// cell ends. If the place is read-only, it is the place itself.
struct Directory {
    path: PathBuf,
    own: bool,
}

impl Directory {
    fn fresh(place: &str) -> io::Result<Directory> {
        let place = Path::new("/mnt").join(place);
        let path = place.join("cell");
        match fs::create_dir(&path) {
            Ok(()) => Ok(Directory { path, own: true }),
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(Directory {
                path: place,
                own: false,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::other("not mounted"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.own {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
