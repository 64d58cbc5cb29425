//! Why a file is not held, as the document says it.

use std::process::Command;

use serde_json::Value;

use crate::place::{Place, can_hold, turns};

/// What the document says of the program under these settings, once it has decided.
fn decided(settings: &str) -> Option<Value> {
    let place = Place::new("act");
    if !can_hold(&place) {
        return None;
    }
    let program = place.path("program");
    let settings = settings.replace("PROGRAM", program.to_str().unwrap());
    place.configure(&format!("mode = \"act\"\nshare = 0.02\n{settings}"));
    let daemon = place.daemon(&[]);
    let _ = place.status_source();
    for () in turns() {
        let _ = Command::new(&program).status().unwrap();
        let file = place.status_of(&program);
        let early = [Value::from("not_decided"), Value::from("not_worth_it")];
        if let Some(file) = file.filter(|file| !early.contains(&file["cause"])) {
            // Memory that is short comes before any rule.
            let excuse = place.excuse();
            daemon.end();
            if let Some(excuse) = excuse {
                println!("skipped: {excuse}");
                return None;
            }
            return Some(file);
        }
    }
    panic!("never decided: {:#}", place.status());
}

#[test]
fn what_a_rule_denies_names_the_rule() {
    let rules = "budget = \"64M\"\n[[rule]]\npath = \"/no/such\"\nverdict = \"allow\"\n\
                 [[rule]]\npath = \"PROGRAM\"\nverdict = \"deny\"\n";
    let Some(file) = decided(rules) else { return };
    assert_eq!(file["cause"], "denied", "{file}");
    assert_eq!(file["reason"], "denied by rule 2 of the configuration");
    // It ended before anybody looked at its processor time.
    assert_eq!(file["cpu_ns"], Value::Null, "{file}");
}

#[test]
fn what_is_larger_than_the_budget_is_not_said_to_be_worth_less_than_others() {
    let Some(file) = decided("budget = \"1M\"\n") else {
        return;
    };
    // A machine whose memory is nearly full allows less.
    let bounds = ["budget", "free_memory", "recovery"];
    assert!(bounds.contains(&file["cause"].as_str().unwrap()), "{file}");
    let said = file["reason"].as_str().unwrap();
    assert!(said.starts_with("too large: "), "{said}");
}

#[test]
fn what_a_rule_has_no_budget_for_names_the_rule() {
    let rules =
        "budget = \"64M\"\n[[rule]]\npath = \"PROGRAM\"\nverdict = \"allow\"\nbudget = \"1M\"\n";
    let Some(file) = decided(rules) else { return };
    assert_eq!(file["cause"], "rule_budget", "{file}");
    assert!(
        file["reason"].as_str().unwrap().contains("rule 1"),
        "{file}"
    );
}
