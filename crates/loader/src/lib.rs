//! Which files the dynamic loader would map for a program.
//!
//! A decision made from the files' own headers: nothing is run, and nothing but the files the
//! loader itself would look at is opened. The rules are those of glibc (elf/dl-load.c,
//! elf/dl-cache.c; glibc 2.36) and of musl (ldso/dynlink.c; musl 1.2).

mod closure;
mod environment;
mod ld_cache;
mod search;
mod tokens;

pub use closure::{Closure, ClosureError, Finder, Loader, Missing, Object, Role, closure};
pub use environment::Environment;
pub use ld_cache::{LdCache, LdCacheError};
