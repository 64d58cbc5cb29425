//! The same program, linked in every possible way: the text that each layout reaches, before and
//! after.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::sample::{hugetext, json, link, path, run, text};

const LINKERS: [&str; 4] = ["bfd", "gold", "lld", "mold"];
const CODE: [&str; 2] = ["-Wl,-z,separate-code", "-Wl,-z,noseparate-code"];
const RODATA: [&str; 2] = ["-Wl,--rosegment", "-Wl,--no-rosegment"];
const PAGE_SIZES: [(&str, &str); 3] = [
    ("4K", "-Wl,-z,max-page-size=4096"),
    ("64K", "-Wl,-z,max-page-size=65536"),
    ("2M", "-Wl,-z,max-page-size=2097152"),
];

/// The fix of every layout reaches no less than before, and the program runs as before. If
/// HUGETEXT_RECORD is set, the layouts are written there, as lines of the record of lab/results/linkers.md.
#[test]
fn every_linker_and_option() {
    let directory = tempfile::tempdir().unwrap();
    let mut record = String::new();
    let mut linked = 0;
    for linker in LINKERS {
        let linker_option = format!("-fuse-ld={linker}");
        // A linker's rows leave out the options that it does not know.
        let known = |options: [&'static str; 2]| -> Vec<&'static str> {
            let knows =
                |option: &&str| link(&directory, "try", &[&linker_option, option]).is_some();
            let known: Vec<&str> = options.into_iter().filter(knows).collect();
            if known.is_empty() { vec![""] } else { known }
        };
        let (code, rodata) = (known(CODE), known(RODATA));
        for (code, rodata) in code.iter().flat_map(|c| rodata.iter().map(move |r| (c, r))) {
            for (size, page_size) in PAGE_SIZES {
                let options = [linker_option.as_str(), code, rodata, page_size];
                let options: Vec<&str> = options.into_iter().filter(|o| !o.is_empty()).collect();
                if let Some(program) = link(&directory, "program", &options) {
                    linked += 1;
                    let (code, rodata) = (shown(code), shown(rodata));
                    let layout = [linker, code, rodata, size].map(str::to_owned);
                    let row = [&layout[..], &row(&program)].concat();
                    let line = serde_json::json!({ "table": "layouts", "row": row });
                    let _ = writeln!(record, "{line}");
                }
            }
        }
    }
    if linked == 0 {
        println!("skipped: no linker knows these options");
    }
    if let Some(file) = std::env::var_os("HUGETEXT_RECORD") {
        fs::write(file, record).unwrap();
    }
}

/// An option without the prefixes that all options share.
fn shown(option: &str) -> &str {
    let option = option.trim_start_matches("-Wl,");
    option.trim_start_matches("-z,").trim_start_matches("--")
}

/// Checks and fixes one layout. Returns its columns of the table.
fn row(program: &Path) -> [String; 6] {
    let report = json(&["check", "--geometry", "x86-64", path(program)]);
    let file = &report["files"][0];
    let whole = file["text"].as_u64().unwrap();
    let now = file["now"][0]["reached"].as_u64().unwrap();
    let loads = file["segments"].as_array().unwrap();
    let perms: Vec<&str> = loads
        .iter()
        .map(|load| load["perms"].as_str().unwrap())
        .collect();
    let said = run(program);
    let (strategy, fixed) = fix(program, "auto", &said);
    let (_, merged) = fix(program, "merge", &said);
    assert!(
        now <= fixed && fixed <= merged,
        "{now} {fixed} {merged} of {file}"
    );
    assert!(merged * 3 >= whole * 2, "{merged} of {file}");
    let percent = |part: u64| format!("{}%", (100 * part + whole / 2) / whole);
    let bytes = fs::metadata(program).unwrap().len() as f64;
    [
        perms.join(" "),
        format!("{:.1} MB", bytes / 1e6),
        percent(now),
        strategy,
        percent(fixed),
        percent(merged),
    ]
}

/// The strategy that was used, and the text that it brings within reach.
fn fix(program: &Path, strategy: &str, said: &str) -> (String, u64) {
    let new = program.with_extension(strategy);
    let (from, to) = (path(program), path(&new));
    let report = json(&["fix", from, "--strategy", strategy, "-o", to]);
    if let Some(reason) = report["refused"].as_str() {
        return (
            reason.to_owned(),
            report["reached_before"].as_u64().unwrap(),
        );
    }
    assert_eq!(run(&new), said);
    let same = hugetext(&["check", "--same", path(program), path(&new)]);
    assert!(same.status.success(), "{}", text(&same.stdout));
    let plan = &report["plan"];
    let used = match plan["done_already"].as_bool() {
        Some(true) => "none needed",
        _ => plan["plan"]["strategy"].as_str().unwrap(),
    };
    (used.to_owned(), plan["reached_after"].as_u64().unwrap())
}
