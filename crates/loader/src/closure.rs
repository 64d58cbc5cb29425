//! A program and everything that its loader maps before the program runs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hugetext_elf::{Dependencies, Encoding, Image, ImageError, Machine};
use hugetext_leaf::FileId;
use serde::Serialize;

use crate::arch::Facts;
use crate::environment::Environment;
use crate::ld_cache::LdCache;
use crate::search::{Asker, Glibc, Musl, Search, path};

/// Why an object is mapped in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It is the executed program.
    Program,
    /// PT_INTERP of the program: the dynamic loader itself.
    Interpreter,
    /// LD_PRELOAD or /etc/ld.so.preload.
    Preload,
    /// DT_NEEDED of the program or of another library.
    Library,
}

/// The dynamic loader that a program names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// None: a static program, or a library on its own. Libraries of the latter are searched by the
    /// rules of glibc.
    None,
    /// glibc's.
    Glibc,
    /// musl's.
    Musl,
    /// A loader whose rules this project does not know: no libraries are listed.
    Unknown,
}

/// A file that is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The path by which the loader opens it. Symbolic links are not resolved.
    pub path: PathBuf,
    /// Why it is mapped.
    pub role: Role,
    /// Which file it is.
    pub id: FileId,
    /// Its headers.
    pub image: Image,
}

/// A library that the search did not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The requested name.
    pub name: PathBuf,
    /// The object that needs it.
    pub needed_by: PathBuf,
}

/// A program with the libraries that are mapped at its start. Its headers do not name the libraries
/// that it opens later (dlopen).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The loader whose rules were followed.
    pub loader: Loader,
    /// The program, the interpreter, then the libraries in load order (breadth first). Each file is
    /// listed once.
    pub objects: Vec<Object>,
    /// The requested libraries that were not found.
    pub missing: Vec<Missing>,
}

/// Why a program has no closure.
#[derive(Debug, thiserror::Error)]
pub enum ClosureError {
    /// The program cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The program.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The program is not an ELF file that this project can read.
    #[error("{path}: {source}")]
    Image {
        /// The program.
        path: PathBuf,
        /// The problem.
        source: ImageError,
    },
}

/// A closure of more objects is cut off: a loader would take too long to start it.
const MAX_OBJECTS: usize = 4096;

/// Finds the files that the loader of `program` maps at its start, in a process with this
/// environment and the working directory of the caller.
pub fn closure(program: &Path, environment: &Environment) -> Result<Closure, ClosureError> {
    Finder::new(environment).closure(program)
}

/// Finds the closures of many programs, in processes with this environment and the working
/// directory of the caller, and opens each library once.
#[derive(Debug)]
pub struct Finder<'e> {
    environment: &'e Environment,
    searches: Vec<(Option<PathBuf>, Abi, Rc<Search>)>,
    libraries: HashMap<PathBuf, Option<Rc<Opened>>>,
}

