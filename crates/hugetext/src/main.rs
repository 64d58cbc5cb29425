//! The `hugetext` command.
fn main() {}
