//! Where the tests of promotion run, and what they run.

use std::path::PathBuf;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Gives this thread a mount namespace of its own, so that the copies of promotion go with it.
pub(crate) fn keep_mounts_in() {
    if !hugetext_host::is_root() || unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return;
    }
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
    let (kind, none) = (Some("tmpfs"), MsFlags::empty());
    mount(kind, "/run", kind, none, Some("mode=0755")).unwrap();
}

/// An example, which cargo builds next to the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("examples").join(name)
}
