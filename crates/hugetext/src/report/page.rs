//! The values that the template shows.

use hugetext_bench::BenchmarkFile;
use hugetext_host::Machine;
use serde::Serialize;

use super::map::SubjectMap;
use super::plot::Benchmark;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    version: &'static str,
    machine: String,
    facts: Vec<(&'static str, String)>,
    maps: Vec<SubjectMap>,
    benchmarks: Vec<(String, Vec<Benchmark>)>,
    commands: Vec<String>,
}

impl Page {
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
        let benchmarks = benchmarks.iter().map(|file| {
            let shown = file.benchmarks.iter().map(Benchmark::new).collect();
            (file.summary.clone(), shown)
        });
        Page {
            version: env!("CARGO_PKG_VERSION"),
            machine: machine.to_string(),
            facts,
            maps,
            benchmarks: benchmarks.collect(),
            commands,
        }
    }
}
