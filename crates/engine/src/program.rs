//! Opens a program file and reads its headers.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use hugetext_elf::{ByteOrder, Dependencies, Image, ImageError};
use hugetext_host::{FileState, ReplaceError, architecture, open_regular, open_without_waiting};
use hugetext_leaf::{FileId, Filesystem, Geometry, Kernel, Loader};

use crate::error::Error;

/// An open program and its headers.
#[derive(Debug)]
pub struct Program {
    /// The path that was opened.
    pub path: PathBuf,
    /// The open file.
    pub file: File,
    /// The file before its headers were read.
    pub metadata: Metadata,
    /// Its headers.
    pub image: Image,
}

/// Whether an image uses an instruction set that the kernel of this machine executes, in its order of
/// bytes: that of 32 bits too, where the kernel has 64.
pub fn is_native(image: &Image) -> bool {
    image.encoding.order == ByteOrder::NATIVE && image.machine.runs_on(architecture())
}

/// Why a path cannot be read as a program.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path cannot be opened, or is not a regular file.
    #[error(transparent)]
    Open(io::Error),
    /// Its headers are not those of a program.
    #[error(transparent)]
    Image(ImageError),
}

impl ReadError {
    /// The error about `path`.
    pub fn at(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            ReadError::Open(source) => Error::Io { path, source },
            ReadError::Image(source) => Error::Image { path, source },
        }
    }
}

impl Program {
    /// Opens a regular file and reads its headers.
    pub fn read(path: &Path) -> Result<Program, ReadError> {
        Program::from_file(path, open_regular(path).map_err(ReadError::Open)?)
    }

    /// As [`Program::read`], for a path that the directory walk has shown to be a regular file.
    /// Most such files are no programs; of those, only the first bytes are read.
    pub fn read_scanned(path: &Path) -> Result<Program, ReadError> {
        Program::from_file(path, open_without_waiting(path).map_err(ReadError::Open)?)
    }

    /// As [`Program::read`], with an error that names the path.
    pub fn open(path: &Path) -> Result<Program, Error> {
        Program::read(path).map_err(|error| error.at(path))
    }

    /// The program in an open file, which was opened at `path`.
    pub fn from_file(path: &Path, file: File) -> Result<Program, ReadError> {
        let metadata = file.metadata().map_err(ReadError::Open)?;
        let image = Image::read(&file).map_err(ReadError::Image)?;
        Ok(Program {
            path: path.to_owned(),
            file,
            metadata,
            image,
        })
    }

    /// Its device and inode.
    pub fn id(&self) -> FileId {
        FileId::of(&self.metadata)
    }

    /// The state of the file before its headers were read.
    pub fn state(&self) -> FileState {
        FileState::of(&self.metadata)
    }

    /// An error if the path names another file by now, or if the file was written since it was
    /// opened.
    pub fn ensure_unchanged(&self) -> Result<(), Error> {
        let there = fs::metadata(&self.path).map_err(Error::io(&self.path))?;
        if FileState::of(&there).has_content_of(&self.state()) {
            return Ok(());
        }
        Err(Error::Replace {
            path: self.path.clone(),
            source: ReplaceError::Changed,
        })
    }

    /// An error if this machine cannot execute the program, so that huge text here is of no use.
    pub fn ensure_native(&self) -> Result<(), Error> {
        if is_native(&self.image) {
            return Ok(());
        }
        Err(Error::Foreign {
            path: self.path.clone(),
        })
    }

    /// The geometry that the user `named`. Otherwise the geometry of this machine, `own`, for its
    /// own programs, or the usual one of the program's architecture, if one is known.
    pub fn geometry(&self, named: Option<Geometry>, own: Option<Geometry>) -> Option<Geometry> {
        named
            .or(own.filter(|_| is_native(&self.image)))
            .or(self.image.machine.default_geometry())
    }

    /// The error for [`Program::geometry`] without a result.
    pub fn unknown_geometry(&self) -> Error {
        Error::UnknownGeometry {
            path: self.path.clone(),
        }
    }

    /// The loader of the program: `kernel`, the rules of its filesystem, and its dynamic loader.
    pub fn loader(&self, kernel: Kernel, filesystem: Filesystem) -> Loader {
        let new_enough = hugetext_host::glibc_version().is_none_or(|version| version >= (2, 35));
        Loader {
            kernel,
            class: self.image.encoding.class,
            filesystem,
            dl_honours_align: new_enough && !self.names_musl(),
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
