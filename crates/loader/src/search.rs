//! The paths at which each loader looks for a library named without a slash, in order.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::arch::Facts;
use crate::environment::Environment;
use crate::ld_cache::LdCache;
use crate::tokens::Tokens;

/// An object that requests a library, with the facts that its search depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asker {
    /// The directory of the object.
    pub(crate) origin: PathBuf,
    /// DT_RPATH, if the object has no DT_RUNPATH.
    pub(crate) rpath: Option<Vec<u8>>,
    /// DT_RUNPATH.
    pub(crate) runpath: Option<Vec<u8>>,
    /// DF_1_NODEFLIB.
    pub(crate) no_default_paths: bool,
}

/// One loader's search rules, with the facts of this machine that they depend on.
#[derive(Debug)]
pub(crate) enum Search {
    /// glibc's ld.so.
    Glibc(Glibc),
    /// musl's ld-musl.
    Musl(Musl),
}

impl Search {
    /// The files to try, in order. `chain` is the object that requests the library, then the object
    /// that loaded it, and so on up to the program.
    pub(crate) fn candidates(
        &self,
        name: &[u8],
        chain: &[&Asker],
        environment: &Environment,
    ) -> Vec<PathBuf> {
        match self {
            Search::Glibc(glibc) => glibc.candidates(name, chain, environment),
            Search::Musl(musl) => musl.candidates(name, chain, environment),
        }
    }

    /// The values of `$ORIGIN` and the other tokens in an object of this directory.
    pub(crate) fn tokens<'a>(&'a self, origin: &'a Path) -> Tokens<'a> {
        match self {
            Search::Glibc(glibc) => glibc.tokens(origin),
            Search::Musl(_) => Tokens::origin_only(origin),
        }
    }
}

/// glibc's rules (elf/dl-load.c, `_dl_map_new_object`).
#[derive(Debug)]
pub(crate) struct Glibc {
    cache: Option<LdCache>,
    /// The value of `$LIB`.
    lib: Vec<u8>,
    /// AT_PLATFORM.
    platform: Option<&'static str>,
    /// The directories built into the loader.
    defaults: Vec<PathBuf>,
}

impl Glibc {
    /// Distributions build the default directories and `$LIB` into the loader. The directory of the
    /// loader tells which ones, since the loader is installed next to the C library: `lib/TRIPLET`,
    /// `lib64` or `lib`. On some architectures, `lib` has the loader alone.
    pub(crate) fn new(interpreter: &Path, cache: Option<LdCache>, facts: Facts) -> Glibc {
        let home = interpreter.parent().unwrap_or(Path::new("/lib"));
        let last = home.file_name().map_or(&b"lib"[..], OsStrExt::as_bytes);
        let lib = match last {
            b"lib" => facts.lib.unwrap_or("lib").into(),
            b"lib64" | b"lib32" | b"libx32" => last.to_vec(),
            triplet => [b"lib/", triplet].concat(),
        };
        let standard = [&lib[..], b"lib"]
            .into_iter()
            .flat_map(|lib| [[b"/", lib].concat(), [b"/usr/", lib].concat()])
            .map(|directory| path(&directory));
        let mut defaults: Vec<PathBuf> = Vec::new();
        for directory in standard.chain([home.to_owned()]) {
            if !defaults.contains(&directory) {
                defaults.push(directory);
            }
        }
        Glibc {
            cache,
            lib,
            platform: facts.platform,
            defaults,
        }
    }

    fn tokens<'a>(&'a self, origin: &'a Path) -> Tokens<'a> {
        Tokens {
            origin,
            lib: Some(&self.lib),
            platform: self.platform.map(str::as_bytes),
        }
    }

