//! On which NUMA node pages lie, and how they get onto another.
//!
//! move_pages(2) without nodes tells where each page is. It needs no privilege for this process, and for
//! another one only what its /proc/PID/pagemap and numa_maps need too (PTRACE_MODE_READ). The page map
//! hides frames from everyone but root, and numa_maps gives one sum for a whole mapping; so move_pages is
//! asked, and numa_maps only where a sandbox forbids the call.

use std::fs;
use std::io;
use std::marker::PhantomData;

use hugetext_leaf::Span;
use hugetext_leaf::replica::{Node, NodeBytes};

use crate::processes::Pid;

/// Move pages that only the caller maps, or anyone (include/uapi/linux/mempolicy.h).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

/// Pages of one call: a few dozen KiB of arguments.
const BATCH: u64 = 4096;

/// The most nodes that a policy can name here: the kernel's largest MAX_NUMNODES is 1024.
const MOST_NODES: usize = 1024;

/// Whose memory is asked about or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process's own.
    Own,
    /// That of another process.
    Process(Pid),
}

/// Consecutive pages on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRun {
    /// Their addresses.
    pub addresses: Span,
    /// The node.
    pub node: Node,
}

/// The pages of `addresses` that the page tables of a process hold, as runs, ascending. Pages that it has
/// not touched are left out.
pub fn node_runs(whose: Whose, addresses: Span) -> io::Result<Vec<NodeRun>> {
    let page = rustix::param::page_size() as u64;
    let mut runs: Vec<NodeRun> = Vec::new();
    for pages in batches(addresses, page) {
        let status = move_pages(whose, &pages, None, 0)?;
        for (start, status) in pages.into_iter().zip(status) {
            let Ok(node) = u32::try_from(status) else {
                continue;
            };
            let (node, end) = (Node(node), start.saturating_add(page));
            match runs.last_mut() {
                Some(run) if run.node == node && run.addresses.end == start => {
                    run.addresses.end = end;
                }
                _ => runs.push(NodeRun {
                    addresses: Span::new(start, end),
                    node,
                }),
            }
        }
    }
    Ok(runs)
}

/// The bytes of each mapping of a process by node, from /proc/PID/numa_maps: the start of each mapping, and
/// its sums. For where [`node_runs`] is forbidden.
pub fn numa_maps(pid: Pid) -> io::Result<Vec<(u64, NodeBytes)>> {
    let text = fs::read(format!("/proc/{pid}/numa_maps"))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(numa_line).collect())
}

/// `7f00 default file=/usr/lib/x mapped=5 N0=2 N1=3 kernelpagesize_kB=4`
fn numa_line(line: &str) -> Option<(u64, NodeBytes)> {
    let start = u64::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
    let value = |word: &str, key: &str| word.strip_prefix(key)?.parse::<u64>().ok();
    let mut words = line.split_whitespace();
    let kilobytes = words.find_map(|word| value(word, "kernelpagesize_kB="));
    let page = kilobytes.unwrap_or(4).saturating_mul(1 << 10);
    let parts = line.split_whitespace().filter_map(|word| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        let pages: u64 = pages.parse().ok()?;
        Some((Node(node.parse().ok()?), pages.saturating_mul(page)))
    });
    Some((start, parts.collect()))
}

/// Whose mappings may hold a page that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharers {
    /// Nobody's but the caller's (MPOL_MF_MOVE).
    Caller,
    /// Anyone's (MPOL_MF_MOVE_ALL): needs CAP_SYS_NICE.
    Anyone,
}

/// What moving pages gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovedPages {
    /// Pages that lie on the wanted node now.
    pub there: u64,
    /// Pages that lie on another one: others map them too, they are being written, or the node is full.
    pub elsewhere: u64,
    /// Pages that are not mapped here.
    pub absent: u64,
}

/// Moves the pages of `addresses`, which this process maps, to `node`. Pages that are there already count as
/// there. An error if the kernel refuses as a whole: no such node, not permitted, no NUMA.
pub fn move_to_node(addresses: Span, node: Node, sharers: Sharers) -> io::Result<MovedPages> {
    let page = rustix::param::page_size() as u64;
    let flag = match sharers {
        Sharers::Caller => MPOL_MF_MOVE,
        Sharers::Anyone => MPOL_MF_MOVE_ALL,
    };
    let wanted = i32::try_from(node.0).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut moved = MovedPages::default();
    for pages in batches(addresses, page) {
        move_pages(Whose::Own, &pages, Some(wanted), flag)?;
        // Statuses of a move tell the errors of some kernels only; where each page is now, all do.
        for status in move_pages(Whose::Own, &pages, None, 0)? {
            match status {
                now if now == wanted => moved.there += 1,
                now if now >= 0 => moved.elsewhere += 1,
                _ => moved.absent += 1,
            }
        }
    }
    Ok(moved)
}

