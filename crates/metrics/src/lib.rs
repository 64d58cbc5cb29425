//! What the autopilot does, as OpenMetrics: the families and their names, an endpoint that serves them,
//! and a file for the textfile collector of node_exporter. docs/metrics.md has every name.
//!
//! This crate knows no daemon: it turns the plain numbers of a [`Snapshot`] into text.

mod address;
mod families;
mod request;
mod server;
mod snapshot;
mod textfile;

pub use address::{Address, AddressError};
pub use families::openmetrics;
pub use server::{Endpoint, ServeError};
pub use snapshot::{
    Decision, FilesIn, GivenBack, MOST_UNITS, Snapshot, UnitText, bounded, unit_of_cgroup,
};
pub use textfile::{prometheus_text, write_textfile};
