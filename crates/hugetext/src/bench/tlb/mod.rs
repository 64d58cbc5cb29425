//! `hugetext bench tlb`: instruction-TLB misses of a real program under several page layouts.
//!
//! The command runs twice. The native run shows how its text is mapped today, and reads the
//! processor's counters if it has any. The run under an emulator (QEMU or Valgrind) gives a stream
//! of executed pages to the models of crates/tlb. A page is identified by its file and offset,
//! since emulators map the files at other addresses than the kernel.

mod counters;
mod grid;
mod layouts;
mod report;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hugetext_elf::{Image, Machine};
use hugetext_host::{Deadline, Instance, processor_time};
use hugetext_tlb::{Core, Emulator, EmulatorError, Kind, StreamError, Totals, replay};

use self::counters::{Counted, Counters};
use self::grid::Grid;
use self::layouts::Live;
use self::report::{Document, Report, Run};
use super::Comparison;
use crate::Verdict;
use crate::failure::{Failure, plain};
use crate::output::{Output, command_line};
use crate::program::{Program, is_native};

/// Count the instruction-TLB misses of a command under several page layouts
///
/// The command runs once natively and once under an emulator. It has no input, its output is
/// discarded, and its environment holds PATH, HOME, LC_ALL=C and TZ=UTC, so that the same binaries
/// and arguments give the same counts. The emulator is QEMU's user mode if it loads plugins (Debian
/// 12: qemu-user). Otherwise, as on Debian 13, it is Valgrind (packages valgrind and gcc), which is
/// slower. The output names the emulator. Only the process itself is counted, not the programs that
/// it executes: name the compiler proper (cc1), not its driver. Every thread has its own processor,
/// with cold TLBs at its start.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Model this core only (repeatable): zen4, zen5, golden-cove, neoverse-v2, cortex-a53,
    /// cortex-a72
    #[arg(long = "core", value_name = "NAME", value_parser = core_named)]
    cores: Vec<&'static Core>,
    /// Add a variable to the command's environment (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Use this emulator only; Valgrind runs programs of this machine only [default: qemu if it
    /// loads plugins, otherwise valgrind]
    #[arg(long, value_name = "NAME", value_enum)]
    emulator: Option<EmulatorName>,
    /// Stop with an error if a run takes longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The emulators, by their names on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EmulatorName {
    Qemu,
    Valgrind,
}

impl From<EmulatorName> for Kind {
    fn from(name: EmulatorName) -> Kind {
        match name {
            EmulatorName::Qemu => Kind::Qemu,
            EmulatorName::Valgrind => Kind::Valgrind,
        }
    }
}

fn core_named(name: &str) -> Result<&'static Core, String> {
    let names: Vec<&str> = Core::ALL.iter().map(|core| core.name).collect();
    Core::named(name).ok_or_else(|| format!("the known cores are {}", names.join(", ")))
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A command, ready for both runs.
struct Subject<'a> {
    program: PathBuf,
    image: Image,
    arguments: &'a Arguments,
}

/// The results of the native run.
struct Native {
    live: Result<Live, String>,
    hardware: Counted,
}

impl Arguments {
    /// The default settings.
    pub(super) fn usual(command: Vec<String>) -> Arguments {
        Arguments {
            cores: Vec::new(),
            variables: Vec::new(),
            emulator: None,
            timeout: 600,
            command,
        }
    }
}

/// Runs `hugetext bench tlb`.
pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let report = count(arguments, output)?;
    let document = Document {
        summary: hugetext_host::Machine::this().to_string(),
        invocation: command_line(),
        benchmarks: vec![report.comparison()],
        report,
    };
    let shows = |document: &Document| document.report.show(output.verbose());
    output.result("bench tlb", &document, shows)?;
    Ok(Verdict::Done)
}

/// The counts as a comparison of layouts.
pub(super) fn compare(arguments: &Arguments, output: &Output) -> Result<Comparison, Failure> {
    Ok(count(arguments, output)?.comparison())
}

/// Whether an emulator for this machine's own programs is available, or the reason that none is.
pub(super) fn is_possible() -> Result<(), Failure> {
    let found = Emulator::find(std::env::consts::ARCH);
    found.map(drop).map_err(|error| emulator_failure(&error))
}

fn count(arguments: &Arguments, output: &Output) -> Result<Report, Failure> {
    let subject = Subject::new(arguments)?;
    let emulator = subject.emulator()?;
    let bar = output.progress("running", 0);
    bar.enable_steady_tick(Duration::from_millis(100));
    let native = subject.run_native()?;
    bar.set_prefix("emulating");
    let report = subject.emulate(&emulator, native)?;
    bar.finish_and_clear();
    Ok(report)
}