fn batches(addresses: Span, page: u64) -> impl Iterator<Item = Vec<u64>> {
    let step = page.saturating_mul(BATCH);
    let starts = (addresses.start..addresses.end).step_by(step as usize);
    starts.map(move |start| {
        let end = addresses.end.min(start.saturating_add(step));
        (start..end).step_by(page as usize).collect()
    })
}

/// The status of each page: its node, or a negative error. With a node, pages are moved there first.
fn move_pages(
    whose: Whose,
    pages: &[u64],
    node: Option<i32>,
    flags: libc::c_int,
) -> io::Result<Vec<i32>> {
    let pid = match whose {
        Whose::Own => 0,
        Whose::Process(pid) => pid.as_raw(),
    };
    let nodes = node.map(|node| vec![node; pages.len()]);
    let mut status = vec![-libc::ENOENT; pages.len()];
    let wanted = nodes
        .as_ref()
        .map_or(std::ptr::null(), |nodes| nodes.as_ptr());
    // SAFETY: each array has as many elements as the second argument says, and outlives the call. Addresses
    // are numbers to the kernel, which checks them; moving a page keeps its content and its mappings.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            wanted,
            status.as_mut_ptr(),
            flags,
        )
    };
    match result {
        // A positive result is the number of pages that did not move.
        0.. => Ok(status),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where new page cache of this thread goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// To this node; elsewhere only if it has no memory left.
    On(Node),
    /// In turn to these.
    Spread(Vec<Node>),
}

/// A memory policy of this thread, until it is dropped. Then the policy is the default again, as programs
/// have it that nobody gave another.
#[derive(Debug)]
pub struct MemoryPolicy {
    /// A policy belongs to the thread that set it.
    _thread: PhantomData<*const ()>,
}

impl MemoryPolicy {
    /// Sets it (set_mempolicy(2), needs no privilege). An error if a node does not exist, or if the cpuset of
    /// this process does not contain it.
    pub fn set(placement: &Placement) -> io::Result<MemoryPolicy> {
        let (mode, nodes) = match placement {
            Placement::On(node) => (libc::MPOL_PREFERRED, std::slice::from_ref(node)),
            Placement::Spread(nodes) => (libc::MPOL_INTERLEAVE, nodes.as_slice()),
        };
        let mut mask: NodeMask = [0; MOST_NODES / libc::c_ulong::BITS as usize];
        for node in nodes {
            let word = mask.get_mut((node.0 / libc::c_ulong::BITS) as usize);
            let word = word.ok_or(io::ErrorKind::InvalidInput)?;
            *word |= 1 << (node.0 % libc::c_ulong::BITS);
        }
        set_mempolicy(mode, Some(&mask))?;
        Ok(MemoryPolicy {
            _thread: PhantomData,
        })
    }
}

impl Drop for MemoryPolicy {
    fn drop(&mut self) {
        let _ = set_mempolicy(libc::MPOL_DEFAULT, None);
    }
}

/// A bit for each node, in the kernel's words.
type NodeMask = [libc::c_ulong; MOST_NODES / libc::c_ulong::BITS as usize];

fn set_mempolicy(mode: libc::c_int, mask: Option<&NodeMask>) -> io::Result<()> {
    let (pointer, bits) = match mask {
        // The kernel reads one bit less than it is told.
        Some(mask) => (mask.as_ptr(), MOST_NODES + 1),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: the mask has the number of bits that the kernel reads, and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_this_test_lies_on_a_node() {
        let page = rustix::param::page_size() as u64;
        let here = the_text_of_this_test_lies_on_a_node as fn() as usize as u64 / page * page;
        let runs = match node_runs(Whose::Own, Span::new(here, here + page)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                eprintln!("skipped: this kernel has no move_pages");
                return;
            }
            runs => runs.unwrap(),
        };
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].addresses.len(), page);
        let sums = numa_maps(Pid::own()).unwrap();
        let bytes: u64 = sums.iter().map(|(_, bytes)| bytes.on(runs[0].node)).sum();
        assert!(bytes > page);
    }

    #[test]
    fn a_line_of_numa_maps_is_read_in_its_own_pages() {
        let line =
            "7f0000200000 bind:1 file=/x\\040N9=1 huge mapped=3 N0=1 N1=2 kernelpagesize_kB=2048";
        let (start, bytes) = numa_line(line).unwrap();
        assert_eq!((start, bytes.on(Node(1))), (0x7f00_0020_0000, 4 << 20));
        assert!(numa_line("").is_none());
    }

    #[test]
    fn a_policy_names_nodes_that_exist_and_ends() {
        let first = Placement::On(crate::machine::Nodes::this().with_memory()[0]);
        match MemoryPolicy::set(&first) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                eprintln!("skipped: this kernel has no memory policies");
                return;
            }
            set => drop(set.unwrap()),
        }
        assert!(MemoryPolicy::set(&Placement::On(Node(900))).is_err());
        assert!(MemoryPolicy::set(&Placement::On(Node(u32::MAX))).is_err());
    }
}
