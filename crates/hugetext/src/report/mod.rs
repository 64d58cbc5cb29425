//! `hugetext report`: writes one HTML file that shows where text lies, which leaves map it, and
//! what benchmarks measured. It needs no network and no scripts. It can write a drawing of
//! processes instead.

mod drawing;
mod map;
mod page;
mod plot;
mod record;
mod strip;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use hugetext_bench::BenchmarkFile;
use hugetext_engine::{HostContext, MachineVerdict};
use hugetext_host::{Machine, limit_listing, replace_with};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::documents::report::ReportWritten;
use crate::failure::Failure;
use crate::meaning::{Meaning, verdict_of};
use crate::output::{Output, command_line, quoted};
use crate::path::shown;
use crate::verdict::Verdict;
use drawing::Drawing;
use map::SubjectMap;
use page::Page;
use record::ProcessRecord;

const PAGE: &str = include_str!("report.html");
const DRAWING: &str = include_str!("drawing.svg");

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs, shared objects, and ids of running processes
    #[arg(value_name = "PATH|PID")]
    subjects: Vec<PathBuf>,
    /// The file to write. The ending decides: .svg is a drawing of processes, .json a record to
    /// draw from later, anything else an HTML page; - is HTML on standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A record to draw next to the processes, as `hugetext report -o FILE.json PID` wrote it
    #[arg(long, value_name = "FILE")]
    record: Vec<PathBuf>,
    /// The title of a process in a drawing [default: its id and name]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Benchmark results to show, as `hugetext bench … --json` printed them
    #[arg(long, value_name = "FILE")]
    bench: Vec<PathBuf>,
}

/// The format of the output, by the ending of the file's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Page,
    Drawing,
    Record,
}

impl Form {
    fn of(path: &Path) -> Form {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Form::Drawing,
            Some("json") => Form::Record,
            _ => Form::Page,
        }
    }
}

/// Runs `hugetext report`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if arguments.subjects.is_empty() && arguments.bench.is_empty() && arguments.record.is_empty() {
        let nothing = Failure::at(&arguments.output, "nothing to report");
        return Err(nothing.remedy("name programs, processes or results (--bench FILE)"));
    }
    match Form::of(&arguments.output) {
        Form::Page => page(arguments, output),
        Form::Drawing => {
            let mut records: Vec<ProcessRecord> = arguments
                .record
                .iter()
                .map(|path| ProcessRecord::read(path))
                .collect::<Result<_, _>>()?;
            records.extend(recorded(arguments)?);
            let drawing = render(DRAWING, &Drawing::new(&records))?;
            write(arguments, output, drawing.as_bytes(), drawn(arguments))
        }
        Form::Record => {
            let records = recorded(arguments)?;
            let [record] = records.as_slice() else {
                let many = Failure::at(&arguments.output, "a record holds one process");
                return Err(many.remedy("name one process"));
            };
            let text =
                serde_json::to_string(record).map_err(|error| Failure::new("report", error))?;
            let drawing = arguments.output.with_extension("svg");
            let next = format!(
                "hugetext report -o {} --record {}",
                quoted(&shown(&drawing)),
                quoted(&shown(&arguments.output))
            );
            let meaning = Meaning::new("The record can be drawn on any machine.", next);
            write(arguments, output, format!("{text}\n").as_bytes(), meaning)
        }
    }
}

fn drawn(arguments: &Arguments) -> Meaning {
    let page = arguments.output.with_extension("html");
    let subjects = arguments
        .subjects
        .iter()
        .map(|subject| format!(" {}", quoted(&shown(subject))));
    let subjects: String = subjects.collect();
    let next = if subjects.is_empty() {
        "hugetext host".to_owned()
    } else {
        format!("hugetext report -o {}{subjects}", quoted(&shown(&page)))
    };
    Meaning::new(
        "The drawing shows which pages map the text, to scale.",
        next,
    )
}

/// The processes that the user named.
fn recorded(arguments: &Arguments) -> Result<Vec<ProcessRecord>, Failure> {
    if !arguments.bench.is_empty() {
        let results = Failure::at(&arguments.output, "a drawing cannot show benchmark results");
        return Err(results.remedy("write a page (-o FILE.html)"));
    }
    let machine = Machine::this();
    let record = |subject: &PathBuf| {
        let pid = subject.to_str().and_then(|text| text.parse().ok());
        let pid = pid.ok_or_else(|| {
            Failure::at(subject, "a drawing shows processes only")
                .remedy("name the id of a process, or write a page (-o FILE.html)")
        })?;
        ProcessRecord::of(pid, arguments.title.as_deref(), &machine)
    };
    arguments.subjects.iter().map(record).collect()
}

fn page(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if !arguments.record.is_empty() || arguments.title.is_some() {
        let drawn = Failure::at(&arguments.output, "--record and --title need a drawing");
        return Err(drawn.remedy("give the output the ending .svg"));
    }
    let to_stdout = arguments.output.as_os_str() == "-";
    if to_stdout && output.is_json() {
        let both = Failure::new(
            "standard output",
            "the page and the JSON document cannot both go there",
        );
        return Err(both.remedy("name a file with -o"));
    }
    limit_listing();
    let machine = Machine::this();
    let host = HostContext::with_huge_pages()?;
    let found = MachineVerdict::remembered();
    let mut verdict = Verdict::Done;
    let mut maps = Vec::new();
    for subject in &arguments.subjects {
        match look(subject, &machine, &host, verdict_of(found.as_ref())) {
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
    let page = Page::new(&machine, maps, &benchmarks, command_line("hugetext"));
    let text = render(PAGE, &page)?;
    if to_stdout {
        output.document(&text)?;
        return Ok(verdict);
    }
    Ok(verdict.and(write(arguments, output, text.as_bytes(), page.meaning())?))
}

fn write(
    arguments: &Arguments,
    output: &Output,
    bytes: &[u8],
    meaning: Meaning,
) -> Result<Verdict, Failure> {
    let path = &arguments.output;
    replace_with(path, bytes).map_err(|error| Failure::replace(path, &error))?;
    let written = ReportWritten {
        path: path.to_owned(),
    };
    output.result("report", &written, |written| {
        format!("{}\n{meaning}", shown(&written.path))
    })?;
    Ok(Verdict::Done)
}

/// A number is a process id, unless a file has that name.
fn look(
    subject: &Path,
    machine: &Machine,
    host: &HostContext,
    verdict: Option<hugetext_leaf::verdict::Verdict>,
) -> Result<SubjectMap, Failure> {
    let pid = subject.to_str().and_then(|text| text.parse().ok());
    match pid {
        Some(pid) if !subject.exists() => SubjectMap::of_process(pid, machine, host.leaf, verdict),
        _ => SubjectMap::of_file(subject, host),
    }
}

fn read_benchmarks(path: &Path) -> Result<BenchmarkFile, Failure> {
    let text = fs::read(path).map_err(|error| Failure::io(path, &error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::at(
            path,
            format_args!("not a result of hugetext bench: {error}"),
        )
        .remedy("make one with hugetext bench exec --json")
    })
}

fn render(template: &str, what: &impl Serialize) -> Result<String, Failure> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment
        .render_str(template, what)
        .map_err(|error| Failure::new("report", format_args!("{error:#}")))
}
