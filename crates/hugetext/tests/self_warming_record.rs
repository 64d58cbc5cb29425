//! What was measured of files that warm themselves is what `check` says of them: lab/records/self-warming.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;

use hugetext_leaf::ASKER_RULES;
use serde_json::Value;

const WINDOW: u64 = 2 << 20;

/// The lines of a part of the record.
fn part(name: &str) -> Vec<Value> {
    let record = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../lab/records/self-warming"
    );
    let text = fs::read_to_string(format!("{record}/{name}.jsonl")).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Windows of each program that `check` says are asked for, once its files are cut.
fn said() -> HashMap<String, u64> {
    let mut said = HashMap::new();
    for file in part("files") {
        if let (Some(program), Some(asked)) = (file["program"].as_str(), file["asked"].as_u64()) {
            *said.entry(program.to_owned()).or_default() += asked;
        }
    }
    said
}

/// A cold start of a file that was cut, with glibc.elf.thp=1.
struct Start {
    program: String,
    /// Whether it is the short command of the program.
    is_short: bool,
    huge: u64,
    /// Whole windows of text in which the program ran.
    executed: u64,
}

fn starts(name: &str) -> impl Iterator<Item = Start> {
    let rows = part(name).into_iter();
    rows.filter(|row| row["layout"] == "warming" && row["tunable"] == 1)
        .map(|row| {
            let command = row["program"].as_str().unwrap();
            let program = command.split('.').next().unwrap();
            Start {
                program: program.to_owned(),
                is_short: program != command,
                huge: row["huge"].as_u64().unwrap() / WINDOW,
                executed: row["whole"].as_u64().unwrap(),
            }
        })
}

#[test]
fn no_program_has_more_huge_windows_than_check_says() {
    let said = said();
    for name in ["tunable", "others", "modes"] {
        let mut seen = 0;
        for start in starts(name) {
            let most = said[&start.program];
            assert!(start.huge <= most, "{name}: {}", start.program);
            seen += 1;
        }
        assert!(seen > 0, "{name}");
    }
}

#[test]
fn of_the_windows_that_are_executed_nine_in_ten_are_huge() {
    let starts: Vec<Start> = starts("tunable").filter(|start| !start.is_short).collect();
    let huge: u64 = starts.iter().map(|start| start.huge).sum();
    let executed: u64 = starts.iter().map(|start| start.executed).sum();
    assert!(
        executed > 0 && 10 * huge >= 9 * executed,
        "{huge} of {executed}"
    );
}

/// `cargo run -p hugetext-leaf --example asker_rules` writes this part.
#[test]
fn the_rules_of_the_record_are_those_of_the_code() {
    let rules = part("rules");
    let recorded: Vec<&Value> = rules.iter().map(|row| &row["asker_rule"]).collect();
    let code = serde_json::to_value(ASKER_RULES).unwrap();
    let code: Vec<&Value> = code.as_array().unwrap().iter().collect();
    assert_eq!(recorded, code);
}