impl<'e> Finder<'e> {
    /// A finder that has opened no library yet.
    pub fn new(environment: &'e Environment) -> Finder<'e> {
        Finder {
            environment,
            searches: Vec::new(),
            libraries: HashMap::new(),
        }
    }

    /// As the function [`closure`].
    pub fn closure(&mut self, program: &Path) -> Result<Closure, ClosureError> {
        let opened = Opened::open(program).map_err(|source| match source {
            ImageError::Read(source) => ClosureError::Open {
                path: program.to_owned(),
                source,
            },
            source => ClosureError::Image {
                path: program.to_owned(),
                source,
            },
        })?;
        let interpreter = opened.names.interpreter.as_deref().map(path);
        let loader = interpreter.as_deref().map_or(Loader::None, loader_of);
        let abi = Abi::of(&opened.image);
        let mut walk = Walk {
            search: self.search(loader, interpreter.as_deref(), abi),
            finder: self,
            abi,
            musl: loader == Loader::Musl,
            nodes: Vec::new(),
            by_id: HashMap::new(),
            missing: Vec::new(),
        };
        // The kernel resolves the program's path before the loader sees it. $ORIGIN follows
        // /proc/self/exe, not AT_EXECFN.
        let origin = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
        walk.add(&opened, program, Role::Program, None, &origin);
        if let Some(interpreter) = interpreter {
            match walk.finder.library(&interpreter) {
                Some(opened) => {
                    walk.add(&opened, &interpreter, Role::Interpreter, None, &interpreter);
                }
                None => walk.miss(&interpreter, 0),
            }
        }
        if loader != Loader::Unknown {
            walk.preload();
            walk.follow();
        }
        Ok(Closure {
            loader,
            objects: walk.nodes.into_iter().map(|node| node.object).collect(),
            missing: walk.missing,
        })
    }

    /// The rules of a loader, which depend on the machine's configuration.
    fn search(&mut self, loader: Loader, interpreter: Option<&Path>, abi: Abi) -> Rc<Search> {
        let known = self
            .searches
            .iter()
            .find(|known| (known.0.as_deref(), known.1) == (interpreter, abi));
        if let Some((_, _, search)) = known {
            return Rc::clone(search);
        }
        let search = Rc::new(search(loader, interpreter, abi));
        let interpreter = interpreter.map(Path::to_owned);
        self.searches.push((interpreter, abi, Rc::clone(&search)));
        search
    }

    /// The library at `path`, if the path exists and can be read.
    fn library(&mut self, path: &Path) -> Option<Rc<Opened>> {
        if let Some(known) = self.libraries.get(path) {
            return known.clone();
        }
        let opened = Opened::open(path).ok().map(Rc::new);
        self.libraries.insert(path.to_owned(), opened.clone());
        opened
    }
}

fn loader_of(interpreter: &Path) -> Loader {
    let name = interpreter.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    if name.starts_with("ld-musl-") {
        Loader::Musl
    } else if name.starts_with("ld-linux") || name.starts_with("ld64") || name.starts_with("ld.so")
    {
        Loader::Glibc
    } else {
        Loader::Unknown
    }
}

fn search(loader: Loader, interpreter: Option<&Path>, abi: Abi) -> Search {
    if let (Loader::Musl, Some(interpreter)) = (loader, interpreter) {
        return Search::Musl(Musl::new(interpreter));
    }
    let facts = Facts::of(abi.machine, abi.encoding);
    let interpreter = interpreter.unwrap_or(Path::new(facts.interpreter));
    let installed = fs::canonicalize(interpreter).unwrap_or_else(|_| interpreter.to_owned());
    // Like glibc, the search continues with the directories if the cache cannot be read.
    let cache = fs::read("/etc/ld.so.cache").ok();
    let cache = cache.and_then(|bytes| LdCache::parse(bytes).ok());
    Search::Glibc(Glibc::new(&installed, cache, facts))
}

/// What objects must have in common to be mapped into one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Abi {
    machine: Machine,
    encoding: Encoding,
}

impl Abi {
    fn of(image: &Image) -> Abi {
        Abi {
            machine: image.machine,
            encoding: image.encoding,
        }
    }
}

/// A file that was opened and is an ELF image.
#[derive(Debug)]
struct Opened {
    id: FileId,
    image: Image,
    names: Dependencies,
}

impl Opened {
    fn open(path: &Path) -> Result<Opened, ImageError> {
        // Looked at before it is opened: to open a pipe is to wait for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(ImageError::NotElf);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let image = Image::read(&file)?;
        let names = Dependencies::read(&file, &image)?;
        Ok(Opened {
            id: FileId::of(&metadata),
            image,
            names,
        })
    }
}

struct Node {
    object: Object,
    asker: Asker,
    needed: Vec<Vec<u8>>,
    /// DT_SONAME and the names by which it was requested. Later requests for them need no search.
    answers_to: Vec<Vec<u8>>,
    /// The node that loaded it.
    parent: Option<usize>,
}

struct Walk<'f, 'e> {
    finder: &'f mut Finder<'e>,
    search: Rc<Search>,
    abi: Abi,
    musl: bool,
    nodes: Vec<Node>,
    by_id: HashMap<FileId, usize>,
    missing: Vec<Missing>,
}

