//! What `check` says of programs.

use std::fs;

use crate::{big_program, hugetext, json, path};

#[test]
fn check_tells_the_reach_of_a_big_program() {
    let Some(program) = big_program() else { return };
    let report = json(&["check", "--json", "--kernel", "6.18", path(&program)]);
    assert_eq!(report["schema"], 3);
    let file = &report["files"][0];
    let text = file["text"].as_u64().unwrap();
    let reached = file["now"][0]["reached"].as_u64().unwrap();
    assert!(
        text > 4 << 20 && reached > text / 2 && reached <= text,
        "{file}"
    );
    assert_eq!(file["now"][0]["leaf"], 2 << 20);
}

/// The figures of the text and of the JSON of a check are the same.
#[test]
fn check_prints_what_its_json_says() {
    let own = std::env::current_exe().unwrap();
    for kernel in ["5.4", "6.1", "6.18", "7.3"] {
        let report = json(&["check", "--json", "--kernel", kernel, path(&own)]);
        let file = &report["files"][0];
        let bytes = |figure: &str| file[figure].as_u64().unwrap() as f64;
        let share = |figure: &str| format!("{:.0}%", 100.0 * bytes(figure) / bytes("text"));
        let (now, fixed, merged) = (share("reached"), share("after_fix"), share("after_merge"));
        let expected = format!("reach {now} now, {fixed} after fix, {merged} merged");
        let text = hugetext(&["check", "--kernel", kernel, path(&own)]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains(&expected),
            "{kernel}: {expected} not in {text}"
        );
        assert_eq!(report["summary"]["after_merge"], file["after_merge"]);
    }
}

#[test]
fn check_require_decides_the_exit_status() {
    let own = std::env::current_exe().unwrap();
    assert_eq!(
        hugetext(&["check", path(&own), "--require", "0"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        hugetext(&["check", path(&own), "--require", "100"])
            .status
            .code(),
        Some(1)
    );
    assert_eq!(
        hugetext(&["check", path(&own), "--require", "101"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn an_older_kernel_is_a_reason() {
    let own = std::env::current_exe().unwrap();
    let report = json(&["check", "--json", "--kernel", "5.4", path(&own)]);
    let file = &report["files"][0];
    if ["ext4", "xfs"].contains(&file["filesystem"].as_str().unwrap()) {
        assert_eq!(file["causes"][0]["cause"], "kernel", "{file}");
        // No layout can replace a kernel that lacks huge folios for the filesystem.
        assert_eq!(report["summary"]["after_fix"], 0, "{report}");
        for figure in ["reached", "after_fix", "after_merge"] {
            assert_eq!(file[figure], 0, "{figure} of {file}");
        }
        let reaches = [&file["now"], &file["possible"]];
        for reach in reaches.iter().flat_map(|list| list.as_array().unwrap()) {
            assert_eq!(reach["reached"], 0, "{reach}");
        }
        let text = hugetext(&["check", "--kernel", "5.4", path(&own)]).stdout;
        assert!(!String::from_utf8(text).unwrap().contains("fix: "));
    }
}

#[test]
fn what_check_calls_within_reach_can_be_warmed() {
    let Some(program) = big_program() else { return };
    for place in ["/dev/shm", env!("CARGO_TARGET_TMPDIR")] {
        let Ok(directory) = tempfile::tempdir_in(place) else {
            println!("skipped: {place} cannot be written");
            continue;
        };
        let copy = directory.path().join("program");
        fs::copy(&program, &copy).unwrap();
        let half = || hugetext(&["check", "--require", "50", path(&copy)]);
        let (promise, kept) = (half(), hugetext(&["warm", path(&copy)]));
        if String::from_utf8_lossy(&kept.stdout).contains("Cannot allocate memory") {
            println!("skipped: the kernel has no huge page left for {place}");
            continue;
        }
        assert_eq!(
            promise.status.code(),
            kept.status.code(),
            "{promise:?} {kept:?}"
        );
        assert_eq!(half().status.code(), kept.status.code());
    }
}

#[test]
fn check_tells_why_a_fix_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("appended");
    let mut content = fs::read(std::env::current_exe().unwrap()).unwrap();
    content.extend(b"appended");
    fs::write(&file, content).unwrap();
    let report = json(&["check", "--json", path(&file)]);
    let refusals = report["files"][0]["possible"].as_array().unwrap();
    let text = hugetext(&["check", "--verbose", path(&file)]).stdout;
    let text = String::from_utf8(text).unwrap();
    for refusal in refusals.iter().filter_map(|way| way["refusal"].as_str()) {
        assert!(text.contains(refusal), "{refusal} in {text}");
    }
}
