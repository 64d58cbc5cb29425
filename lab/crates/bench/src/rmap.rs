//! Measures what contention on the `i_mmap` locks of a few files costs an
//! exec storm.
//!
//! Every mapping of a file is inserted into its inode's `i_mmap` tree and removed from it under one
//! lock. A storm of small dynamic programs takes the locks of libc, ld.so and the program several
//! times for each exec. Fewer mappings (merged files) and more inodes (replicas) are remedies that
//! work on an unchanged kernel.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hugetext_elf::{MovedText, Options, Strategy, plan};
use hugetext_engine::{Program, plain, rewrite_into};
use hugetext_host::{Deadline, Instance, Machine, file_mappings, run_measured};
use hugetext_leaf::Leaf;
use hugetext_loader::{Environment, Object, Role, closure};

use hugetext_bench::BenchError;
use hugetext_bench::BenchStop;
use hugetext_bench::Interrupt;
use hugetext_bench::Observer;
use hugetext_bench::Rounds;
use hugetext_bench::quantity::count;
use hugetext_bench::{Comparison, Measure, Side, Unit};
use hugetext_bench::{directory, has_room};

/// What to start, and how often.
#[derive(Debug, Clone)]
pub(crate) struct RmapSettings {
    /// How many rounds.
    pub(crate) rounds: Rounds,
    /// Starts by each worker in a round.
    pub(crate) per_round: u32,
    /// The largest number of workers, by default that of processors; 1, 2, 4 and so on up to it
    /// are measured.
    pub(crate) workers: Option<u32>,
    /// Numbers of copies to measure; one copy for each worker if empty.
    pub(crate) replicas: Vec<u32>,
    /// The program, run without arguments.
    pub(crate) program: PathBuf,
    /// The directory for the files, which are removed afterwards; by default that for temporary
    /// files.
    pub(crate) directory: Option<PathBuf>,
    /// A start is killed after this many seconds.
    pub(crate) timeout: u64,
}

impl RmapSettings {
    /// The default settings.
    pub(crate) fn usual(quick: bool) -> RmapSettings {
        RmapSettings {
            rounds: Rounds::usual(quick),
            per_round: if quick { 5 } else { 200 },
            workers: None,
            replicas: Vec::new(),
            program: PathBuf::from("/bin/true"),
            directory: None,
            timeout: 60,
        }
    }
}

impl RmapSettings {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// One way to lay out the program's files.
struct Layout {
    side: Side,
    /// The command of each group of workers.
    groups: Vec<Vec<OsString>>,
}

/// Times starts of a program by many workers at once.
pub(crate) fn bench_rmap(
    settings: &RmapSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let machine = Machine::this();
    let most = settings
        .workers
        .map_or(machine.cpus, |workers| workers as usize);
    let place = directory(settings.directory.as_ref());
    let directory = tempfile::Builder::new()
        .prefix("hugetext-")
        .tempdir_in(&place);
    let directory = directory.map_err(|error| BenchError::io(&place, &error))?;
    let layouts = layouts(settings, directory.path(), most, machine.page)?;

    let counts = worker_counts(most);
    observer.begin("rounds", u64::from(settings.rounds.count));
    // rates[count][layout]: starts per second, one value per round.
    let mut rates = vec![vec![Vec::new(); layouts.len()]; counts.len()];
    for order in settings.rounds.orders(layouts.len()) {
        for index in order {
            let Some(layout) = layouts.get(index) else {
                continue;
            };
            for (workers, rates) in counts.iter().zip(&mut rates) {
                interrupt.check()?;
                let rate = layout.storm(*workers, settings, interrupt)?;
                if let Some(rates) = rates.get_mut(index) {
                    rates.push(rate);
                }
            }
        }
        observer.step();
    }
    observer.end();
    Ok(vec![comparison(settings, layouts, &counts, rates)?])
}

/// 1, 2, 4 and so on, and the maximum.
fn worker_counts(most: usize) -> Vec<usize> {
    let doubling = std::iter::successors(Some(1usize), |count| count.checked_mul(2));
    doubling
        .take_while(|count| *count < most)
        .chain([most.max(1)])
        .collect()
}

impl Layout {
    /// Starts per second by `workers` at once.
    fn storm(
        &self,
        workers: usize,
        settings: &RmapSettings,
        interrupt: &Interrupt,
    ) -> Result<f64, BenchError> {
        let starts = settings.per_round;
        let ready = Barrier::new(workers + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|worker| {
                    let words = self.groups.get(worker % self.groups.len().max(1));
                    let ready = &ready;
                    scope.spawn(move || {
                        ready.wait();
                        (0..starts).try_for_each(|_| {
                            let ended = start(words, settings.limit());
                            // Ctrl-C ends the program too.
                            interrupt.check().and(ended)
                        })
                    })
                })
                .collect();
            ready.wait();
            let begin = Instant::now();
            for thread in threads {
                let ended = thread.join();
                ended.map_err(|_| BenchError::new(&self.side.name, "a worker failed"))??;
            }
            Ok(workers as f64 * f64::from(starts) / begin.elapsed().as_secs_f64())
        })
    }

    /// The number of file mappings that one start makes; `None` if ptrace is not permitted.
    fn mappings(&self, limit: Duration) -> Option<f64> {
        let mut command = command(self.groups.first())?;
        let instance = Instance::start(&mut command).ok()?;
        let deadline = Deadline::new(instance.pid(), limit).ok()?;
        let seen = instance.at_exit(|pid| file_mappings(pid).ok()).ok()?.0;
        deadline.missed();
        seen.flatten().map(|count| count as f64)
    }
}

