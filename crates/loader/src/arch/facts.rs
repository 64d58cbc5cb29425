//! What is known of the loader of an architecture.

/// What glibc builds into its loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The path of the loader, as the ABI places it.
    pub(crate) interpreter: &'static str,
    /// AT_PLATFORM, the value of `$PLATFORM`; `None` if the kernel gives none.
    pub(crate) platform: Option<&'static str>,
    /// The directory of the libraries, as in `/lib64`, where it is not the loader's.
    pub(crate) lib: Option<&'static str>,
}
