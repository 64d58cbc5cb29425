//! `hugetext host`: whether huge text is worth it on this machine, and what would change it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hugetext_answer::today;
use hugetext_auto::calibrate::{fault_cost, fill_cost};
use hugetext_engine::{AsFound, HostContext, MachineVerdict};
use hugetext_host::{
    Machine, Namespace, glibc_version, memory_limit, processor_quota, readahead_of,
};

use crate::documents::host::{Confinement, HostReport, Loader, MountOfText};
use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

mod show;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print what was found earlier in this boot, if anything was, without another trial
    #[arg(long)]
    remembered: bool,
}

/// The programs that run are looked at for so long.
const LONGEST_LOOK: Duration = Duration::from_millis(300);

/// Where programs mostly lie.
const PLACES: [&str; 6] = ["/", "/usr", "/opt", "/home", "/var/lib", "/srv"];

/// Answers `hugetext host`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    let earlier = arguments.remembered.then(MachineVerdict::remembered);
    let earlier = earlier.flatten();
    let host = HostContext::read(None)?;
    // A child has no threads yet, so it may try the namespace.
    let no_namespace = Namespace::possible().err().map(|error| error.to_string());
    let report = HostReport {
        date: today(),
        remembered: earlier.is_some(),
        found: earlier.unwrap_or_else(MachineVerdict::now),
        load: load(),
        as_found: AsFound::of_running(LONGEST_LOOK).ok(),
        mounts: mounts(&host),
        loader: loader(),
        confinement: Confinement {
            no_namespace,
            memory: memory_limit().ok().flatten(),
            quota: processor_quota().ok().flatten(),
        },
        machine: Machine::this(),
        fault: fault_cost().ok(),
        fill: host
            .has_huge_pages()
            .then(|| fill_cost(host.leaf).ok())
            .flatten(),
    };
    output.result("host", &report, show::report)?;
    Ok(Verdict::Done)
}

/// Tasks that ran or waited for a processor in the last minute, for each processor.
fn load() -> Option<f64> {
    let said = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = said.split_whitespace().next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?;
    Some(load / processors.get() as f64)
}

/// What text gets on each of the mounts where programs mostly lie, and on that of the working directory.
fn mounts(host: &HostContext) -> Vec<MountOfText> {
    let places = PLACES.iter().map(PathBuf::from);
    let places = places.chain(std::env::current_dir().ok());
    let mut seen = HashSet::new();
    let look = |path: PathBuf| {
        let file = File::open(&path).ok()?;
        if !seen.insert(file.metadata().ok()?.dev()) {
            return None;
        }
        let filesystem = host.mounts.page_cache(&file, &path).ok()?;
        let huge =
            host.has_huge_pages() && host.large_folio_obstacle(filesystem, host.leaf).is_none();
        Some(MountOfText {
            filesystem,
            leaf: if huge { host.leaf } else { host.page },
            readahead: readahead_of(&file),
            path,
        })
    };
    places.filter_map(look).collect()
}

fn loader() -> Loader {
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    let version = glibc_version();
    Loader {
        // The tunable is of glibc 2.44.
        asks: version >= Some((2, 44)) && tunables.split(':').any(|one| one == "glibc.elf.thp=1"),
        glibc: version.map(|(major, minor)| format!("{major}.{minor}")),
    }
}
