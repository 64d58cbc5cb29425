//! The Debian archive, read by apt with its own lists. The machine's apt stays unchanged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Arch;
use crate::cache::Cache;
use crate::error::{At, LabError, Result};
use crate::tool;

/// An apt client for packages of some architectures.
pub(crate) struct Archive {
    root: PathBuf,
    arches: Vec<Arch>,
}

impl Archive {
    /// Reads the archive's package lists for these architectures.
    pub(crate) fn update(cache: &Cache, arches: &[Arch]) -> Result<Archive> {
        let root = cache.archive();
        for directory in ["lists/partial", "archives/partial"] {
            let directory = root.join(directory);
            fs::create_dir_all(&directory).at(&directory)?;
        }
        let sources = root.join("sources.list");
        fs::write(&sources, source_lines(arches)?).at(&sources)?;
        let archive = Archive {
            root,
            arches: arches.to_vec(),
        };
        tool::run(archive.apt("apt-get").args(["--error-on=any", "update"])).map_err(|error| {
            match error {
                LabError::Tool { message, .. } => LabError::Offline(message),
                other => other,
            }
        })?;
        Ok(archive)
    }

    /// Names of all packages that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = tool::run(self.apt("apt-cache").args(["pkgnames", prefix]))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Downloads packages of `arch` into `directory`; apt checks their signatures. Returns the
    /// paths in no particular order.
    pub(crate) fn download(
        &self,
        packages: &[String],
        arch: Arch,
        directory: &Path,
    ) -> Result<Vec<PathBuf>> {
        let mut apt = self.apt("apt-get");
        // apt's sandbox user may not write to the cache, so it is switched off.
        apt.args(["-oAPT::Sandbox::User=root", "download"]);
        apt.args(
            packages
                .iter()
                .map(|name| format!("{name}:{}", arch.debian())),
        );
        tool::run(apt.current_dir(directory))?;
        let entries = fs::read_dir(directory).at(directory)?.flatten();
        let paths = entries.map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|e| e == "deb"))
            .collect())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| self.root.join(name).display().to_string();
        command.arg("-q");
        for (key, value) in [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", "-".to_owned()),
            ("Dir::State::lists", at("lists")),
            // These archives may not have the versions that the machine has installed.
            ("Dir::State::status", "/dev/null".to_owned()),
            ("Dir::Cache", self.root.display().to_string()),
            (
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled",
                "false".to_owned(),
            ),
            ("Acquire::Languages", "none".to_owned()),
        ] {
            command.arg(format!("-o{key}={value}"));
        }
        for arch in &self.arches {
            command.arg(format!("-oAPT::Architectures::={}", arch.debian()));
        }
        command
    }
}

/// The lab's sources, on the mirrors that this machine's apt uses.
fn source_lines(arches: &[Arch]) -> Result<String> {
    let format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
    let targets = tool::run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))?;
    let mirror = |label: &str| {
        let prefix = format!("Debian|{label}|");
        targets.lines().find_map(|line| line.strip_prefix(&prefix))
    };
    let main = mirror("Debian").ok_or(LabError::NoArchive)?;
    // Testing and unstable have no security archive of their own. Mirrors hold it beside the main one.
    let beside = main
        .trim_end_matches('/')
        .strip_suffix("/debian")
        .map(|mirror| format!("{mirror}/debian-security/"));
    let security = mirror("Debian-Security").map(str::to_owned).or(beside);
    let security = &security.ok_or(LabError::NoArchive)?;
    let lines = |arch: &Arch| -> String {
        let facts = arch.facts();
        let line =
            |uri: &str, suite: &str| format!("deb [arch={}] {uri} {suite} main\n", facts.debian);
        let of_main = facts.suites.iter().map(|suite| line(main, suite));
        let of_security = facts.security_suites.iter();
        of_main
            .chain(of_security.map(|suite| line(security, suite)))
            .collect()
    };
    Ok(arches.iter().map(lines).collect())
}