impl<'a> Subject<'a> {
    fn new(arguments: &'a Arguments) -> Result<Subject<'a>, Failure> {
        let name = arguments.command.first().map_or("", String::as_str);
        let program = which::which(name)
            .map_err(|_| Failure::new(name, "no such command").remedy("give its path"))?;
        let image = Program::open(&program)
            .map_err(|failure| failure.remedy("for a script, name its interpreter"))?
            .image;
        Ok(Subject {
            program,
            image,
            arguments,
        })
    }

    fn name(&self) -> &str {
        self.arguments.command.first().map_or("", String::as_str)
    }

    fn rest(&self) -> &[String] {
        self.arguments.command.get(1..).unwrap_or_default()
    }

    fn emulator(&self) -> Result<Emulator, Failure> {
        let architecture = match self.image.machine {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
            Machine::Riscv64 => "riscv64",
            Machine::LoongArch64 => "loongarch64",
            Machine::Other(number) => {
                let problem = format!("no emulator is known for e_machine {number}");
                return Err(Failure::at(&self.program, problem));
            }
        };
        let found = match self.arguments.emulator {
            Some(name) => Emulator::of_kind(name.into(), architecture),
            None => Emulator::find(architecture),
        };
        found.map_err(|error| emulator_failure(&error))
    }

    /// No input, no output, and an environment that is the same for all users.
    fn prepare(&self, command: &mut Command) {
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
            self.arguments
                .variables
                .iter()
                .map(|(name, value)| (name, value)),
        );
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    fn run_native(&self) -> Result<Native, Failure> {
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
        self.prepare(&mut command);
        let instance = match Instance::start(&mut command) {
            Ok(instance) => instance,
            Err(error) => {
                let live = Err(format!("running it under ptrace: {}", plain(&error)));
                let hardware = counters.map_or_else(|missing| missing, Counters::read);
                return Ok(Native { live, hardware });
            }
        };
        let deadline = self.deadline(instance.pid().unsigned_abs())?;
        let ended = instance.at_exit(Live::look);
        self.in_time(deadline)?;
        let (live, status) = ended.map_err(|error| Failure::new(self.name(), plain(&error)))?;
        self.succeeded(status, "")?;
        Ok(Native {
            live: live.unwrap_or_else(|| Err("it was gone before it could be seen".to_owned())),
            hardware: counters.map_or_else(|missing| missing, Counters::read),
        })
    }

    fn emulate(&self, emulator: &Emulator, native: Native) -> Result<Report, Failure> {
        let mut grid = Grid::new(self.cores(), native.live.is_ok());
        let (start, before) = (Instant::now(), processor_time());
        let totals = self.stream(emulator, &mut grid, native.live.as_ref().ok())?;
        Ok(Report {
            argv: self.arguments.command.clone(),
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
            run: Run {
                seconds: start.elapsed().as_secs_f64(),
                processor_seconds: (processor_time() - before).as_secs_f64(),
            },
        })
    }

    fn cores(&self) -> Vec<&'static Core> {
        match self.arguments.cores.as_slice() {
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
        live: Option<&Live>,
    ) -> Result<Totals, Failure> {
        let started = emulator.start(&self.program, self.rest(), |command| self.prepare(command));
        let (mut child, stream) = started.map_err(|error| emulator_failure(&error))?;
        let deadline = self.deadline(child.id())?;
        let (lanes, spaces) = (grid.lanes.clone(), grid.spaces());
        let totals = replay(stream, &lanes, spaces, |path| grid.add(path, live));
        if matches!(totals, Err(StreamError::Read(_) | StreamError::Damaged(_))) {
            // It has ended already, or ends now: there is nothing more to read from it.
            let _ = child.kill();
        }
        let status = child.wait();
        self.in_time(deadline)?;
        let status = status.map_err(|error| Failure::new(self.name(), plain(&error)))?;
        self.succeeded(status, &format!(" under {}", emulator.kind()))?;
        totals.map_err(|error| Failure::new(self.name(), error))
    }

    fn deadline(&self, pid: u32) -> Result<Deadline, Failure> {
        let limit = Duration::from_secs(self.arguments.timeout);
        Deadline::new(pid, limit).map_err(|error| Failure::new(self.name(), plain(&error)))
    }

    fn in_time(&self, deadline: Deadline) -> Result<(), Failure> {
        if !deadline.missed() {
            return Ok(());
        }
        let problem = format!("did not end within {} s", self.arguments.timeout);
        Err(Failure::new(self.name(), problem).remedy("--timeout allows more"))
    }

    fn succeeded(&self, status: ExitStatus, how: &str) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        let problem = format!("failed{how} ({status})");
        Err(Failure::new(self.name(), problem).remedy("try it by itself, with no input"))
    }
}

fn emulator_failure(error: &EmulatorError) -> Failure {
    Failure::new("bench tlb", error)
}