impl Walk<'_, '_> {
    /// Visits the objects in load order. Objects found during the visit are appended and visited
    /// too.
    fn follow(&mut self) {
        let mut index = 0;
        while let Some(node) = self.nodes.get(index) {
            for name in node.needed.clone() {
                self.need(&name, index, Role::Library);
            }
            index += 1;
        }
    }

    /// LD_PRELOAD, and /etc/ld.so.preload in glibc.
    fn preload(&mut self) {
        let listed = self.finder.environment.preload.clone().unwrap_or_default();
        let global = if self.musl {
            Vec::new()
        } else {
            fs::read("/etc/ld.so.preload").unwrap_or_default()
        };
        let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
        for list in [listed, global] {
            for name in list.split(separates).filter(|name| !name.is_empty()) {
                self.need(name, 0, Role::Preload);
            }
        }
    }

    fn need(&mut self, name: &[u8], by: usize, role: Role) {
        let known = |node: &Node| node.answers_to.iter().any(|known| known == name);
        let met = (self.musl && Musl::is_own(name)) || self.nodes.iter().any(known);
        if met || self.nodes.len() >= MAX_OBJECTS {
            return;
        }
        let candidates = self.candidates(name, by);
        let found = candidates.iter().find_map(|candidate| {
            // Like the loader, the search skips files of another architecture and unreadable files.
            let opened = self.finder.library(candidate)?;
            (Abi::of(&opened.image) == self.abi).then_some((opened, candidate))
        });
        match found {
            Some((opened, found)) => {
                let index = self.add(&opened, found, role, Some(by), found);
                if let Some(node) = self.nodes.get_mut(index) {
                    node.answers_to.push(name.to_vec());
                }
            }
            None => self.miss(&path(name), by),
        }
    }

    fn candidates(&self, name: &[u8], by: usize) -> Vec<PathBuf> {
        let chain = self.chain(by);
        if !name.contains(&b'/') {
            return self
                .search
                .candidates(name, &chain, self.finder.environment);
        }
        let origin = chain.first().map_or(Path::new("."), |asker| &asker.origin);
        vec![path(&self.search.tokens(origin).expand(name))]
    }

    /// The object, the object that loaded it, and so on up to the program.
    fn chain(&self, from: usize) -> Vec<&Asker> {
        let parent = |node: &&Node| node.parent.and_then(|parent| self.nodes.get(parent));
        std::iter::successors(self.nodes.get(from), parent)
            .map(|node| &node.asker)
            .collect()
    }

    /// Adds a file unless it is already listed, and returns its index. `from` gives the directory
    /// for its $ORIGIN.
    fn add(
        &mut self,
        opened: &Opened,
        path: &Path,
        role: Role,
        parent: Option<usize>,
        from: &Path,
    ) -> usize {
        let place = match self.by_id.entry(opened.id) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place,
        };
        let index = *place.insert(self.nodes.len());
        let names = opened.names.clone();
        let absolute = std::path::absolute(from).unwrap_or_else(|_| from.to_owned());
        // musl compares requested names only.
        let soname = names.soname.filter(|_| !self.musl);
        self.nodes.push(Node {
            object: Object {
                path: path.to_owned(),
                role,
                id: opened.id,
                image: opened.image.clone(),
            },
            asker: Asker {
                origin: absolute.parent().unwrap_or(Path::new("/")).to_owned(),
                // With DT_RUNPATH, glibc ignores DT_RPATH, and musl prefers DT_RUNPATH.
                rpath: names.rpath.filter(|_| names.runpath.is_none()),
                runpath: names.runpath,
                no_default_paths: names.no_default_paths,
            },
            needed: names.needed,
            answers_to: soname.into_iter().collect(),
            parent,
        });
        index
    }

    fn miss(&mut self, name: &Path, by: usize) {
        let Some(node) = self.nodes.get(by) else {
            return;
        };
        let missing = Missing {
            name: name.to_owned(),
            needed_by: node.object.path.clone(),
        };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }
}
