//! Opens a program file and reads it: the first step of every subcommand that takes a path.

use std::cell::OnceCell;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use hugetext_elf::{Dependencies, Image, ImageError, Machine};
use hugetext_host::{Mounts, ReplaceError, is_unchanged, open_regular, open_without_waiting};
use hugetext_leaf::{Filesystem, Geometry, Kernel, Loader};

use crate::failure::Failure;

/// An open program and its headers.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The file before its headers were read.
    pub(crate) metadata: Metadata,
    pub(crate) image: Image,
    musl: OnceCell<bool>,
}

/// Whether an image uses the instruction set that this machine executes.
pub(crate) fn is_native(image: &Image) -> bool {
    image.machine == Machine::of_arch(std::env::consts::ARCH)
}

/// Why a path cannot be read as a program.
#[derive(Debug)]
pub(crate) enum NoProgram {
    /// The path cannot be opened, or is not a regular file.
    Open(io::Error),
    /// Its headers are not those of a program.
    Image(ImageError),
}

impl NoProgram {
    /// The error line for `path`.
    pub(crate) fn failure(&self, path: &Path) -> Failure {
        match self {
            NoProgram::Open(error) => Failure::io(path, error),
            NoProgram::Image(error) => Failure::image(path, error),
        }
    }
}

impl Program {
    /// Opens a regular file and reads its headers.
    pub(crate) fn read(path: &Path) -> Result<Program, NoProgram> {
        Program::of(path, open_regular(path).map_err(NoProgram::Open)?)
    }

    /// As [`Program::read`], for a regular file that a directory walk found. Most such files are no
    /// programs; of those, only the first bytes are read.
    pub(crate) fn read_met(path: &Path) -> Result<Program, NoProgram> {
        Program::of(path, open_without_waiting(path).map_err(NoProgram::Open)?)
    }

    fn of(path: &Path, file: File) -> Result<Program, NoProgram> {
        let metadata = file.metadata().map_err(NoProgram::Open)?;
        let image = Image::read(&file).map_err(NoProgram::Image)?;
        Ok(Program {
            path: path.to_owned(),
            file,
            metadata,
            image,
            musl: OnceCell::new(),
        })
    }

    /// As [`Program::read`], for a path that the user named.
    pub(crate) fn open(path: &Path) -> Result<Program, Failure> {
        Program::read(path).map_err(|error| error.failure(path))
    }

    /// An error if the path names another file by now, or if the file was written since it was
    /// opened.
    pub(crate) fn is_as_read(&self) -> Result<(), Failure> {
        let there = fs::metadata(&self.path).map_err(|error| Failure::io(&self.path, &error))?;
        match is_unchanged(&self.metadata, &there) {
            true => Ok(()),
            false => Err(Failure::replace(&self.path, &ReplaceError::Changed)),
        }
    }

    /// The geometry that the user named. Otherwise the geometry of this machine, `own`, for its own
    /// programs, or the usual one of the program's architecture, if one is known.
    pub(crate) fn geometry(
        &self,
        named: Option<Geometry>,
        own: Option<Geometry>,
    ) -> Option<Geometry> {
        named
            .or(own.filter(|_| is_native(&self.image)))
            .or(self.image.machine.default_geometry())
    }

    /// An error if this machine cannot execute the program, so that huge text here is of no use.
    pub(crate) fn may_run_here(&self) -> Result<(), Failure> {
        match is_native(&self.image) {
            true => Ok(()),
            false => Err(Failure::at(
                &self.path,
                "for another instruction set than this machine executes",
            )),
        }
    }

    /// The error for [`Program::geometry`] without a result.
    pub(crate) fn unknown_geometry(&self) -> Failure {
        let problem = "the page sizes of its architecture are unknown";
        Failure::at(&self.path, problem).remedy("name them with --geometry")
    }

    /// The filesystem whose page cache holds the program. It is that of [`Program::filesystem`],
    /// except on an overlay whose lower layer can be seen.
    pub(crate) fn page_cache(&self, mounts: &Mounts) -> Result<Filesystem, Failure> {
        mounts
            .page_cache(&self.file, &self.path)
            .map_err(|error| Failure::io(&self.path, &error))
    }

    /// The filesystem that the program lies on. It places the program's mappings.
    pub(crate) fn filesystem(&self, mounts: &Mounts) -> Result<Filesystem, Failure> {
        let mount = mounts
            .of(&self.file)
            .map_err(|error| Failure::io(&self.path, &error))?;
        Ok(mount.filesystem)
    }

    /// The loader of the program: `kernel`, the rules of its filesystem, and its dynamic loader.
    pub(crate) fn loader(&self, kernel: Kernel, filesystem: Filesystem) -> Loader {
        let musl = *self.musl.get_or_init(|| self.names_musl());
        let new_enough = hugetext_host::glibc_version().is_none_or(|version| version >= (2, 35));
        Loader {
            kernel,
            filesystem,
            dl_honours_align: new_enough && !musl,
        }
    }

    /// Whether its loader is musl's. If the file does not tell, the loader is assumed to be the
    /// machine's glibc.
    fn names_musl(&self) -> bool {
        Dependencies::read(&self.file, &self.image)
            .ok()
            .and_then(|names| names.interpreter)
            .is_some_and(|path| path.windows(7).any(|part| part == b"ld-musl"))
    }
}
