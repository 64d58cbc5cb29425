//! What checks found: the stress, the kernel with the option off, and the configurations that compile.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::line::{Line, fact, row};
use crate::record::{Record, What};

pub(crate) fn lines(records: &[Record]) -> Vec<Line> {
    let stress: Vec<Value> = records.iter().filter_map(stressed).collect();
    let mut lines = vec![fact("stress", stress)];
    lines.extend(records.iter().filter_map(checked));
    lines
}

/// What a kernel did under stress. `None` for a record of something else.
fn stressed(record: &Record) -> Option<Value> {
    let What::Stress {
        seconds,
        races,
        steps,
        audit,
        end,
        vmstat,
    } = &record.what
    else {
        return None;
    };
    let list = |table: &BTreeMap<String, u64>| {
        let cell = |(name, count): (&String, &u64)| format!("{} {count}", name.replace('_', " "));
        table.iter().map(cell).collect::<Vec<_>>()
    };
    Some(json!({
        "part": record.part,
        "processors": record.cpus,
        "seconds": seconds,
        "date": record.date,
        "races": races,
        "steps": list(steps),
        "audit": list(audit),
        "end": list(end),
        "vmstat": list(vmstat),
    }))
}

fn checked(record: &Record) -> Option<Line> {
    match &record.what {
        What::Off { functions, differ } => Some(fact(
            "off",
            json!({ "functions": functions, "differ": differ }),
        )),
        What::Compiled {
            name,
            config,
            compiler,
            option,
            files,
        } => {
            let cells = [
                name.clone(),
                config.clone(),
                compiler.clone(),
                if *option { "on" } else { "absent" }.to_owned(),
                files.to_string(),
                record.date.clone(),
            ];
            Some(row("compiled", cells))
        }
        What::NotCompiled { files } => Some(fact("not_compiled", files.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::line::shown;
    use crate::record::parse;

    #[test]
    fn the_page_has_what_checks_found() {
        let records = parse(
            r#"{"part":"off","side":"off","date":"2026-11-29","what":"off","functions":9,"differ":["f"]}
{"part":"compiled","side":"with","date":"2026-11-27","what":"compiled","name":"sh","config":"defconfig","compiler":"12","option":false,"files":3}
{"part":"compiled","side":"with","date":"2026-11-27","what":"not-compiled","files":["a.c"]}
{"part":"stress-rt","side":"with","date":"2026-11-28","cpus":8,"what":"stress","seconds":4,"steps":{"drop_caches":2,"exec":3},"audit":{},"end":{},"vmstat":{}}"#,
        );
        let text = shown(&lines(&records.expect("a record")));
        for line in [
            r#""differ":["f"]"#,
            "| sh | defconfig | 12 | absent | 3 | 2026-11-27 |",
            r#"not_compiled: ["a.c"]"#,
            r#""steps":["drop caches 2","exec 3"]"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
