//! How the executables answer: text for people, one JSON document, an error in a line with its remedy, and how far
//! the work is. What benchmarks print is here too, because `hugetext bench` and the laboratory print it alike.

pub mod amount;
mod comparison;
mod document;
pub mod failure;
pub mod meaning;
mod outcome;
pub mod output;
pub mod path;
mod progress;
mod rounds;
pub mod schema;
pub mod table;
pub mod verdict;

pub use document::{BenchReport, today};
pub use outcome::answer_bench;
pub use progress::BenchProgress;
pub use rounds::RoundsArgument;
