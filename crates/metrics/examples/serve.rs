//! Serves made-up numbers, for tests of scrapers: `serve ADDRESS`. Each line on standard input is the next
//! moment, in which all counters have grown. With no address, prints them in Prometheus' older format.

#![allow(clippy::unwrap_used)]

use std::io::BufRead;

use hugetext_leaf::Leaf;
use hugetext_metrics::{
    Address, Decision, Endpoint, FilesIn, GivenBack, Snapshot, UnitText, openmetrics,
    prometheus_text,
};

/// The autopilot at the `n`th moment.
fn moment(n: u64) -> Snapshot {
    let mib = |number: u64| number << 20;
    let text = |unit: &str, leaf, bytes| UnitText {
        unit: unit.to_owned(),
        leaf,
        bytes,
    };
    let files = |state, reason, files| FilesIn {
        state,
        reason,
        files,
    };
    let decision = |decision, reason| Decision { decision, reason };
    let pressed = GivenBack {
        some: mib(2) * n,
        full: 0,
        cgroup: mib(4) * n,
    };
    Snapshot {
        version: "0.0.0",
        verdict: "starts-only",
        acts: true,
        budget: mib(512),
        allowed: mib(256),
        held: mib(64),
        listed: mib(16),
        reachable: mib(200),
        expected_saving: 12.5,
        files: vec![
            files("held", "group_share", 3),
            files("refused", "not_worth_it", 40),
        ],
        text: vec![
            text("postgresql.service", Leaf::K4, mib(10)),
            text("postgresql.service", Leaf::M2, mib(30)),
            text("container-0123456789ab", Leaf::K4, mib(20)),
        ],
        starts: 100 * n,
        decisions: [
            (decision("hold", "group_share"), 3 * n),
            (decision("release", "pressure"), n),
        ]
        .into(),
        given_back: pressed,
        stalls: vec![("some", n), ("full", 0), ("cgroup", 2 * n), ("plenty", 0)],
        errors: vec![("lost_records", 5 * n), ("given_up", 0)],
        own_seconds: 0.01 * n as f64,
        own_bytes: mib(3),
    }
}

fn main() {
    let text = |n| openmetrics(&moment(n)).unwrap();
    let Some(address) = std::env::args().nth(1) else {
        print!("{}", prometheus_text(&text(1)));
        return;
    };
    let endpoint = Endpoint::new(&Address::try_from(address).unwrap()).unwrap();
    endpoint.publish(&text(0));
    println!("{}", endpoint.address());
    for (n, _) in (1..).zip(std::io::stdin().lock().lines()) {
        endpoint.publish(&text(n));
    }
}
