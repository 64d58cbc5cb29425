//! Prints what is known of those who ask for huge folios, one rule as a line of JSON each. The document
//! lab/results/self-warming.md is made of it.

use hugetext_leaf::ASKER_RULES;
use serde::Serialize;

#[derive(Serialize)]
struct Line<'r> {
    asker_rule: &'r hugetext_leaf::AskerRule,
}

fn main() -> serde_json::Result<()> {
    for asker_rule in &ASKER_RULES {
        println!("{}", serde_json::to_string(&Line { asker_rule })?);
    }
    Ok(())
}
