//! The NUMA nodes of the machine: which processors and how much memory each has.

use std::fs;
use std::io;
use std::path::Path;

use hugetext_leaf::replica::Node;

use super::memory;
use crate::processes::ProcessStatus;

/// Where the kernel describes them.
const NODES: &str = "/sys/devices/system/node";

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its number.
    pub node: Node,
    /// Its processors that are online, by number; none for a node of memory alone.
    pub processors: Vec<u32>,
    /// Its memory, bytes; 0 for a node of processors alone.
    pub memory: u64,
}

/// The nodes of the machine, ascending. There is one at least: a kernel without NUMA, or a machine without
/// sysfs, has node 0 with everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes(Vec<NodeInfo>);

impl Nodes {
    /// Reads them.
    pub fn this() -> Nodes {
        Nodes::below(Path::new(NODES))
    }

    fn below(directory: &Path) -> Nodes {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix("node")?.parse().ok();
        let mut nodes: Vec<NodeInfo> = entries
            .filter_map(|entry| {
                let node = Node(number(entry.file_name().to_str()?)?);
                let read = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
                Some(NodeInfo {
                    node,
                    processors: parse_list(&read("cpulist")).unwrap_or_default(),
                    memory: memory::of_node(&read("meminfo")),
                })
            })
            .collect();
        nodes.sort_by_key(|info| info.node);
        if nodes.is_empty() {
            nodes.push(NodeInfo {
                node: Node(0),
                processors: Vec::new(),
                memory: memory::total(),
            });
        }
        Nodes(nodes)
    }

    /// All of them.
    pub fn all(&self) -> &[NodeInfo] {
        &self.0
    }

    /// The numbers of those that have memory.
    pub fn with_memory(&self) -> Vec<Node> {
        let with = self.0.iter().filter(|info| info.memory > 0);
        with.map(|info| info.node).collect()
    }

    /// The node of a processor. On one node, every processor is its own.
    pub fn of_processor(&self, processor: u32) -> Option<Node> {
        if let [only] = self.0.as_slice() {
            return Some(only.node);
        }
        let mut all = self.0.iter();
        let found = all.find(|info| info.processors.contains(&processor));
        found.map(|info| info.node)
    }

    /// The nodes of these processors, each once, in the order of the processors.
    pub fn of_processors(&self, processors: &[u32]) -> Vec<Node> {
        let mut nodes = Vec::new();
        for node in processors.iter().filter_map(|cpu| self.of_processor(*cpu)) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }
}

/// The node of the processor that runs this thread now.
pub fn current_node() -> Option<Node> {
    let processor = u32::try_from(rustix::thread::sched_getcpu()).ok()?;
    Nodes::this().of_processor(processor)
}

/// Binds this thread to these processors. An error if it may use none of them.
pub fn bind_to_processors(processors: &[u32]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    let known = rustix::thread::CpuSet::MAX_CPU;
    for processor in processors
        .iter()
        .filter(|number| (**number as usize) < known)
    {
        set.set(*processor as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The processors that this process may use, ascending.
pub fn own_processors() -> Vec<u32> {
    let status = ProcessStatus::own();
    status.map_or_else(|_| Vec::new(), |status| allowed_processors(&status))
}

/// Those that a process may use.
pub(crate) fn allowed_processors(status: &ProcessStatus) -> Vec<u32> {
    let list = status.field("Cpus_allowed_list");
    list.and_then(parse_list).unwrap_or_default()
}

/// The numbers of a list such as `0-3,8` (cpulist of sysfs); `None` if it is none.
fn parse_list(list: &str) -> Option<Vec<u32>> {
    /// No machine has more; a wrong list must not fill the memory.
    const MOST: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_and_wrong_ones_are_none() {
        assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list(""), Some(Vec::new()));
        assert_eq!(parse_list("x"), None);
        assert_eq!(parse_list("0-4294967295"), None);
        let status = "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t4-5\n";
        assert_eq!(
            allowed_processors(&ProcessStatus::from_text(status)),
            [4, 5]
        );
    }

    #[test]
    fn nodes_are_read_as_sysfs_gives_them() {
        let sysfs = tempfile::tempdir().unwrap();
        for (node, list, kilobytes) in [(1, "2-3", 0), (0, "0-1", 4)] {
            let directory = sysfs.path().join(format!("node{node}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("cpulist"), list).unwrap();
            let meminfo =
                format!("\nNode {node} MemTotal: {kilobytes} kB\nNode {node} MemFree: 1 kB\n");
            fs::write(directory.join("meminfo"), meminfo).unwrap();
        }
        fs::create_dir(sysfs.path().join("power")).unwrap();
        let nodes = Nodes::below(sysfs.path());
        assert_eq!(nodes.all().len(), 2);
        assert_eq!(nodes.with_memory(), [Node(0)]);
        assert_eq!(nodes.of_processors(&[3, 2, 0]), [Node(1), Node(0)]);
        assert_eq!(nodes.of_processor(9), None);
    }

    #[test]
    fn this_machine_has_a_node_that_runs_this_test() {
        let nodes = Nodes::this();
        assert!(!nodes.with_memory().is_empty());
        assert!(current_node().is_some());
        assert!(!nodes.of_processors(&own_processors()).is_empty());
    }
}