fn command(words: Option<&Vec<OsString>>) -> Option<Command> {
    let (program, arguments) = words?.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Some(command)
}

fn start(words: Option<&Vec<OsString>>, limit: Duration) -> Result<(), BenchError> {
    let Some(mut command) = command(words) else {
        return Ok(());
    };
    let name = command.get_program().to_owned();
    let failed = |problem: String| BenchError::at(Path::new(&name), problem);
    match run_measured(&mut command, limit) {
        Ok((_, status)) if status.success() => Ok(()),
        Ok((_, status)) => Err(failed(format!("the program failed: {status}"))),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let problem = format!("still running after {} s", limit.as_secs());
            Err(failed(problem).remedy("raise --timeout"))
        }
        Err(error) => Err(failed(plain(&error))),
    }
}

fn comparison(
    settings: &RmapSettings,
    layouts: Vec<Layout>,
    counts: &[usize],
    rates: Vec<Vec<Vec<f64>>>,
) -> Result<Comparison, BenchError> {
    let mut measures: Vec<Measure> = Vec::new();
    if let (Some(one), Some(all), Some(most)) = (rates.first(), rates.last(), counts.last())
        && *most > 1
    {
        let over = |(all, one): (&Vec<f64>, &Vec<f64>)| {
            let pairs = all.iter().zip(one);
            pairs.map(|(all, one)| all / one).collect()
        };
        let scaling = all.iter().zip(one).map(over).collect();
        measures.extend(Measure::new(
            format!("scaling to {most} workers"),
            Unit::Factor,
            scaling,
        ));
    }
    for (workers, rates) in counts.iter().zip(rates).rev() {
        let name = count(*workers, "worker");
        measures.insert(
            0,
            Measure::new(name, Unit::PerSecond, rates)
                .ok_or_else(|| BenchError::new("rmap", "no round was measured"))?,
        );
    }
    let mappings = layouts
        .iter()
        .map(|layout| Some(vec![layout.mappings(settings.limit())?]));
    if let Some(mappings) = mappings.collect::<Option<Vec<_>>>() {
        measures.extend(Measure::new("file mappings", Unit::Count, mappings));
    }
    let mut notes = Vec::new();
    if counts.last().is_none_or(|most| *most < 16) {
        notes.push("contention on the lock is small below dozens of processors".to_owned());
    }
    Ok(Comparison {
        benchmark: "rmap".to_owned(),
        title: format!(
            "starts of {} through its own loader, {} by each worker, {}",
            settings.program.display(),
            settings.per_round,
            count(settings.rounds.count, "round")
        ),
        sides: layouts.into_iter().map(|layout| layout.side).collect(),
        measures,
        notes,
        measured: None,
    })
}

