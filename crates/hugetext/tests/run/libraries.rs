//! Profiles and core dumps of a program whose hot function is in a library, which ran as a copy or as its own file.

use std::fs;

use crate::profiles::{Profiled, RUN, cores_are_files, is_honest};
use crate::subject::HUGETEXT;

/// Its text is not congruent with its place in the file, so that a copy with other offsets is shown in its place.
const SHIFTED: [&str; 2] = ["-Wl,-z,noexecstack", "-Wl,--section-start=.text=0x112000"];
/// The kernel places it where leaves map it, so that no copy is needed.
const CONGRUENT: [&str; 2] = ["-Wl,-z,noexecstack", "-Wl,-z,separate-code"];

const RECORD: [&str; 6] = ["perf", "record", "-q", "-e", "cpu-clock:u", "-o"];

/// The program and `libhot.so`, and whether the library needs no copy.
fn both() -> Option<[(Profiled, bool); 2]> {
    let shifted = (Profiled::build_library(SHIFTED)?, false);
    Some([shifted, (Profiled::build_library(CONGRUENT)?, true)])
}

#[test]
fn a_profile_of_a_library_names_no_other_function() {
    for (profiled, is_own_file) in both().into_iter().flatten() {
        let is_right = |named: &str| named == "hot" || !is_own_file && is_honest(named);
        for (data, options) in [("default", &[][..]), ("by-kernel", &["--buildid-mmap"])] {
            if !profiled.record(data, options, &RUN) {
                return;
            }
            let named = profiled.busiest(data);
            assert!(is_right(&named), "{is_own_file}, {data}: {named}");
        }
        if !is_own_file {
            let told = profiled
                .command("perf")
                .args(["buildid-cache", "-u"])
                .arg(profiled.ran("libhot.so"))
                .status();
            assert!(told.unwrap().success());
            assert_eq!(profiled.busiest("default"), "hot", "with the copy");
        }
        fs::remove_dir_all(profiled.path(".debug")).unwrap();
        let mut inside = profiled.command(HUGETEXT);
        inside.args(["run", "--store", "store", "--also", "libhot.so"]);
        inside.args(RECORD).args(["inside", "./prog"]);
        assert!(inside.status().unwrap().success());
        assert_eq!(profiled.busiest("inside"), "hot", "perf behind run");
    }
}

/// Debuggers find a library by its address in memory, which no copy changes.
#[test]
fn a_core_dump_has_the_names_of_a_library_without_help() {
    for (profiled, is_own_file) in both().into_iter().flatten() {
        if !cores_are_files() {
            return;
        }
        profiled.dump(&RUN);
        let program = profiled.path("prog");
        assert_eq!(profiled.ran(profiled.core()), program);
        let named = profiled.backtrace(&program);
        assert!(
            named.contains("hot (") && named.contains("main ("),
            "{is_own_file}: {named}"
        );
        match profiled.frames() {
            Some(named) => assert!(
                named.contains(" hot") && named.contains(" main"),
                "{is_own_file}: {named}"
            ),
            None => println!("skipped: no eu-stack"),
        }
    }
}
