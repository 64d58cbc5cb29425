//! Instruction-TLB misses of a real program under several page layouts.
//!
//! The command runs twice. The native run shows how its text is mapped today, and reads the
//! processor's counters if it has any. The run under an emulator (QEMU or Valgrind) gives a stream
//! of executed pages to the models of lab/crates/tlb. A page is identified by its file and offset,
//! since emulators map the files at other addresses than the kernel.

mod counted;
#[cfg_attr(
    not(any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    path = "no_counters.rs"
)]
pub(crate) mod counters;
mod grid;
mod layouts;
mod report;

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hugetext_elf::Image;
use hugetext_engine::{Program, is_native, plain};
use hugetext_host::{Deadline, Instance, Pid, processor_time};
use hugetext_tlb::{Core, Emulator, EmulatorError, EmulatorKind, StreamError, Totals, replay};

pub(crate) use self::counted::Counted;
use self::counters::Counters;
use self::grid::Grid;

use self::layouts::ObservedProcess;
pub(crate) use self::report::{CoreMisses, EmulationTime, LayoutMisses, TlbReport};
use hugetext_bench::BenchError;
use hugetext_bench::Observer;

/// What to count, and how.
#[derive(Debug, Clone)]
pub(crate) struct TlbSettings {
    /// The cores to model; all if it is empty.
    pub(crate) cores: Vec<&'static Core>,
    /// Further variables of the command's environment.
    pub(crate) variables: Vec<(String, String)>,
    /// The emulator. By default it is QEMU if it loads plugins, and otherwise Valgrind, which runs
    /// programs of this machine only.
    pub(crate) emulator: Option<EmulatorKind>,
    /// The file that the command reads as its standard input. By default it has none.
    pub(crate) input: Option<PathBuf>,
    /// A run that takes longer than this many seconds is an error.
    pub(crate) timeout: u64,
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
}

/// A command, ready for both runs.
struct Subject<'a> {
    program: PathBuf,
    image: Image,
    settings: &'a TlbSettings,
}

/// The results of the native run.
struct Native {
    live: Result<ObservedProcess, String>,
    hardware: Counted,
}

impl TlbSettings {
    /// The default settings.
    pub(crate) fn usual(command: Vec<String>) -> TlbSettings {
        TlbSettings {
            cores: Vec::new(),
            variables: Vec::new(),
            emulator: None,
            input: None,
            timeout: 600,
            command,
        }
    }
}

/// Whether an emulator for this machine's own programs is available, or the reason that none is.
pub(crate) fn is_possible() -> Result<(), BenchError> {
    let found = Emulator::find(std::env::consts::ARCH);
    found.map(drop).map_err(|error| emulator_failure(&error))
}

/// Counts the instruction-TLB misses of a command under several page layouts.
pub(crate) fn bench_tlb(
    settings: &TlbSettings,
    observer: &dyn Observer,
) -> Result<TlbReport, BenchError> {
    let subject = Subject::new(settings)?;
    let emulator = subject.emulator()?;
    observer.begin("running", 0);
    let native = subject.run_native()?;
    observer.begin("emulating", 0);
    let report = subject.emulate(&emulator, native)?;
    observer.end();
    Ok(report)
}

