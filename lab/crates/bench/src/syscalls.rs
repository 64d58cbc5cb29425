//! Passes over text that is in use, with and without a system call before each. A processor may lose TLB
//! entries of text when it enters the kernel, and which it loses may depend on what maps the text. A program that makes
//! many system calls then runs slower with huge text.

use std::hint::black_box;
use std::path::PathBuf;

use hugetext_bench::quantity::{bytes, count};
use hugetext_bench::{
    BenchError, BenchStop, Bounds, Comparison, Interrupt, Measure, Observer, Rounds, Unit,
};
use hugetext_engine::HostContext;
use hugetext_host::scattered_lines;

use crate::stub_files::{StubFiles, values};

/// What to call, and how often.
#[derive(Debug, Clone)]
pub(crate) struct SyscallSettings {
    /// How many rounds.
    pub(crate) rounds: Rounds,
    /// Base pages of text in use: each is called once in a pass.
    pub(crate) pages: u32,
    /// Passes in a round.
    pub(crate) passes: u32,
    /// The directory for the files, which have no name and leave nothing behind; by default that for
    /// temporary files.
    pub(crate) directory: Option<PathBuf>,
    /// The benchmark ends with an error after this many seconds.
    pub(crate) timeout: u64,
}

impl SyscallSettings {
    /// The default settings.
    pub(crate) fn usual(quick: bool) -> SyscallSettings {
        SyscallSettings {
            rounds: Rounds::usual(quick),
            pages: 256,
            passes: if quick { 10 } else { 1000 },
            directory: None,
            timeout: 600,
        }
    }
}

/// Times passes without and with a system call.
pub(crate) fn bench_syscalls(
    settings: &SyscallSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let bounds = interrupt.within(settings.timeout);
    let host = HostContext::with_huge_pages()?;
    observer.begin("rounds", u64::from(settings.rounds.count));
    observer.say("writing the files");
    let size = u64::from(settings.pages).saturating_mul(host.page.bytes());
    let files = StubFiles::make(settings.directory.as_ref(), size, "--pages", &host, &bounds)?;
    observer.say("");
    let times = measure(settings, &files, &bounds, observer);
    observer.end();
    Ok(vec![comparison(settings, &files, &times?)])
}

/// What one side took in one round.
struct Passes {
    /// Seconds of the passes.
    alone: f64,
    /// Seconds of the passes and of the system calls before them.
    after: f64,
    /// Bytes mapped by huge leaves.
    huge: f64,
}

fn measure(
    settings: &SyscallSettings,
    files: &StubFiles,
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Result<Vec<Vec<Passes>>, BenchError> {
    let lines = scattered_lines(settings.pages, files.page);
    let call = || {
        black_box(std::os::unix::process::parent_id());
    };
    files.in_rounds(settings.rounds, bounds, observer, |stubs| {
        stubs.call(0..settings.pages);
        Ok(Passes {
            huge: stubs.pmd_mapped()? as f64,
            alone: stubs.passes(settings.passes, &lines, &|| {}).as_secs_f64(),
            after: stubs.passes(settings.passes, &lines, &call).as_secs_f64(),
        })
    })
}

fn comparison(settings: &SyscallSettings, files: &StubFiles, times: &[Vec<Passes>]) -> Comparison {
    let text = bytes(u64::from(settings.pages).saturating_mul(files.page.bytes()));
    let values = |of: fn(&Passes) -> f64| values(times, of);
    let measures = [
        Measure::new(
            "passes after system calls",
            Unit::Seconds,
            values(|passes| passes.after),
        ),
        Measure::new("passes alone", Unit::Seconds, values(|passes| passes.alone)),
        Measure::new(
            "mapped by huge leaves",
            Unit::Bytes,
            values(|passes| passes.huge),
        ),
    ];
    Comparison {
        benchmark: "syscalls".to_owned(),
        title: format!(
            "{} passes over {text} of text, a call into each page, without and with a system call before each, {}",
            settings.passes,
            count(settings.rounds.count, "round")
        ),
        sides: files.described(),
        measures: measures.into_iter().flatten().collect(),
        notes: files.notes.clone(),
        measured: None,
    }
}
