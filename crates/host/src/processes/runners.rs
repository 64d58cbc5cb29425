//! Which NUMA nodes run a process.

use std::fs;

use hugetext_leaf::replica::{Node, Runners};

use super::error::ProcessError;
use super::id::Pid;
use super::status::ProcessStatus;
use crate::machine::{Nodes, allowed_processors};

/// The nodes that run a process, and those that may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningNodes {
    /// Those of the processors that its threads ran on last, weighted by the processor time of each thread.
    pub runners: Runners,
    /// Those of the processors that it may use. One node alone: it is bound there.
    pub allowed: Vec<Node>,
}

/// The nodes of process `pid`, from /proc/PID/task: any user may read it where /proc hides nobody.
pub fn running_nodes(pid: Pid, nodes: &Nodes) -> Result<RunningNodes, ProcessError> {
    let failed = |error| ProcessError::from(procfs::ProcError::from(error));
    let status = ProcessStatus::of(pid).map_err(failed)?;
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)?;
    let mut runners = Runners::default();
    for thread in threads.flatten() {
        // A thread that has just ended runs nowhere.
        let Ok(stat) = fs::read(thread.path().join("stat")) else {
            continue;
        };
        if let Some((processor, ticks)) = last_run(&String::from_utf8_lossy(&stat))
            && let Some(node) = nodes.of_processor(processor)
        {
            runners.add(node, ticks);
        }
    }
    let processors = allowed_processors(&status);
    Ok(RunningNodes {
        runners,
        allowed: nodes.of_processors(&processors),
    })
}

/// The processor that a thread ran on last, and its processor time in ticks, from its stat (proc(5)): fields
/// 39, 14 and 15. The name, field 2, ends with the last parenthesis.
fn last_run(stat: &str) -> Option<(u32, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first of the rest is field 3.
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    let ticks = |number| field(number)?.parse::<u64>().ok();
    let processor = field(39)?.parse().ok()?;
    Some((processor, ticks(14)?.saturating_add(ticks(15)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let mut line = String::from("7 (a) 1 (b)) S");
        for field in 4..=52 {
            line.push_str(&format!(" {field}"));
        }
        assert_eq!(last_run(&line), Some((39, 29)));
        assert_eq!(last_run("7 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_runs_on_a_node_that_it_may_use() {
        let found = running_nodes(Pid::own(), &Nodes::this()).unwrap();
        assert!(found.runners.nodes() >= 1);
        let mut ran = found.runners.each();
        assert!(ran.all(|(node, _)| found.allowed.contains(&node)));
    }
}
