//! Finds the programs of a container and their libraries, by the rules of the kernel and of the loader.
//!
//! These rules go by paths: links, PATH, `#!` lines, DT_RUNPATH, the loader's cache. A child process therefore
//! takes the container's root for its own. Its mounts are in a namespace of its own and end with it; whatever
//! links an image has, the kernel holds the child inside.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hugetext_engine::HostContext;
use hugetext_engine::prepare::{Targets, resolve};
use hugetext_host::{Namespace, die_with_parent};
use hugetext_loader::Environment;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

/// The hidden argument that makes this program the child.
pub(crate) const ARGUMENT: &str = "--look";
/// The longest time that the child takes. It usually takes some milliseconds.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest options that mount(2) takes, without the last byte.
const OPTIONS: usize = 4095;

/// What to look for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Look {
    /// The directories of the root, the topmost first.
    pub(crate) layers: Vec<PathBuf>,
    /// Names of programs. All but the first are of use only if the first is a script.
    pub(crate) names: Vec<String>,
    /// LD_LIBRARY_PATH of the container.
    pub(crate) library_path: Option<String>,
    /// LD_PRELOAD of the container.
    pub(crate) preload: Option<String>,
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// The child process failed.
    #[error("the child process that looks into the root failed: {0}")]
    Child(io::Error),
    /// What the child process said.
    #[error("{0}")]
    Said(String),
    /// It got an order, or gave an answer, that cannot be read.
    #[error("the child process that looks into the root was not understood: {0}")]
    Nonsense(#[from] serde_json::Error),
    /// The root cannot be entered.
    #[error("the root cannot be entered: {0}; this takes CAP_SYS_ADMIN and CAP_SYS_CHROOT")]
    Enter(io::Error),
    /// More or stranger layers than one mount takes.
    #[error("the root has more layers than one mount takes, or strange ones")]
    Layers,
}

/// The files that a container maps, by their paths inside its root without symbolic links.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Those that are long enough for a window of text.
    pub(crate) files: Vec<PathBuf>,
    /// The others.
    pub(crate) small: Vec<PathBuf>,
}

/// Finds the files of `look`. `path` is PATH of the container.
pub(crate) fn ask(look: &Look, path: Option<&str>) -> Result<Seen, LookError> {
    let mut command = Command::new("/proc/self/exe");
    // Nothing else of the container's environment reaches a program that runs outside of it.
    command.arg(ARGUMENT).env_clear();
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = die_with_parent(&mut command)
        .spawn()
        .map_err(LookError::Child)?;
    if let Some(stdin) = child.stdin.take() {
        serde_json::to_writer(stdin, look)?;
    }
    let output = child.wait_with_output().map_err(LookError::Child)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(LookError::Said(said.trim().to_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What the child process does.
pub(crate) fn answer() -> Result<(), LookError> {
    let look: Look = serde_json::from_reader(io::stdin().lock())?;
    let host = HostContext::read(None).map_err(|error| LookError::Said(error.to_string()))?;
    let environment = Environment {
        library_path: look.library_path.map(String::into_bytes),
        preload: look.preload.map(String::into_bytes),
        ..Environment::current()
    };
    enter(&look.layers)?;
    // A file that never answers must not keep this process for ever.
    thread::spawn(|| {
        thread::sleep(LIMIT);
        std::process::exit(3);
    });
    let mut targets = Targets::new(host.leaf, false, &environment);
    for program in programs(&look.names) {
        targets.add_program(&program);
    }
    // JSON has no other text.
    let is_text = |path: &PathBuf| path.to_str().is_some();
    let plain = |path: PathBuf| fs::canonicalize(path).ok().filter(is_text);
    let seen = Seen {
        files: targets.files.into_iter().filter_map(plain).collect(),
        small: targets.small.into_iter().filter_map(plain).collect(),
    };
    serde_json::to_writer(io::stdout().lock(), &seen)?;
    Ok(())
}

/// The programs that these names run. A script may execute its first argument, as entry points of images do.
fn programs(names: &[String]) -> Vec<PathBuf> {
    let command = |name: &String| resolve::command(OsStr::new(name)).ok();
    let mut programs = Vec::new();
    for name in names {
        let Some(path) = command(name) else { break };
        programs.extend(resolve::programs(&path));
        if !resolve::is_shell_script(&path) {
            break;
        }
    }
    programs
}

/// Makes the layers the root of this process, read-only.
fn enter(layers: &[PathBuf]) -> Result<(), LookError> {
    let refused = |error: rustix::io::Errno| LookError::Enter(error.into());
    let namespace = Namespace::permitted();
    let namespace = namespace.map_err(|error| LookError::Said(error.to_string()))?;
    namespace.enter().map_err(LookError::Enter)?;
    let [top, rest @ ..] = layers else {
        return Err(LookError::Layers);
    };
    if !rest.is_empty() {
        let base = common(layers);
        let options = lower(base, layers).ok_or(LookError::Layers)?;
        // Paths of layers are long and mostly the same. Relative ones fit into the options of a mount.
        std::env::set_current_dir(base).map_err(LookError::Enter)?;
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount("overlay", top, "overlay", flags, options.as_c_str()).map_err(refused)?;
    }
    rustix::process::chroot(top).map_err(refused)?;
    std::env::set_current_dir("/").map_err(LookError::Enter)
}

/// The last directory that all paths are below.
fn common(paths: &[PathBuf]) -> &Path {
    let Some((first, rest)) = paths.split_first() else {
        return Path::new("/");
    };
    let holds_all = |base: &&Path| rest.iter().all(|path| path.starts_with(base));
    let mut bases = first.ancestors().skip(1);
    bases.find(holds_all).unwrap_or(Path::new("/"))
}

/// The options of an overlay of `layers`, seen from `base`; `None` if mount(2) cannot take them.
fn lower(base: &Path, layers: &[PathBuf]) -> Option<CString> {
    let mut options = OsString::from("lowerdir=");
    for (at, layer) in layers.iter().enumerate() {
        if at > 0 {
            options.push(":");
        }
        let relative = layer.strip_prefix(base).ok()?.to_str()?;
        // Letters with a meaning there.
        if relative.is_empty() || relative.contains([':', ',', '\\']) {
            return None;
        }
        options.push(relative);
    }
    let options = CString::new(options.into_encoded_bytes()).ok()?;
    (options.as_bytes().len() <= OPTIONS).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn layers_are_named_from_the_directory_that_they_share() {
        let layers = paths(&["/state/snapshots/12/fs", "/state/snapshots/1/fs"]);
        let base = common(&layers);
        assert_eq!(base, Path::new("/state/snapshots"));
        assert_eq!(
            lower(base, &layers).unwrap().as_bytes(),
            b"lowerdir=12/fs:1/fs"
        );
        let nested = paths(&["/a/b", "/a/b/c"]);
        assert_eq!(common(&nested), Path::new("/a"));
    }

    #[test]
    fn strange_layers_are_no_options_of_a_mount() {
        for odd in ["/s/a:b", "/s/a,upperdir=x", "/s/a\\"] {
            assert_eq!(lower(Path::new("/s"), &paths(&[odd])), None, "{odd}");
        }
        let many: Vec<PathBuf> = (0..500)
            .map(|at| format!("/s/{at:0>20}/fs").into())
            .collect();
        assert_eq!(lower(Path::new("/s"), &many), None);
    }
}
