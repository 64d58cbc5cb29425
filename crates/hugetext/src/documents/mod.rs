//! The JSON documents, one file for each command: what `--json` prints, and what the text is made
//! from. Types that the engine and the libraries return are part of them: an
//! [`hugetext_engine::Assessment`], for example, tells of one file that was checked.
//!
//! hugetext-answer adds the frame (`schema`, `command`, `errors`). Each type has its row in `generate/schema.rs`, and its
//! schema in docs/schema.

pub(crate) mod auto;
pub(crate) mod check;
pub(crate) mod fix;
pub(crate) mod host;
pub(crate) mod keep;
pub(crate) mod learn;
pub(crate) mod promote;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod stat;
pub(crate) mod store;
pub(crate) mod top;
pub(crate) mod warm;
