//! The values of the configuration, each with what it could be if it is none.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_leaf::replica::SETTLED_STARTS;
use hugetext_metrics::{Address, AddressError};
use serde::Deserialize;

/// Why a text is no value of its kind, and what would be one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// No number of bytes, and no share.
    #[error("{0:?} is no size; write bytes as \"512M\" or \"2G\", or a share of memory as \"10%\"")]
    Size(String),
    /// More than the whole, or less than nothing.
    #[error("{0:?} is no share; write one from \"0%\" to \"100%\"")]
    Percent(String),
    /// No duration.
    #[error(
        "{0:?} is no duration; write a number above zero and its unit, as \"90m\", \"12h\" or \"7d\""
    )]
    Duration(String),
    /// No share.
    #[error("{0} is no share; write a number from 0 to 1, as 0.02")]
    Share(f64),
    /// No glob of absolute paths.
    #[error("{0:?} is no pattern; begin it with / and use *, ? and **, as \"/opt/**\"")]
    Pattern(String),
    /// Other machines would read the metrics, and nobody said that they may.
    #[error(
        "other machines reach metrics at {0}; write allow-remote = true if they may, or listen at 127.0.0.1"
    )]
    Remote(Address),
    /// node_exporter would not read it.
    #[error("{} is no textfile; write an absolute path that ends with .prom", .0.display())]
    Textfile(PathBuf),
}

/// Memory: bytes, or a share of all memory.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Budget {
    /// So many bytes.
    Bytes(u64),
    /// A share of the machine's memory, from 0 to 1.
    Share(f64),
}

impl Budget {
    /// The bytes of it on a machine with `memory` bytes.
    pub fn bytes(self, memory: u64) -> u64 {
        match self {
            Budget::Bytes(bytes) => bytes,
            Budget::Share(share) => (memory as f64 * share) as u64,
        }
    }
}

impl TryFrom<String> for Budget {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Budget, ValueError> {
        if let Some(number) = text.strip_suffix('%') {
            let share = number.parse::<f64>().map(|percent| percent / 100.0);
            let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
            return share.map(Budget::Share).ok_or(ValueError::Percent(text));
        }
        // The units are powers of 1024.
        let bytes = parse_size::Config::new().with_binary().parse_size(&text);
        bytes.map(Budget::Bytes).map_err(|_| ValueError::Size(text))
    }
}

/// A length of time, longer than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Span, ValueError> {
        let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
        let parsed = units.iter().find_map(|(unit, seconds)| {
            let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*seconds)
        });
        let seconds = parsed.filter(|seconds| (1..=u64::from(u32::MAX)).contains(seconds));
        let span = seconds.map(|seconds| Span(Duration::from_secs(seconds)));
        span.ok_or(ValueError::Duration(text))
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub f64);

impl TryFrom<f64> for Share {
    type Error = ValueError;

    fn try_from(share: f64) -> Result<Share, ValueError> {
        if (0.0..=1.0).contains(&share) {
            Ok(Share(share))
        } else {
            Err(ValueError::Share(share))
        }
    }
}

/// When copies of a file are worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Replicas {
    /// Starts per second that one copy of a file is left to serve alone.
    pub starts_per_copy: NonZeroU64,
    /// The most copies of one file.
    pub most: u32,
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas {
            starts_per_copy: NonZeroU64::new(SETTLED_STARTS).unwrap_or(NonZeroU64::MIN),
            most: 16,
        }
    }
}

/// A glob over absolute paths. `*` stays within a name, `**` does not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(glob::Pattern);

impl Pattern {
    /// Whether it matches a whole path.
    pub fn matches(&self, path: &Path) -> bool {
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..glob::MatchOptions::default()
        };
        self.0.matches_path_with(path, options)
    }
}

impl TryFrom<String> for Pattern {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Pattern, ValueError> {
        match glob::Pattern::new(&text) {
            Ok(pattern) if text.starts_with('/') => Ok(Pattern(pattern)),
            _ => Err(ValueError::Pattern(text)),
        }
    }
}

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Listen(pub Address);

impl TryFrom<String> for Listen {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Listen, AddressError> {
        Address::try_from(text).map(Listen)
    }
}

/// Where numbers about the daemon go; nowhere unless a line says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WantedMetrics")]
pub struct Metrics {
    /// Serve them there.
    pub listen: Option<Listen>,
    /// Write them there, for the textfile collector of node_exporter.
    pub textfile: Option<PathBuf>,
}

/// The same as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct WantedMetrics {
    listen: Option<Listen>,
    allow_remote: bool,
    textfile: Option<PathBuf>,
}

impl TryFrom<WantedMetrics> for Metrics {
    type Error = ValueError;

    fn try_from(wanted: WantedMetrics) -> Result<Metrics, ValueError> {
        let remote = wanted.listen.as_ref().filter(|listen| listen.0.is_remote());
        if let Some(remote) = remote.filter(|_| !wanted.allow_remote) {
            return Err(ValueError::Remote(remote.0.clone()));
        }
        let is_textfile =
            |path: &Path| path.is_absolute() && path.extension().is_some_and(|end| end == "prom");
        match wanted.textfile {
            Some(path) if !is_textfile(&path) => Err(ValueError::Textfile(path)),
            textfile => Ok(Metrics {
                listen: wanted.listen,
                textfile,
            }),
        }
    }
}
