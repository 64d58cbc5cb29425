//! Finds the files that the dynamic loader would map for a program.
//!
//! The files' own headers decide. Nothing is run, and only the files that the loader itself would
//! look at are opened. The rules are those of glibc (elf/dl-load.c, elf/dl-cache.c; glibc 2.36) and
//! of musl (ldso/dynlink.c; musl 1.2).

mod arch;
mod closure;
mod environment;
mod ld_cache;
mod search;
mod tokens;

pub use closure::{Closure, ClosureError, Finder, Loader, Missing, Object, Role, closure};
pub use environment::Environment;
pub use ld_cache::{LdCache, LdCacheError};
