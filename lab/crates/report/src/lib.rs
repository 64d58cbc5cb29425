//! Renders documents from templates, which have all prose, and from figures.

mod filters;
mod page;
mod record;

pub use page::{PageError, names, page, render};
pub use record::as_row;