impl<'a> Subject<'a> {
    fn new(settings: &'a TlbSettings) -> Result<Subject<'a>, BenchError> {
        let name = settings.command.first().map_or("", String::as_str);
        let program = which::which(name)
            .map_err(|_| BenchError::new(name, "no such command").remedy("give its path"))?;
        let image = Program::open(&program)
            .map_err(|error| BenchError::from(error).remedy("for a script, name its interpreter"))?
            .image;
        Ok(Subject {
            program,
            image,
            settings,
        })
    }

    fn name(&self) -> &str {
        self.settings.command.first().map_or("", String::as_str)
    }

    fn rest(&self) -> &[String] {
        self.settings.command.get(1..).unwrap_or_default()
    }

    fn emulator(&self) -> Result<Emulator, BenchError> {
        let architecture = self.image.machine.name().ok_or_else(|| {
            let problem = format!("no emulator is known for {:?}", self.image.machine);
            BenchError::at(&self.program, problem)
        })?;
        let found = match self.settings.emulator {
            Some(name) => Emulator::of_kind(name, architecture),
            None => Emulator::find(architecture),
        };
        found.map_err(|error| emulator_failure(&error))
    }

    /// The input from its beginning.
    fn input(&self) -> Result<Stdio, BenchError> {
        match &self.settings.input {
            Some(path) => Ok(File::open(path)
                .map_err(|error| BenchError::io(path, &error))?
                .into()),
            None => Ok(Stdio::null()),
        }
    }

    /// No output, and an environment that is the same for all users.
    fn prepare(&self, command: &mut Command, input: Stdio) {
        let kept = ["PATH", "HOME"];
        let kept = kept
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        command
            .env_clear()
            .envs(kept)
            .env("LC_ALL", "C")
            .env("TZ", "UTC");
        command.envs(
            self.settings
                .variables
                .iter()
                .map(|(name, value)| (name, value)),
        );
        command
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    fn run_native(&self) -> Result<Native, BenchError> {
        if !is_native(&self.image) {
            let reason = "it is a program of another architecture".to_owned();
            let hardware = Counted::Missing {
                reason: reason.clone(),
            };
            return Ok(Native {
                live: Err(reason),
                hardware,
            });
        }
        let counters = Counters::open();
        let mut command = Command::new(&self.program);
        command.args(self.rest());
        self.prepare(&mut command, self.input()?);
        let instance = match Instance::start(&mut command) {
            Ok(instance) => instance,
            Err(error) => {
                let live = Err(format!("running it under ptrace: {}", plain(&error)));
                let hardware = counters.map_or_else(|missing| missing, Counters::read);
                return Ok(Native { live, hardware });
            }
        };
        let deadline = self.deadline(instance.pid())?;
        let ended = instance.at_exit(ObservedProcess::look);
        self.in_time(deadline)?;
        let (live, status) = ended.map_err(|error| BenchError::new(self.name(), plain(&error)))?;
        self.succeeded(status, "")?;
        Ok(Native {
            live: live.unwrap_or_else(|| Err("it was gone before it could be seen".to_owned())),
            hardware: counters.map_or_else(|missing| missing, Counters::read),
        })
    }

    fn emulate(&self, emulator: &Emulator, native: Native) -> Result<TlbReport, BenchError> {
        let mut grid = Grid::new(self.cores(), native.live.is_ok());
        let (start, before) = (Instant::now(), processor_time());
        let totals = self.stream(emulator, &mut grid, native.live.as_ref().ok())?;
        Ok(TlbReport {
            argv: self.settings.command.clone(),
            emulator: emulator.to_string(),
            instructions: totals.instructions,
            page_changes: totals.page_changes,
            pages: totals.pages,
            files: grid.files,
            threads: totals.threads,
            layouts: grid.layouts(),
            folios_known: native.live.as_ref().is_ok_and(|live| live.folios_known),
            no_today: native.live.err(),
            cores: grid.reports(&totals),
            hardware: native.hardware,
            run: EmulationTime {
                wall: start.elapsed(),
                processor: processor_time() - before,
            },
        })
    }

    fn cores(&self) -> Vec<&'static Core> {
        match self.settings.cores.as_slice() {
            [] => Core::ALL.to_vec(),
            some => {
                let mut seen = HashSet::new();
                let cores = some.iter().filter(|core| seen.insert(core.name));
                cores.copied().collect()
            }
        }
    }

    /// Runs the command under the emulator, and its stream through the models.
    fn stream(
        &self,
        emulator: &Emulator,
        grid: &mut Grid,
        live: Option<&ObservedProcess>,
    ) -> Result<Totals, BenchError> {
        let input = self.input()?;
        let prepare = |command: &mut Command| self.prepare(command, input);
        let started = emulator.start(&self.program, self.rest(), prepare);
        let (mut child, stream) = started.map_err(|error| emulator_failure(&error))?;
        let deadline = self.deadline(Pid::of_child(&child))?;
        let (lanes, spaces) = (grid.lanes.clone(), grid.spaces());
        let totals = replay(stream, &lanes, spaces, |path| grid.add(path, live));
        if matches!(totals, Err(StreamError::Read(_) | StreamError::Damaged(_))) {
            // It has ended already, or ends now: there is nothing more to read from it.
            let _ = child.kill();
        }
        let status = child.wait();
        self.in_time(deadline)?;
        let status = status.map_err(|error| BenchError::new(self.name(), plain(&error)))?;
        self.succeeded(status, &format!(" under {}", emulator.kind()))?;
        totals.map_err(|error| BenchError::new(self.name(), error))
    }

    fn deadline(&self, pid: Pid) -> Result<Deadline, BenchError> {
        let limit = Duration::from_secs(self.settings.timeout);
        Deadline::new(pid, limit).map_err(|error| BenchError::new(self.name(), plain(&error)))
    }

    fn in_time(&self, deadline: Deadline) -> Result<(), BenchError> {
        if !deadline.missed() {
            return Ok(());
        }
        let problem = format!("did not end within {} s", self.settings.timeout);
        Err(BenchError::new(self.name(), problem).remedy("--timeout allows more"))
    }

    fn succeeded(&self, status: ExitStatus, how: &str) -> Result<(), BenchError> {
        if status.success() {
            return Ok(());
        }
        let problem = format!("failed{how} ({status})");
        Err(
            BenchError::new(self.name(), problem).remedy(match self.settings.input {
                Some(_) => "try it by itself with this input, or another --emulator",
                None => "try it by itself with no input, or another --emulator",
            }),
        )
    }
}

fn emulator_failure(error: &EmulatorError) -> BenchError {
    BenchError::new("bench tlb", error)
}
