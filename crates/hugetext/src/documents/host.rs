//! The document of `hugetext host`.

use std::path::PathBuf;

use hugetext_engine::{AsFound, MachineVerdict};
use hugetext_host::Machine;
use hugetext_leaf::{Filesystem, Leaf};
use schemars::JsonSchema;
use serde::Serialize;

use crate::path::lossy;

/// What huge text gives on this machine.
#[derive(JsonSchema, Serialize)]
pub(crate) struct HostReport {
    #[serde(flatten)]
    pub(crate) found: MachineVerdict,
    /// The day, UTC.
    pub(crate) date: String,
    /// Whether the verdict is one of earlier in this boot.
    pub(crate) remembered: bool,
    pub(crate) machine: Machine,
    /// Tasks that were running or waiting for a processor in the last minute, for each processor.
    pub(crate) load: Option<f64>,
    /// Nanoseconds of a page fault on text that is in the page cache.
    pub(crate) fault: Option<f64>,
    /// Nanoseconds to make one window huge.
    pub(crate) fill: Option<f64>,
    /// In which folios the text of the programs lies that run; absent if it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) as_found: Option<AsFound>,
    pub(crate) mounts: Vec<MountOfText>,
    pub(crate) loader: Loader,
    pub(crate) confinement: Confinement,
}

/// What text on one mount can get.
#[derive(JsonSchema, Serialize)]
pub(crate) struct MountOfText {
    #[serde(serialize_with = "lossy::path")]
    #[schemars(with = "String")]
    pub(crate) path: PathBuf,
    /// The filesystem whose page cache holds the text.
    pub(crate) filesystem: Filesystem,
    /// The largest leaf that text there gets on this kernel; the base page where folios stay small.
    pub(crate) leaf: Leaf,
    /// Readahead of its device, bytes.
    pub(crate) readahead: Option<u64>,
}

/// Whether the loader asks for huge text.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Loader {
    /// The version of the C library that this command runs on.
    pub(crate) glibc: Option<String>,
    /// Whether it asks for huge pages here (glibc.elf.thp).
    pub(crate) asks: bool,
}

/// What keeps this user from parts of hugetext.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Confinement {
    /// Why `run` cannot show copies.
    pub(crate) no_namespace: Option<String>,
    /// The limit of memory of the control group, bytes.
    pub(crate) memory: Option<u64>,
    /// The processors' time that the control group may take, in processors: 0.5 is half of one.
    pub(crate) quota: Option<f64>,
}
