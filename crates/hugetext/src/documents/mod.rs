//! The JSON documents, one file for each command: what `--json` prints, and what the text is made
//! from. Types that the engine and the libraries return are part of them: an
//! [`hugetext_engine::Assessment`], for example, tells of one file that was checked.
//!
//! `output.rs` adds the frame (`schema`, `command`, `errors`). A type of this module is a
//! [`Document`], has its row in `schema.rs`, and its schema in docs/schema.

use schemars::JsonSchema;
use serde::Serialize;

use crate::csv::Rows;

pub(crate) mod auto;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod fix;
pub(crate) mod keep;
pub(crate) mod learn;
pub(crate) mod promote;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod stat;
pub(crate) mod store;
pub(crate) mod top;
pub(crate) mod warm;

/// What a command prints.
pub(crate) trait Document: Serialize + JsonSchema {
    /// Its rows for `--format csv`; `None` for a result that is no list.
    fn rows(&self) -> Option<Rows> {
        None
    }
}
