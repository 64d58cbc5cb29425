//! An earlier build of the command beside this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_bench::{Estimate, Interval, Measure, Unit};
use hugetext_host::Usage;

use super::{cc1, cells, empty_program, fact, hugetext, interleaved, milliseconds, quiet, seconds};

/// The words after the program, for a build with this directory of its own.
type Words = Box<dyn Fn(&Path) -> Vec<PathBuf>>;

/// A command line that both builds understand.
struct Job {
    name: &'static str,
    rounds: usize,
    arguments: Words,
}

impl Job {
    fn new(
        name: &'static str,
        rounds: usize,
        arguments: impl Fn(&Path) -> Vec<PathBuf> + 'static,
    ) -> Job {
        Job {
            name,
            rounds,
            arguments: Box::new(arguments),
        }
    }
}

/// Prints the figures of both builds.
pub(super) fn compare(before: &Path, root: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let own = ["before", "now"].map(|name| directory.path().join(name));
    for directory in &own {
        std::fs::create_dir(directory).unwrap();
    }
    fact("earlier", version(before));
    for job in jobs(&empty_program(directory.path()), root) {
        let command = |program: &Path, own: &Path| {
            let mut command = Command::new(program);
            command.args((job.arguments)(own));
            command
        };
        let now = PathBuf::from(hugetext().get_program());
        let answers = [(before, &own[0]), (&now, &own[1])].map(|(program, own)| {
            let output = command(program, own).output();
            output.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
        });
        let [old, new] = answers.each_ref().map(|answer| answer.status.code());
        assert!(old == new && new != Some(2), "{}: {answers:?}", job.name);
        let [before_runs, now_runs] = interleaved(
            job.rounds,
            [&mut || quiet(&mut command(before, &own[0])), &mut || {
                quiet(&mut command(&now, &own[1]))
            }],
        );
        row(&job, &before_runs, &now_runs);
    }
}

fn jobs(empty: &Path, root: &Path) -> [Job; 6] {
    let words = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
    let (empty, cc1, root) = (empty.to_owned(), cc1(), root.to_owned());
    let (warmed, started) = (cc1.clone(), cc1.clone());
    [
        Job::new("check-small", 400, move |_| {
            [words(&["check"]), vec![empty.clone()]].concat()
        }),
        Job::new("check-compiler", 100, move |_| {
            [words(&["check"]), vec![cc1.clone()]].concat()
        }),
        // Firmware below /usr/share is an error to both builds, and so no speed.
        Job::new("check-recursive", 15, move |_| {
            [
                words(&["check", "--json", "--recursive"]),
                vec![root.join("bin")],
            ]
            .concat()
        }),
        Job::new("fix", 30, move |own| {
            let file = PathBuf::from(hugetext().get_program());
            let output = vec![file, "-o".into(), own.join("fixed")];
            [words(&["fix"]), output].concat()
        }),
        Job::new("warm", 100, move |_| {
            [words(&["warm"]), vec![warmed.clone()]].concat()
        }),
        Job::new("run", 100, move |own| {
            let store = vec![own.join("store"), "--".into(), started.clone()];
            [words(&["run", "--store"]), store, words(&["--version"])].concat()
        }),
    ]
}

fn row(job: &Job, before: &[Usage], now: &[Usage]) {
    let sides = [before, now].map(|runs| runs.iter().map(seconds).collect());
    let measure = Measure::new(job.name, Unit::Seconds, sides.to_vec()).unwrap();
    let [before, now] = [0, 1].map(|side| milliseconds(&measure.values[side].estimate));
    let ratio = match measure.values[1].ratio {
        Some(Estimate {
            median,
            interval: Some(Interval { low, high }),
        }) => format!("{median:.3} ({low:.3} to {high:.3})"),
        Some(Estimate { median, .. }) => format!("{median:.3}"),
        None => "-".to_owned(),
    };
    let rounds = job.rounds.to_string();
    cells("before", [job.name, &rounds, &before, &now, &ratio]);
}

/// What an earlier build calls itself.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
