//! The shared objects that programs need.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use hugetext_leaf::{Leaf, ObjectKind};
use hugetext_loader::{Environment, Finder, Missing};
use schemars::JsonSchema;
use serde::Serialize;

use crate::program::Program;

/// A file that holds text.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TextIn {
    /// Its path.
    #[serde(serialize_with = "hugetext_host::lossy::path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Bytes of text.
    pub text: u64,
}

/// The library that holds most of the text that a program maps, if it has more than the program itself, and more than a
/// window.
pub fn text_elsewhere(program: &Path, kind: ObjectKind, text: u64) -> Option<TextIn> {
    if kind == ObjectKind::SharedObject {
        return None;
    }
    let libraries = libraries_of(&[program.to_owned()]).found.into_iter();
    let sized = libraries.filter_map(|path| {
        let text = Program::open(&path).ok()?.image.text_len();
        Some(TextIn { path, text })
    });
    sized
        .max_by_key(|library| library.text)
        .filter(|library| library.text > text.max(Leaf::M2.bytes()))
}

/// The shared objects of some programs.
#[derive(Debug, Default)]
pub struct Libraries {
    /// Their paths, each file once.
    pub found: Vec<PathBuf>,
    /// Names that the loader would not find.
    pub missing: Vec<Missing>,
}

/// The shared objects that the loader maps at the start of each of `programs`, in a process with
/// the environment of this one. Paths that are no programs are passed over.
pub fn libraries_of(programs: &[PathBuf]) -> Libraries {
    let environment = Environment::current();
    let mut finder = Finder::new(&environment);
    let mut seen = HashSet::new();
    let mut libraries = Libraries::default();
    let closures = programs.iter().filter_map(|path| finder.closure(path).ok());
    for closure in closures {
        libraries.missing.extend(closure.missing);
        // The first object is the program itself.
        let needed = closure.objects.into_iter().skip(1);
        let new = needed.filter(|object| seen.insert(object.id));
        libraries.found.extend(new.map(|object| object.path));
    }
    libraries
}
