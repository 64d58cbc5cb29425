//! The speed of the command itself. Its start is compared with that of an empty program, a scan
//! with a loop of `readelf -lW` over the same files. `warm` is timed on a program that is warm
//! already. With `--before PROGRAM`, an earlier build of the command takes turns with this one.
//! Prints the record of lab/results/speed.md, which `lab/measure speed` keeps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod before;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hugetext_bench::{Estimate, Interval, Measure, Unit, quantity};
use hugetext_host::{Machine, Usage, run_measured};
use ignore::WalkBuilder;

const START_ROUNDS: usize = 400;
const SCAN_ROUNDS: usize = 5;
const WARM_ROUNDS: usize = 41;

/// What the user asked for.
struct Arguments {
    /// The directory to scan.
    root: PathBuf,
    /// An earlier build of the command.
    before: Option<PathBuf>,
}

impl Arguments {
    /// Cargo adds `--bench`.
    fn read() -> Arguments {
        let mut read = Arguments {
            root: "/usr".into(),
            before: None,
        };
        let mut given = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = given.next() {
            if word == "--before" {
                read.before = Some(given.next().expect("--before names a program").into());
            } else {
                read.root = word.into();
            }
        }
        read
    }
}

fn main() {
    let Arguments { root, before } = Arguments::read();
    let machine = Machine::this();
    fact("kernel", &machine.release);
    fact("processors", machine.cpus);
    start();
    scan(&root);
    warm();
    if let Some(before) = before {
        before::compare(&before, &root);
    }
}

/// The time that a user waits who checks one file.
fn start() {
    let directory = tempfile::tempdir().unwrap();
    let empty = empty_program(directory.path());
    let runs = interleaved(
        START_ROUNDS,
        [
            &mut || quiet(&mut Command::new(&empty)),
            &mut || quiet(hugetext().arg("--version")),
            &mut || quiet(hugetext().arg("check").arg(&empty)),
        ],
    );
    fact("start_rounds", START_ROUNDS);
    let names = ["empty", "version", "check"];
    for (name, side) in names.iter().zip(&runs) {
        start_row(name, side, &runs[0]);
    }
}

fn start_row(name: &str, runs: &[Usage], empty: &[Usage]) {
    let pairs = runs.iter().zip(empty);
    let beyond = pairs.map(|(run, empty)| seconds(run) - seconds(empty));
    let wall = estimate(runs.iter().map(seconds));
    let faults = estimate(runs.iter().map(|run| run.minor_faults as f64));
    let wall = format!("{:.2} ms", wall.median * 1e3);
    let faults = format!("{:.0}", faults.median);
    cells(
        "starts",
        [name, &wall, &milliseconds(&estimate(beyond)), &faults],
    );
}

fn scan(root: &Path) {
    let files = elf_files(root);
    // One shell starts every readelf, as in a user's loop.
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
    std::fs::write(list.path(), lines.join("\n")).unwrap();
    let script = r#"while read -r file; do readelf -lW "$file"; done <"$0""#;

    // With a named kernel, the command does not inspect the page cache. A scan does not inspect it
    // either.
    let kernel = Machine::this().kernel.unwrap().to_string();
    let given = ["check", "--json", "--kernel", &kernel];
    let [readelf, check, same] = interleaved(
        SCAN_ROUNDS,
        [
            &mut || quiet(Command::new("sh").args(["-c", script]).arg(list.path())),
            &mut || {
                quiet(
                    hugetext()
                        .args(["check", "--json", "--recursive"])
                        .arg(root),
                )
            },
            &mut || quiet(hugetext().args(given).args(&files)),
        ],
    );
    fact("root", root.display());
    fact("files", files.len());
    fact("scan_rounds", SCAN_ROUNDS);
    row("readelf", &readelf, &readelf);
    row("search", &check, &readelf);
    row("files", &same, &readelf);
}

