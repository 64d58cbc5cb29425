//! Renders documents from templates, which have all prose, and from figures.

mod error;
mod filters;
mod page;
mod record;

pub use error::PageError;
pub use page::{names, page, render};
pub use record::as_row;
