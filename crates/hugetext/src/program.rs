//! A program file opened and read: the first step of every subcommand that takes a path.

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
    /// As it was before its headers were read.
    pub(crate) metadata: Metadata,
    pub(crate) image: Image,
    musl: OnceCell<bool>,
}

/// Whether an image is of the instruction set that this machine executes.
pub(crate) fn is_native(image: &Image) -> bool {
    image.machine == Machine::of_arch(std::env::consts::ARCH)
}

/// Why a path is no program that can be read.
#[derive(Debug)]
pub(crate) enum NoProgram {
    /// It could not be opened, or is no regular file.
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

    /// As [`Program::read`], for what a directory walk called a regular file: of the many files
    /// that are no programs, nothing is read but the first bytes.
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

    /// As [`Program::read`], for a path the user named.
    pub(crate) fn open(path: &Path) -> Result<Program, Failure> {
        Program::read(path).map_err(|error| error.failure(path))
    }

    /// An error if its path means another file by now, or it was written to since it was opened.
    pub(crate) fn is_as_read(&self) -> Result<(), Failure> {
        let there = fs::metadata(&self.path).map_err(|error| Failure::io(&self.path, &error))?;
        match is_unchanged(&self.metadata, &there) {
            true => Ok(()),
            false => Err(Failure::replace(&self.path, &ReplaceError::Changed)),
        }
    }

    /// The geometry the user named; else that of this machine, `own`, for its own programs; else
    /// the usual one of the program's architecture, if there is one.
    pub(crate) fn geometry(
        &self,
        named: Option<Geometry>,
        own: Option<Geometry>,
    ) -> Option<Geometry> {
        named
            .or(own.filter(|_| is_native(&self.image)))
            .or(self.image.machine.default_geometry())
    }

    /// An error where this machine cannot execute it, so that its text need not be huge here.
    pub(crate) fn may_run_here(&self) -> Result<(), Failure> {
        match is_native(&self.image) {
            true => Ok(()),
            false => Err(Failure::at(
                &self.path,
                "of another instruction set than this machine's",
            )),
        }
    }

    /// The error where [`Program::geometry`] finds none.
    pub(crate) fn unknown_geometry(&self) -> Failure {
        let problem = "the page sizes of its architecture are not known";
        Failure::at(&self.path, problem).remedy("name them with --geometry")
    }

    /// The filesystem whose page cache holds it: that of [`Program::filesystem`], but not on an
    /// overlay, if the layer below can be seen.
    pub(crate) fn page_cache(&self, mounts: &Mounts) -> Result<Filesystem, Failure> {
        mounts
            .page_cache(&self.file, &self.path)
            .map_err(|error| Failure::io(&self.path, &error))
    }

    /// The filesystem it lies on, which places its mappings.
    pub(crate) fn filesystem(&self, mounts: &Mounts) -> Result<Filesystem, Failure> {
        let mount = mounts
            .of(&self.file)
            .map_err(|error| Failure::io(&self.path, &error))?;
        Ok(mount.filesystem)
    }

    /// What loads it: `kernel`, the rules of its filesystem, and its dynamic loader.
    pub(crate) fn loader(&self, kernel: Kernel, filesystem: Filesystem) -> Loader {
        let musl = *self.musl.get_or_init(|| self.names_musl());
        let new_enough = hugetext_host::glibc_version().is_none_or(|version| version >= (2, 35));
        Loader {
            kernel,
            filesystem,
            dl_honours_align: new_enough && !musl,
        }
    }

    /// Whether its loader is musl's. One that cannot be told from the file is taken to be the
    /// machine's glibc.
    fn names_musl(&self) -> bool {
        Dependencies::read(&self.file, &self.image)
            .ok()
            .and_then(|names| names.interpreter)
            .is_some_and(|path| path.windows(7).any(|part| part == b"ld-musl"))
    }
}
