//! Real work: compilers, interpreters and databases on inputs that packages bring.
//!
//! A workload is a shell script in loads/work. It is given a directory, prepares its input there, and
//! prints lines: a title, the file whose text is measured, and the words of the command. If a package is
//! missing, it names the package on stderr and ends with 3.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::comparison::{Comparison, Measured};
use crate::error::{BenchError, BenchStop};
use crate::exec::{ExecSettings, Job, Rival, Starts, Subject};
use crate::interrupt::Interrupt;
use crate::observer::Observer;
use crate::rounds::{PerRound, Rounds};

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    script: &'static str,
}

macro_rules! workloads {
    ($($name:literal)*) => {
        &[$(Workload { name: $name, script: include_str!(concat!("../loads/work/", $name, ".sh")) }),*]
    };
}

/// All of them, compilers first.
pub const WORKLOADS: &[Workload] = workloads![
    "gcc-c" "gcc-cxx" "clang-cxx" "rustc" "kernel-gcc" "kernel-clang" "mold" "node" "python" "php" "javac" "java" "git"
    "postgres" "pgbench-one" "pgbench-many" "mariadb" "sysbench" "redis" "nginx"
];

/// What several scripts use, by its name in their directory.
const SHARED: &[(&str, &str)] = &[
    ("cluster", include_str!("../loads/work/cluster")),
    ("json.cpp", include_str!("../loads/work/json.cpp")),
    ("kernel", include_str!("../loads/work/kernel")),
    ("pgbench", include_str!("../loads/work/pgbench")),
];

/// The exit status of a script whose packages are missing.
const MISSING: i32 = 3;

/// Which work to do, and how often.
#[derive(Debug, Clone)]
pub struct WorkSettings {
    /// How many rounds.
    pub rounds: Rounds,
    /// Runs of each side per round.
    pub per_round: u32,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The directory for inputs and copies, which are removed afterwards; by default that for temporary
    /// files.
    pub directory: Option<PathBuf>,
    /// A run is killed after this many seconds.
    pub timeout: u64,
    /// Other ways to huge text, measured beside this project's.
    pub rivals: Vec<Rival>,
}

/// Does real work with its text in small folios and in huge ones, unchanged and rewritten. What cannot be
/// prepared is left out, with the reason. The answer is no if all is left out.
pub fn bench_work(
    settings: &WorkSettings,
    interrupt: &Interrupt,
    observer: &dyn Observer,
) -> Result<Vec<Comparison>, BenchStop> {
    let exec = ExecSettings {
        rounds: settings.rounds,
        per_round: PerRound::Runs(settings.per_round),
        directory: settings.directory.clone(),
        timeout: settings.timeout,
        rivals: settings.rivals.clone(),
        ..ExecSettings::usual(false)
    };
    let starts = Starts::new(&exec, interrupt, observer)?;
    let mut comparisons = Vec::new();
    let mut left_out = None;
    for workload in &settings.workloads {
        observer.say(workload.name);
        match workload.measure(&starts, settings) {
            Ok(comparison) => comparisons.push(comparison),
            Err(BenchStop::No(why) | BenchStop::Error(why)) => {
                interrupt.check()?;
                observer.left_out(&why);
                left_out = Some(why);
            }
        }
    }
    match left_out {
        Some(why) if comparisons.is_empty() => Err(BenchStop::No(why)),
        _ => Ok(comparisons),
    }
}

impl Workload {
    fn measure(
        self,
        starts: &Starts<'_>,
        settings: &WorkSettings,
    ) -> Result<Comparison, BenchStop> {
        let directory = crate::disk::directory(settings.directory.as_ref());
        let directory = tempfile::Builder::new()
            .prefix("hugetext-work-")
            .tempdir_in(&directory)
            .map_err(|error| BenchError::io(&directory, &error))?;
        let job = self.prepare(directory.path())?;
        let comparison = starts.measure(&job, Subject::ItselfUnlessInUse, false)?;
        Ok(Comparison {
            benchmark: format!("work {}", self.name),
            measured: Some(Measured::Work {
                program: job.program,
            }),
            ..comparison
        })
    }

    fn prepare(self, directory: &Path) -> Result<Job, BenchError> {
        let script = directory.join("prepare.sh");
        let failed = |error| BenchError::io(&script, &error);
        fs::write(&script, self.script).map_err(failed)?;
        for (name, text) in SHARED {
            fs::write(directory.join(name), text).map_err(failed)?;
        }
        // A server may run as another user.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let output = Command::new("/bin/sh")
            .arg(&script)
            .arg(directory)
            .stdin(Stdio::null())
            .output()
            .map_err(failed)?;
        self.job(output)
    }

    fn job(self, output: Output) -> Result<Job, BenchError> {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("no reason given");
        if output.status.code() == Some(MISSING) {
            let missing = BenchError::new(self.name, "what it needs is not installed");
            return Err(missing.remedy(format_args!("install {said}")));
        }
        if !output.status.success() {
            return Err(BenchError::new(
                self.name,
                format_args!("preparing failed: {said}"),
            ));
        }
        let mut lines = output.stdout.split(|byte| *byte == b'\n');
        let title = lines.next().map(String::from_utf8_lossy);
        let program = lines.next().map(<[u8]>::to_vec);
        let mut command: Vec<OsString> = lines
            .map(|line| OsString::from_vec(line.to_vec()))
            .collect();
        // The last line ends with a line feed, too.
        command.pop_if(|word| word.is_empty());
        match (title, program) {
            (Some(title), Some(program)) if !command.is_empty() => Ok(Job {
                title: title.into_owned(),
                program: OsString::from_vec(program).into(),
                command,
                note: None,
            }),
            _ => Err(BenchError::new(self.name, "its script names no command")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn a_script_names_a_command_or_what_is_missing() {
        let work = WORKLOADS[0];
        let job = work
            .job(output(0, "Title\n/usr/bin/x\nx\n-o\n\nlast\n", ""))
            .unwrap();
        assert_eq!((job.title.as_str(), job.command.len()), ("Title", 4));
        let missing = work.job(output(3, "", "php-cli\n")).err().unwrap();
        assert_eq!(missing.advice.as_deref(), Some("install php-cli"));
        assert!(work.job(output(0, "Title\n/usr/bin/x\n", "")).is_err());
        assert!(work.job(output(1, "", "no space\n")).is_err());
    }
}