    fn candidates(&self, name: &[u8], chain: &[&Asker], environment: &Environment) -> Vec<PathBuf> {
        let search = |list: &[u8], separators: &[u8], asker: &Asker| {
            split(list, separators, self.tokens(&asker.origin))
        };
        let asker = chain.first();
        let program = chain.last();
        let mut directories = Vec::new();
        if asker.is_some_and(|asker| asker.runpath.is_none()) {
            for asker in chain {
                directories.extend(
                    asker
                        .rpath
                        .iter()
                        .flat_map(|list| search(list, b":", asker)),
                );
            }
        }
        if let (Some(list), Some(program)) = (&environment.library_path, program)
            && !list.is_empty()
        {
            directories.extend(search(list, b":;", program));
        }
        if let Some(asker) = asker {
            directories.extend(
                asker
                    .runpath
                    .iter()
                    .flat_map(|list| search(list, b":", asker)),
            );
        }
        let within = |directory: &PathBuf| {
            let levels = environment.hwcaps.iter();
            let mut tried: Vec<PathBuf> = levels
                .map(|level| directory.join("glibc-hwcaps").join(level))
                .collect();
            tried.push(directory.clone());
            tried.into_iter().map(|tried| tried.join(path(name)))
        };
        let no_defaults = asker.is_some_and(|asker| asker.no_default_paths);
        let cached = self
            .cache
            .iter()
            .flat_map(|cache| cache.lookup(name, &environment.hwcaps))
            .map(path)
            .filter(|path| !no_defaults || !self.defaults.iter().any(|d| path.starts_with(d)));
        let mut candidates: Vec<PathBuf> = directories.iter().flat_map(within).collect();
        candidates.extend(cached);
        if !no_defaults {
            candidates.extend(self.defaults.iter().flat_map(within));
        }
        candidates
    }
}

/// musl's rules (ldso/dynlink.c, `load_library`).
#[derive(Debug)]
pub(crate) struct Musl {
    /// The system directories: from /etc/ld-musl-ARCH.path, or the built-in ones.
    system: Vec<PathBuf>,
}

impl Musl {
    /// Reads `PREFIX/lib/ld-musl-ARCH.so.1` from `interpreter`, which PT_INTERP names. The list of
    /// directories is `PREFIX/etc/ld-musl-ARCH.path`.
    pub(crate) fn new(interpreter: &Path) -> Musl {
        let list = musl_path_file(interpreter).and_then(|path| fs::read(path).ok());
        let list = list.unwrap_or_else(|| b"/lib:/usr/local/lib:/usr/lib".to_vec());
        Musl {
            system: musl_directories(&list),
        }
    }

    fn candidates(&self, name: &[u8], chain: &[&Asker], environment: &Environment) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = Vec::new();
        if let Some(list) = &environment.library_path {
            directories.extend(musl_directories(list));
        }
        for asker in chain {
            // musl treats both alike, and objects further down inherit both.
            let Some(list) = asker.runpath.as_ref().or(asker.rpath.as_ref()) else {
                continue;
            };
            let list = Tokens::origin_only(&asker.origin).expand(list);
            directories.extend(musl_directories(&list));
        }
        directories.extend(self.system.iter().cloned());
        directories
            .into_iter()
            .map(|directory| directory.join(path(name)))
            .collect()
    }

    /// Whether musl itself provides this library (`reserved` in `load_library`).
    pub(crate) fn is_own(name: &[u8]) -> bool {
        let Some(rest) = name.strip_prefix(b"lib") else {
            return false;
        };
        let own: [&[u8]; 7] = [b"c", b"pthread", b"rt", b"m", b"dl", b"util", b"xnet"];
        let stem = rest.split(|byte| *byte == b'.').next().unwrap_or_default();
        stem.len() < rest.len() && own.contains(&stem)
    }
}

fn musl_path_file(interpreter: &Path) -> Option<PathBuf> {
    let name = interpreter.file_name()?.to_str()?;
    let stem = name.strip_suffix(".so.1")?;
    let prefix = interpreter.parent()?.parent()?;
    Some(prefix.join("etc").join(format!("{stem}.path")))
}

/// The directories of a list in musl's syntax.
fn musl_directories(list: &[u8]) -> Vec<PathBuf> {
    list.split(|byte| b":\n".contains(byte))
        .filter(|directory| !directory.is_empty())
        .map(path)
        .collect()
}

/// The directories of a list; an empty element is the working directory.
fn split(list: &[u8], separators: &[u8], tokens: Tokens<'_>) -> Vec<PathBuf> {
    list.split(|byte| separators.contains(byte))
        .map(|entry| match entry {
            b"" => PathBuf::from("."),
            entry => path(&tokens.expand(entry)),
        })
        .collect()
}

pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}
