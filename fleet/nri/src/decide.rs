//! Decides what is done for a container. Everything here comes from users who may create pods, and nothing here
//! looks at the machine.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use clap::ValueEnum;

use crate::messages::{
    Container, ContainerAdjustment, CreateContainerRequest, Mount, PodSandbox, SynchronizeRequest,
};

/// The annotation of a pod that says what is done for its containers. With `.container.NAME` behind it, it
/// concerns one container.
pub(crate) const ANNOTATION: &str = "hugetext/text";

/// The annotation by which a pod asks that the autopilot promote its processes while they run. With
/// `.container.NAME` behind it, it concerns one container.
pub(crate) const PROMOTE: &str = "hugetext/promote";

/// Longer names of programs are left: PATH_MAX of Linux.
const LONGEST_NAME: usize = 4096;
/// Longer variables are as good as absent.
const LONGEST_VARIABLE: usize = 32 << 10;
/// How many arguments may name programs: the program, and the one that an entry point script executes.
const NAMES: usize = 2;

/// What may be done for a container, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Treatment {
    /// Nothing.
    Off,
    /// Its program and libraries are warmed where they are.
    Warm,
    /// Copies may also be shown in their place.
    Copies,
}

/// What the administrator of the node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// What pods without an annotation get.
    pub(crate) unasked: Treatment,
    /// What a pod gets at most.
    pub(crate) at_most: Treatment,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing.
    Leave(Left),
    /// Look for the programs of the container and prepare them.
    Prepare(Box<Order>),
}

/// Why nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The pod or the node asked for nothing.
    Off,
    /// The annotation has an unknown value.
    UnknownValue,
    /// The container names no program that could be looked for.
    NoProgram,
    /// The container has no id, or one that no runtime gives.
    NoId,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Off => f.write_str("off"),
            Left::UnknownValue => write!(f, "{ANNOTATION} is none of off, warm and copies"),
            Left::NoProgram => f.write_str("it names no program"),
            Left::NoId => f.write_str("it has no id"),
        }
    }
}

/// What to prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The container, and its snapshot.
    pub(crate) id: String,
    /// Names of programs, as execvp(3) takes them.
    pub(crate) names: Vec<String>,
    /// PATH of the container.
    pub(crate) path: Option<String>,
    /// LD_LIBRARY_PATH of the container.
    pub(crate) library_path: Option<String>,
    /// LD_PRELOAD of the container.
    pub(crate) preload: Option<String>,
    /// Where the container mounts something over its image.
    pub(crate) covered: BTreeSet<PathBuf>,
    /// Whether copies may be shown.
    pub(crate) copies: bool,
    /// The processors that it may use; empty if it may use all.
    pub(crate) processors: Vec<u32>,
}

/// Decides about a container.
pub(crate) fn decide(request: &CreateContainerRequest, policy: Policy) -> Decision {
    let Some(container) = &request.container else {
        return Decision::Leave(Left::NoId);
    };
    let none = HashMap::new();
    let annotations = request.pod.as_ref().map_or(&none, |pod| &pod.annotations);
    let Some(asked) = asked(annotations, &container.name) else {
        return Decision::Leave(Left::UnknownValue);
    };
    let treatment = asked.unwrap_or(policy.unasked).min(policy.at_most);
    if treatment == Treatment::Off {
        return Decision::Leave(Left::Off);
    }
    if !is_id(&container.id) {
        return Decision::Leave(Left::NoId);
    }
    let names = names(&container.args);
    if names.is_empty() {
        return Decision::Leave(Left::NoProgram);
    }
    Decision::Prepare(Box::new(Order {
        id: container.id.clone(),
        names,
        path: variable(&container.env, "PATH"),
        library_path: variable(&container.env, "LD_LIBRARY_PATH"),
        preload: variable(&container.env, "LD_PRELOAD"),
        covered: covered(&container.mounts),
        // Users of another user namespace see the owner of a copy as nobody.
        copies: treatment == Treatment::Copies && !has_user_namespace(container),
        processors: processors(container),
    }))
}

/// What the pod asks for, if it asks; `None` if it asks for something that does not exist.
fn asked(annotations: &HashMap<String, String>, container: &str) -> Option<Option<Treatment>> {
    match annotation(annotations, ANNOTATION, container) {
        None => Some(None),
        Some(value) => Treatment::from_str(value, false).ok().map(Some),
    }
}

/// The annotation of one container, or else that of its pod.
fn annotation<'a>(
    annotations: &'a HashMap<String, String>,
    key: &str,
    container: &str,
) -> Option<&'a str> {
    let own = format!("{key}.container.{container}");
    let value = annotations.get(&own).or_else(|| annotations.get(key));
    value.map(String::as_str)
}

/// What a pod says of the promotion of a container's processes while they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promotion {
    /// It does not ask, or it opted out of everything.
    Unasked,
    /// It asks.
    Asked,
    /// The annotation has an unknown value.
    UnknownValue,
}

