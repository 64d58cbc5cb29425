//! What is known of an architecture.

use crate::geometry::Geometry;

/// An architecture, with the page sizes of its kernels.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its name for Rust.
    pub name: &'static str,
    /// The geometries of its kernels. The first has the smallest base page; it is assumed where
    /// nothing else is known.
    pub geometries: &'static [Geometry],
}
