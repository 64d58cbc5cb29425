//! Puts the text of a running process onto huge leaves: decides between collapse and remapping, does
//! it with the tracer of `hugetext_promote`, and checks what it gave.

mod audit;
mod generated;
mod outcome;
mod process;
mod requests;

pub use audit::log_promotions;
pub use outcome::{
    GeneratedText, PromoteError, PromoteRequest, PromotedProcess, TextBytes, UnchangedText,
};
pub use process::promote_process;
pub use requests::{PromotionRequests, REQUESTS_DIRECTORY, asks_for_promotion};
