//! The values that the template shows.

use hugetext_answer::today;
use hugetext_bench::BenchmarkFile;
use hugetext_host::Machine;
use serde::Serialize;

use super::map::SubjectMap;
use super::plot::Benchmark;
use crate::meaning::{self, Meaning, verdict_of};

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    version: &'static str,
    machine: String,
    /// When it was written.
    date: String,
    facts: Vec<(&'static str, String)>,
    /// What was found, by subject.
    results: Vec<(String, Meaning)>,
    maps: Vec<SubjectMap>,
    benchmarks: Vec<Measured>,
    commands: Vec<String>,
}

/// The results of one file.
#[derive(Debug, Serialize)]
struct Measured {
    machine: String,
    /// When it was measured; empty where the file does not say.
    date: String,
    benchmarks: Vec<Benchmark>,
}

impl Page {
    /// What was found first, which the command says too.
    pub(super) fn meaning(&self) -> Meaning {
        let first = self.results.first().map(|(_, meaning)| meaning.clone());
        first.unwrap_or_else(|| Meaning::new("Nothing was found.", "hugetext host"))
    }

    pub(super) fn new(
        machine: &Machine,
        maps: Vec<SubjectMap>,
        benchmarks: &[BenchmarkFile],
        command: String,
    ) -> Page {
        let leaf =
            |leaf: Option<hugetext_leaf::Leaf>| leaf.map_or("none".into(), |l| l.to_string());
        let facts = vec![
            ("Kernel", machine.release.clone()),
            (
                "Processor",
                machine
                    .processor
                    .clone()
                    .unwrap_or_else(|| machine.arch.to_owned()),
            ),
            ("Processors", machine.cpus.to_string()),
            ("Memory", crate::table::bytes(machine.memory)),
            ("Base page", machine.page.to_string()),
            ("PMD leaf", leaf(machine.pmd)),
            (
                "contpte block",
                leaf(machine.geometry.and_then(|geometry| geometry.contpte)),
            ),
            ("Transparent huge pages", machine.thp.to_string()),
        ];
        let mut commands = vec![command];
        commands.extend(benchmarks.iter().map(|file| file.invocation.clone()));
        let measured = benchmarks.iter().flat_map(|file| {
            let verdict = verdict_of(file.host.as_ref());
            let each = file.benchmarks.iter();
            each.map(move |one| {
                let title = format!("{}: {}", one.benchmark, one.title);
                (title, meaning::bench(one, &file.invocation, verdict))
            })
        });
        let looked = maps
            .iter()
            .map(|map| (map.title.clone(), map.meaning.clone()));
        let results = measured.chain(looked).collect();
        let benchmarks = benchmarks.iter().map(|file| Measured {
            machine: file.summary.clone(),
            date: file.date.clone().unwrap_or_default(),
            benchmarks: file.benchmarks.iter().map(Benchmark::new).collect(),
        });
        Page {
            date: today(),
            results,
            version: env!("CARGO_PKG_VERSION"),
            machine: machine.to_string(),
            facts,
            maps,
            benchmarks: benchmarks.collect(),
            commands,
        }
    }
}
