//! The speed of the command itself. Its start is compared with that of an empty program, a scan
//! with a loop of `readelf -lW` over the same files. `warm` is timed on a program that is warm
//! already. Prints Markdown, which `make bench` keeps in docs/.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use hugetext_host::{Machine, Usage, run_measured};
use ignore::WalkBuilder;

const START_ROUNDS: usize = 400;
const SCAN_ROUNDS: usize = 5;
const WARM_ROUNDS: usize = 41;

fn main() {
    let root = std::env::args()
        .skip(1)
        .find(|a| !a.starts_with('-'))
        .unwrap_or("/usr".into());
    let machine = Machine::this();
    println!("# Speed of the command\n");
    println!(
        "Linux {}, {} processors. Regenerate: `make bench`.\n",
        machine.release, machine.cpus
    );
    start();
    scan(&root);
    warm();
}

/// The time that a user waits who checks one file.
fn start() {
    let directory = tempfile::tempdir().unwrap();
    let (source, empty) = (
        directory.path().join("empty.rs"),
        directory.path().join("empty"),
    );
    std::fs::write(&source, "fn main() {}").unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.arg("-O").arg(&source).arg("-o").arg(&empty);
    assert!(rustc.status().unwrap().success());

    let mut runs = [const { Vec::new() }; 3];
    for round in 0..=START_ROUNDS {
        let sides = [
            quiet(&mut Command::new(&empty)),
            quiet(hugetext().arg("--version")),
            quiet(hugetext().arg("check").arg(&empty)),
        ];
        for (runs, run) in runs.iter_mut().zip(sides) {
            if round > 0 {
                runs.push(run);
            }
        }
    }
    println!("## check of one small file\n");
    println!(
        "{START_ROUNDS} interleaved rounds, medians. Beyond: wall time less that of the empty program \
         in the same round, with the middle half of the rounds.\n"
    );
    println!("| | wall | beyond | page faults |\n|---|---:|---:|---:|");
    let names = [
        "an empty Rust program",
        "`hugetext --version`",
        "`hugetext check`",
    ];
    for (name, side) in names.iter().zip(&runs) {
        start_row(name, side, &runs[0]);
    }
    println!(
        "\nWhere the kernel gives its configuration as /proc/config.gz only, inflating it is the \
         largest part of what `check` adds (`perf record -e instructions:u`). A file by itself is \
         looked at without starting a thread. What only benchmarks use lies in the command, but is \
         not read.\n"
    );
}

fn start_row(name: &str, runs: &[Usage], empty: &[Usage]) {
    let milliseconds = |run: &Usage| run.wall.as_secs_f64() * 1e3;
    let (_, wall, _) = spread(runs.iter().map(milliseconds).collect());
    let beyond = runs
        .iter()
        .zip(empty)
        .map(|(run, empty)| milliseconds(run) - milliseconds(empty));
    let mut beyond: Vec<f64> = beyond.collect();
    beyond.sort_by(f64::total_cmp);
    let quarter = |quarters: usize| beyond[beyond.len() * quarters / 4];
    let (_, faults, _) = spread(runs.iter().map(|run| run.minor_faults as f64).collect());
    println!(
        "| {name} | {wall:.2} ms | {:.2} ms ({:.2} to {:.2}) | {faults} |",
        quarter(2),
        quarter(1),
        quarter(3)
    );
}

fn scan(root: &str) {
    let files = elf_files(root);
    // One shell starts every readelf, as in a user's loop.
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
    std::fs::write(list.path(), lines.join("\n")).unwrap();
    let script = r#"while read -r file; do readelf -lW "$file"; done <"$0""#;

    let mut readelf = Vec::new();
    let mut check = Vec::new();
    let mut same = Vec::new();
    for round in 0..=SCAN_ROUNDS {
        let a = quiet(Command::new("sh").args(["-c", script]).arg(list.path()));
        let b = quiet(hugetext().args(["check", "--json", "--recursive", root]));
        // With a named kernel, the command does not inspect the page cache. A scan does not
        // inspect it either.
        let kernel = Machine::this().kernel.unwrap().to_string();
        let c = quiet(
            hugetext()
                .args(["check", "--json", "--kernel", &kernel])
                .args(&files),
        );
        // The first round only reads the headers into the page cache.
        if round > 0 {
            readelf.push(a);
            check.push(b);
            same.push(c);
        }
    }
    println!("## check --recursive {root}\n");
    println!(
        "{} ELF files, {SCAN_ROUNDS} interleaved rounds, medians. The loop is given the ELF files; \
         the search opens every file below {root} to find them.\n",
        files.len()
    );
    println!("| | wall | peak RSS | times as fast, rounds |\n|---|---:|---:|---:|");
    row("`readelf -lW`, one process a file", &readelf, &readelf);
    row("`hugetext check --recursive`, searching", &check, &readelf);
    row("`hugetext check`, given the same files", &same, &readelf);
    println!();
}

fn warm() {
    let cc1 = Command::new("cc")
        .arg("-print-prog-name=cc1")
        .output()
        .unwrap();
    let cc1 = String::from_utf8(cc1.stdout).unwrap().trim_end().to_owned();
    let runs: Vec<Usage> = (0..=WARM_ROUNDS)
        .map(|_| quiet(hugetext().args(["warm", &cc1])))
        .skip(1)
        .collect();
    let (low, middle, high) = spread(
        runs.iter()
            .map(|run| run.wall.as_secs_f64() * 1e3)
            .collect(),
    );
    let size = std::fs::metadata(&cc1).unwrap().len() >> 20;
    println!("## warm on a warm program\n");
    println!(
        "`hugetext warm` on the C compiler's {size} MiB, warm already: median {middle:.1} ms of \
         {WARM_ROUNDS} runs, process start included (fastest {low:.1}, slowest {high:.1})."
    );
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

fn elf_files(root: &str) -> Vec<PathBuf> {
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
    let seconds = |run: &Usage| run.wall.as_secs_f64();
    let (_, wall, _) = spread(runs.iter().map(seconds).collect());
    let ratios = reference
        .iter()
        .zip(runs)
        .map(|(a, b)| seconds(a) / seconds(b));
    let (low, middle, high) = spread(ratios.collect());
    let rss = runs.iter().map(|run| run.max_rss).max().unwrap_or(0) >> 20;
    println!("| {name} | {wall:.2} s | {rss} MiB | {middle:.1} ({low:.1} to {high:.1}) |");
}

/// The minimum, the median and the maximum.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}