fn warm() {
    let cc1 = cc1();
    let [runs] = interleaved(
        WARM_ROUNDS,
        [&mut || quiet(hugetext().arg("warm").arg(&cc1))],
    );
    let size = std::fs::metadata(&cc1).unwrap().len();
    fact("compiler", quantity::bytes(size));
    fact("warm", milliseconds(&estimate(runs.iter().map(seconds))));
    fact("warm_rounds", WARM_ROUNDS);
}

/// The program that compiles C.
fn cc1() -> PathBuf {
    let named = Command::new("cc").arg("-print-prog-name=cc1").output();
    let named = String::from_utf8(named.unwrap().stdout).unwrap();
    named.trim_end().into()
}

/// A program that does nothing.
fn empty_program(directory: &Path) -> PathBuf {
    let (source, empty) = (directory.join("empty.rs"), directory.join("empty"));
    std::fs::write(&source, "fn main() {}").unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.arg("-O").arg(&source).arg("-o").arg(&empty);
    assert!(rustc.status().unwrap().success());
    empty
}

/// Runs all sides in every round. The first round only reads files into the page cache, and does not
/// count.
fn interleaved<const SIDES: usize>(
    rounds: usize,
    mut sides: [&mut dyn FnMut() -> Usage; SIDES],
) -> [Vec<Usage>; SIDES] {
    let mut runs = [const { Vec::new() }; SIDES];
    for round in 0..=rounds {
        for (runs, side) in runs.iter_mut().zip(&mut sides) {
            let run = side();
            if round > 0 {
                runs.push(run);
            }
        }
    }
    runs
}

fn hugetext() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
}

fn quiet(command: &mut Command) -> Usage {
    let limit = Duration::from_secs(600);
    run_measured(command.stdout(Stdio::null()).stderr(Stdio::null()), limit)
        .unwrap()
        .0
}

fn elf_files(root: &Path) -> Vec<PathBuf> {
    let is_elf = |path: &PathBuf| {
        let mut magic = [0; 4];
        File::open(path)
            .and_then(|file| file.read_exact_at(&mut magic, 0))
            .is_ok()
            && magic == *b"\x7fELF"
    };
    let walk = WalkBuilder::new(root).standard_filters(false).build();
    let files = walk.flatten().filter(|entry| {
        let kind = entry.file_type();
        kind.is_some_and(|kind| kind.is_file())
    });
    files
        .map(ignore::DirEntry::into_path)
        .filter(is_elf)
        .collect()
}

fn row(name: &str, runs: &[Usage], reference: &[Usage]) {
    let pairs = reference.iter().zip(runs);
    let faster = estimate(pairs.map(|(slow, fast)| seconds(slow) / seconds(fast)));
    let wall = estimate(runs.iter().map(seconds));
    let most = runs.iter().map(|run| run.max_rss).max().unwrap_or(0);
    let wall = format!("{:.2} s", wall.median);
    let faster = format!("{:.1}", faster.median);
    cells("scan", [name, &wall, &quantity::bytes(most), &faster]);
}

/// A line of the record: a fact of the page.
fn fact(name: &str, value: impl std::fmt::Display) {
    let value = value.to_string();
    println!("{}", serde_json::json!({ "fact": name, "value": value }));
}

/// A line of the record: a row of a table of the page.
fn cells<const CELLS: usize>(table: &str, row: [&str; CELLS]) {
    println!("{}", serde_json::json!({ "table": table, "row": &row[..] }));
}

fn seconds(run: &Usage) -> f64 {
    run.wall.as_secs_f64()
}

fn estimate(rounds: impl Iterator<Item = f64>) -> Estimate {
    let measure = Measure::new("", Unit::Seconds, vec![rounds.collect()]).unwrap();
    measure.values[0].estimate
}

/// `1.15 ms (1.12 to 1.18)`, of seconds.
fn milliseconds(estimate: &Estimate) -> String {
    let median = estimate.median * 1e3;
    match estimate.interval {
        Some(Interval { low, high }) => {
            format!("{median:.2} ms ({:.2} to {:.2})", low * 1e3, high * 1e3)
        }
        None => format!("{median:.2} ms"),
    }
}
