//! Where the tests of promotion run, and what they run.

use std::path::PathBuf;

use hugetext_host::{Namespace, is_root};
use nix::mount::{MsFlags, mount};

/// Gives this thread a mount namespace of its own, so that the copies of promotion go with it.
pub(crate) fn keep_mounts_in() {
    if !is_root() || Namespace::Mount.enter().is_err() {
        return;
    }
    let (kind, none) = (Some("tmpfs"), MsFlags::empty());
    mount(kind, "/run", kind, none, Some("mode=0755")).unwrap();
}

/// This test program. The kernel names it as seen from the first namespace (std::env::current_exe()), which in a
/// chroot is another place.
pub(crate) fn own() -> PathBuf {
    std::env::args_os().next().map(PathBuf::from).unwrap()
}

/// An example, which cargo builds next to the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    own()
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name)
}