/// The layouts: the files unchanged, merged, and copies of the loader and libraries, one for each
/// worker or as many as were asked for. The loader starts all of them in the same way, so that no path on the machine has to
/// change.
fn layouts(
    settings: &RmapSettings,
    directory: &Path,
    workers: usize,
    page: Leaf,
) -> Result<Vec<Layout>, BenchError> {
    let program = settings.program.as_path();
    let asked = settings.replicas.iter().max().copied();
    let most_copies = asked.map_or(workers, |most| most as usize);
    let closure = closure(program, &Environment::current())
        .map_err(|error| BenchError::at(program, error))?;
    let files: Vec<&Object> = closure
        .objects
        .iter()
        .filter(|object| matches!(object.role, Role::Interpreter | Role::Library))
        .collect();
    let loader = files.iter().find(|object| object.role == Role::Interpreter);
    let loader = &loader
        .ok_or_else(|| {
            BenchError::at(program, "not dynamically linked")
                .remedy("choose another with --program")
        })?
        .path;
    let layout = |name: &str, state: String, groups| Layout {
        side: Side {
            name: name.to_owned(),
            state,
        },
        groups,
    };
    let mut directories: Vec<&Path> = files.iter().filter_map(|file| file.path.parent()).collect();
    directories.dedup();
    let search =
        std::env::join_paths(directories).map_err(|error| BenchError::at(program, error))?;
    let stock = through(loader, search, program);

    let sizes = files.iter().map(|file| fs::metadata(&file.path));
    let sizes: Vec<u64> = sizes.flatten().map(|metadata| metadata.len()).collect();
    let copies = most_copies as u64 + 2;
    has_room(directory, sizes.iter().sum::<u64>().saturating_mul(copies))?;

    let merged = directory.join("merged");
    let mut merges = 0;
    for path in files
        .iter()
        .map(|file| file.path.as_path())
        .chain([program])
    {
        merges += u32::from(merge(path, &merged, page)?);
    }
    let own = |directory: &Path, program: &Path| {
        let name = loader.file_name().unwrap_or_default();
        through(
            &directory.join(name),
            directory.as_os_str().to_owned(),
            program,
        )
    };
    let merged_program = merged.join(program.file_name().unwrap_or_default());
    let mut replicas = Vec::new();
    for number in 0..most_copies {
        let replica = directory.join(format!("replica-{number}"));
        for file in &files {
            copy(&file.path, &replica)?;
        }
        replicas.push(own(&replica, program));
    }
    let shared = count(files.len(), "shared file");
    let own_files = count(files.len(), "file");
    let mut layouts = vec![
        layout("stock", format!("{shared} and the program"), vec![stock]),
        layout(
            "merged",
            format!(
                "{merges} of {} with R, RX and R in one mapping",
                count(files.len() + 1, "file")
            ),
            vec![own(&merged, &merged_program)],
        ),
    ];
    if settings.replicas.is_empty() {
        let state = format!("{own_files} of its own for each worker");
        layouts.push(layout("replicas", state, replicas));
        return Ok(layouts);
    }
    for number in &settings.replicas {
        let own = replicas.iter().take(*number as usize).cloned();
        let state = format!("{own_files}, {number} times, used by the workers in turn");
        let name = count(*number, "replica");
        layouts.push(layout(&name, state, own.collect()));
    }
    Ok(layouts)
}

/// The program, started by its loader.
fn through(loader: &Path, search: OsString, program: &Path) -> Vec<OsString> {
    vec![
        loader.into(),
        "--library-path".into(),
        search,
        program.into(),
    ]
}

fn copy(path: &Path, directory: &Path) -> Result<PathBuf, BenchError> {
    let to = directory.join(path.file_name().unwrap_or_default());
    fs::create_dir_all(directory)
        .and_then(|()| fs::copy(path, &to))
        .map_err(|error| BenchError::io(&to, &error))?;
    Ok(to)
}

/// A copy with its read-only segments in one mapping. Returns whether the layout allowed that.
/// Leaves do not matter here, so the windows are base pages.
fn merge(path: &Path, directory: &Path, page: Leaf) -> Result<bool, BenchError> {
    let program = Program::open(path)?;
    let options = Options {
        leaf: page,
        page,
        extend_tail: false,
        moved: MovedText::Nearest,
    };
    let to = copy(path, directory)?;
    let Ok(plan) = plan(&program.file, &program.image, Strategy::Merge, &options) else {
        return Ok(false);
    };
    let failed = |error| BenchError::io(&to, &error);
    // The copy is a new file, so it keeps its content if the rewriting is refused.
    let new = directory.join(".new");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&new);
    if rewrite_into(&file.map_err(failed)?, &new, &program, &plan).is_err() {
        fs::remove_file(&new).map_err(failed)?;
        return Ok(false);
    }
    fs::set_permissions(&new, Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&new, &to))
        .map_err(failed)?;
    Ok(true)
}
