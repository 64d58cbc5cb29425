//! What a profiler says about promoted text.

use std::path::Path;
use std::process::{Command, Output};

use hugetext_promote::{Copies, give_back_unused};

use super::copies::path_of_copy;
use super::{Busy, leaf, promote_all};

/// Runs perf. `None`, with the reason printed, where it does not work.
fn perf(arguments: &[&str], data: &Path) -> Option<Output> {
    let mut command = Command::new("perf");
    let (subcommand, others) = arguments.split_first().unwrap();
    let file = match *subcommand {
        "record" => "-o",
        _ => "-i",
    };
    let command = command.args([subcommand, file]).arg(data).args(others);
    match command.output() {
        Ok(output) if output.status.success() => Some(output),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: perf {subcommand}: {}", said.trim());
            None
        }
        Err(error) => {
            eprintln!("skipped: perf: {error}");
            None
        }
    }
}

/// The samples in a copy have the names of the program's functions, also after the process has ended
/// and the copy's memory has been given back.
#[test]
fn a_profile_of_a_process_that_has_ended_has_names() {
    let Some(leaf) = leaf() else { return };
    let mut busy = Busy::start(2);
    let target = busy.target().unwrap();
    if promote_all(&target, leaf, &mut Copies::default()).is_none() {
        return;
    }
    let Some(copy) = path_of_copy(&target) else {
        return;
    };
    if !copy.starts_with("/run") {
        // From a chroot, the kernel names what another namespace mounts as seen from the root of that.
        eprintln!("skipped: this root does not see {}", copy.display());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("perf.data");
    let pid = target.pid().to_string();
    let record = [
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-p",
        &pid,
        "--",
        "sleep",
        "1",
    ];
    if perf(&record, &data).is_none() {
        return;
    }
    busy.assert_well();
    busy.finish();
    give_back_unused();

    let Some(script) = perf(&["script", "-F", "ip,sym,dso"], &data) else {
        return;
    };
    let script = String::from_utf8_lossy(&script.stdout);
    let shown = copy.to_string_lossy();
    let in_copy: Vec<&str> = script
        .lines()
        .filter(|line| line.contains(&*shown))
        .collect();
    assert!(!in_copy.is_empty(), "{script}");
    // What perf calls an address of which it knows no symbol.
    let nameless = in_copy.iter().find(|line| line.contains("[unknown]"));
    assert_eq!(nameless, None);
    assert!(
        in_copy.iter().any(|line| line.contains("busy_functions")),
        "{script}"
    );
}
