//! `hugetext report`: one file of HTML that shows where text lies, by which leaves it is mapped, and
//! what benchmarks measured. It needs no network and no scripts.

mod map;
mod page;
mod plot;
mod strip;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use hugetext_host::{Machine, replace_with};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::Verdict;
use crate::bench::BenchmarkFile;
use crate::failure::Failure;
use crate::output::{Output, command_line};
use crate::path::{lossy, shown};
use crate::warm::Ground;
use map::Map;
use page::Page;

const TEMPLATE: &str = include_str!("report.html");

/// Write what is known of programs, processes and benchmarks into one HTML file
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs, shared objects, and ids of running processes
    #[arg(value_name = "PATH|PID")]
    subjects: Vec<PathBuf>,
    /// The file to write; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Results to show: what `hugetext bench … --json` printed
    #[arg(long, value_name = "FILE")]
    bench: Vec<PathBuf>,
}

/// Answers `hugetext report`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if arguments.subjects.is_empty() && arguments.bench.is_empty() {
        let nothing = Failure::at(&arguments.output, "nothing to report");
        return Err(nothing.remedy("name programs, processes or results (--bench FILE)"));
    }
    let to_stdout = arguments.output.as_os_str() == "-";
    if to_stdout && output.json() {
        let both = Failure::new(
            "standard output",
            "the page and --json cannot both go there",
        );
        return Err(both.remedy("name a file with -o"));
    }
    let machine = Machine::this();
    let ground = Ground::this()?;
    let mut verdict = Verdict::Done;
    let mut maps = Vec::new();
    for subject in &arguments.subjects {
        match look(subject, &machine, &ground) {
            Ok(map) => maps.push(map),
            Err(failure) => {
                output.error(&failure);
                verdict = Verdict::Failed;
            }
        }
    }
    let benchmarks: Vec<BenchmarkFile> = arguments
        .bench
        .iter()
        .map(|path| read_benchmarks(path))
        .collect::<Result<_, _>>()?;
    let page = Page::new(&machine, maps, &benchmarks, command_line());
    let page = render(&page)?;
    if to_stdout {
        output.document(&page)?;
        return Ok(verdict);
    }
    replace_with(&arguments.output, page.as_bytes())
        .map_err(|error| Failure::replace(&arguments.output, &error))?;
    let written = Written {
        path: &arguments.output,
    };
    output.result("report", &written, |written| shown(written.path))?;
    Ok(verdict)
}

#[derive(Serialize)]
struct Written<'p> {
    #[serde(serialize_with = "lossy::path")]
    path: &'p Path,
}

/// A number names a process, unless a file has that name.
fn look(subject: &Path, machine: &Machine, ground: &Ground) -> Result<Map, Failure> {
    let pid = subject.to_str().and_then(|text| text.parse().ok());
    match pid {
        Some(pid) if !subject.exists() => Map::of_process(pid, machine, ground.leaf),
        _ => Map::of_file(subject, machine, ground),
    }
}

fn read_benchmarks(path: &Path) -> Result<BenchmarkFile, Failure> {
    let text = fs::read(path).map_err(|error| Failure::io(path, &error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::at(
            path,
            format_args!("not a result of hugetext bench: {error}"),
        )
        .remedy("make one with hugetext bench all --json")
    })
}

fn render(page: &Page) -> Result<String, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment
        .render_str(TEMPLATE, page)
        .map_err(|error| Failure::new("report", format_args!("{error:#}")))
}
