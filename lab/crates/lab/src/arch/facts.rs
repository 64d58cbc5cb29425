//! What the lab must know of an architecture.

/// What the lab must know of an architecture.
pub(crate) struct Facts {
    /// The name in Debian packages.
    pub(crate) debian: &'static str,
    /// The first word of compilers' triples and of the name of QEMU's command, as uname(2) has it.
    pub(crate) machine: &'static str,
    /// Rust's target for programs that run on any guest without libraries.
    pub(crate) target: &'static str,
    /// Environment of cargo for that target.
    pub(crate) cargo: &'static [(&'static str, &'static str)],
    /// Suites of the main archive that have its programs and kernels.
    pub(crate) suites: &'static [&'static str],
    /// Suites of the security archive, which has the newest builds of a release's own kernel.
    pub(crate) security_suites: &'static [&'static str],
    /// The directory and name of glibc's loader.
    pub(crate) loader: (&'static str, &'static str),
    /// QEMU's machine.
    pub(crate) board: &'static str,
    /// QEMU's processor.
    pub(crate) cpu: &'static str,
    /// The device of the console.
    pub(crate) terminal: &'static str,
    /// Whether the command promotes there.
    pub(crate) promotes: bool,
}