/// Whether a pod asks for the promotion of a container's processes.
pub(crate) fn promotion(pod: Option<&PodSandbox>, container: &Container) -> Promotion {
    let none = HashMap::new();
    let annotations = pod.map_or(&none, |pod| &pod.annotations);
    match annotation(annotations, PROMOTE, &container.name) {
        None | Some("false") => Promotion::Unasked,
        Some("true") => match asked(annotations, &container.name) {
            None | Some(Some(Treatment::Off)) => Promotion::Unasked,
            Some(_) => Promotion::Asked,
        },
        Some(_) => Promotion::UnknownValue,
    }
}

/// The containers among those that are there whose pods ask for promotion.
pub(crate) fn asking(there: &SynchronizeRequest) -> impl Iterator<Item = &Container> {
    let pods = there.pods.iter().map(|pod| (pod.id.as_str(), pod));
    let pods: HashMap<&str, &PodSandbox> = pods.collect();
    there.containers.iter().filter(move |container| {
        let pod = pods.get(container.pod_sandbox_id.as_str()).copied();
        promotion(pod, container) == Promotion::Asked
    })
}

/// Ids are parts of paths and keys elsewhere.
fn is_id(id: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !id.is_empty() && id.len() <= 128 && id.chars().all(fits)
}

/// The program, and its first argument if that may be a program that a script executes.
fn names(arguments: &[String]) -> Vec<String> {
    let is_name = |name: &&String| {
        !name.is_empty()
            && name.len() <= LONGEST_NAME
            && !name.starts_with('-')
            && !name.contains('\0')
    };
    let names = arguments.iter().take(NAMES).take_while(is_name);
    names.cloned().collect()
}

/// The last value of a variable, as the C library of most programs takes it.
fn variable(environment: &[String], name: &str) -> Option<String> {
    let value = |entry: &String| {
        let (found, value) = entry.split_once('=')?;
        (found == name && value.len() <= LONGEST_VARIABLE && !value.contains('\0'))
            .then(|| value.to_owned())
    };
    environment.iter().rev().find_map(value)
}

/// Destinations by their plain parts. One with `..` hides something that is not known, so it hides all.
fn covered(mounts: &[Mount]) -> BTreeSet<PathBuf> {
    let plain = |mount: &Mount| {
        let mut path = PathBuf::from("/");
        for part in Path::new(&mount.destination).components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::ParentDir => return PathBuf::from("/"),
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        path
    };
    mounts.iter().map(plain).collect()
}

fn has_user_namespace(container: &Container) -> bool {
    let linux = container.linux.as_ref();
    linux.is_some_and(|linux| linux.namespaces.iter().any(|one| one.r#type == "user"))
}

/// The processors of a list as cpuset.cpus has it. A list that cannot be read counts as none.
fn processors(container: &Container) -> Vec<u32> {
    let linux = container.linux.as_ref();
    let cpu = linux.and_then(|linux| linux.resources.as_ref()?.cpu.as_ref());
    let list = cpu.map_or("", |cpu| cpu.cpus.as_str());
    parse_processors(list).unwrap_or_default()
}

fn parse_processors(list: &str) -> Option<Vec<u32>> {
    /// More than any kernel has (CONFIG_NR_CPUS).
    const LIMIT: u32 = 1 << 13;
    let mut processors = BTreeSet::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= LIMIT {
            return None;
        }
        processors.extend(first..=last);
    }
    Some(processors.into_iter().collect())
}

impl Order {
    /// Whether the container shows something else than its image at `path`.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.covered.contains(part))
    }
}

#[cfg(test)]
impl Order {
    /// An order for node, in a container that may use copies.
    pub(crate) fn for_node(id: &str) -> Order {
        Order {
            id: id.to_owned(),
            names: vec!["node".to_owned()],
            path: None,
            library_path: None,
            preload: None,
            covered: BTreeSet::new(),
            copies: true,
            processors: Vec::new(),
        }
    }
}

/// A copy that takes the place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The file, as the container sees it: absolute, without symbolic links.
    pub(crate) path: PathBuf,
    /// The copy, as the runtime sees it.
    pub(crate) copy: PathBuf,
}

/// The adjustment that shows copies. Protocol buffers have no other text than UTF-8, so other paths are left.
pub(crate) fn adjustment(shown: &[Shown]) -> ContainerAdjustment {
    let mount = |shown: &Shown| {
        Some(Mount {
            destination: shown.path.to_str()?.to_owned(),
            source: shown.copy.to_str()?.to_owned(),
            r#type: "bind".to_owned(),
            options: ["bind", "ro", "nosuid", "nodev"].map(str::to_owned).into(),
        })
    };
    ContainerAdjustment {
        mounts: shown.iter().filter_map(mount).collect(),
    }
}

#[cfg(test)]
mod tests;
