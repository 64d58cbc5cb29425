//! The shared objects that programs need.

use std::collections::HashSet;
use std::path::PathBuf;

use hugetext_loader::{Environment, Finder, Missing};

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
