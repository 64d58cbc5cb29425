//! What the daemon says, as text.

use std::fmt::Write;
use std::path::Path;

use hugetext_auto::author::DaemonState;
use hugetext_auto::config::Mode;
use hugetext_auto::status::{CostStatus, FileStatus, ReplicaStatus, State, Status};
use hugetext_leaf::replica::{NoReplica, ReplicaDecision};

use crate::documents::auto::StatusReport;
use crate::meaning::{self, HeldFiles, Meaning, of_this_host};
use crate::path::shown;
use crate::table::{bytes, count, figures, percent};

/// The most files of one state that are shown.
const MOST: usize = 20;

/// The whole status.
pub(super) fn status(report: &StatusReport, all: bool) -> String {
    let status: &Status = &report.status;
    let mut text = String::new();
    let held = status.files.iter().filter(|file| file.state == State::Held);
    let mode = match status.mode {
        Mode::Observe => "only observes; `mode = \"act\"` in /etc/hugetext/auto.toml lets it act",
        Mode::Act => "acts",
    };
    let age = report.age_seconds;
    let _ = match report.daemon {
        DaemonState::Runs => writeln!(text, "process {}: {mode}; {age} s ago:", status.pid),
        // A warning has said so.
        DaemonState::Silent | DaemonState::Ended => writeln!(text, "{age} s ago:"),
    };
    let _ = writeln!(
        text,
        "holds {} in {}, of {} allowed now and a budget of {}",
        bytes(status.held),
        count(held.count(), "file"),
        bytes(status.allowed),
        bytes(status.budget),
    );
    if status.listed_files > 0 {
        let files = count(status.listed_files, "file");
        let _ = writeln!(
            text,
            "{} of it in {files} of the lists",
            bytes(status.listed)
        );
    }
    if status.promoted > 0 {
        let processes = count(status.promoted, "process");
        let copies = bytes(status.promoted_bytes);
        let _ = writeln!(
            text,
            "{copies} of it in copies for {processes} that it promoted"
        );
    }
    let (watched, half_life) = (hours(status.watched_ns), hours(status.half_life_ns));
    let _ = writeln!(
        text,
        "that saves about {} of processor time in {half_life:.1} h; watched for {watched:.1} h",
        time(status.saves_ns)
    );
    let _ = writeln!(
        text,
        "sees starts by {:?}; lost {}, not counted {}, given up {}",
        status.source, status.losses.records, status.losses.starts, status.losses.given_up
    );
    let stalls = status.stalls;
    let short = [stalls.some, stalls.full, stalls.missed]
        .into_iter()
        .fold(0, u64::saturating_add);
    let _ = writeln!(
        text,
        "memory was short {} (all tasks: {}, read again: {}, control groups: {}); tasks waited {} while it was plenty",
        count(short, "time"),
        stalls.full,
        stalls.missed,
        stalls.cgroups,
        count(stalls.plenty, "time")
    );
    if stalls.slowest_us > 0 {
        let slowest = time(stalls.slowest_us.saturating_mul(1000));
        let _ = writeln!(
            text,
            "memory was unlocked at most {slowest} after the kernel reported that tasks waited"
        );
    }
    let _ = writeln!(
        text,
        "took {} of processor time and {} of memory itself",
        time(status.own_cpu_ns),
        bytes(status.own_bytes)
    );
    let _ = writeln!(text, "{}", costs(&status.costs));
    for problem in &status.problems {
        let _ = writeln!(text, "{problem}");
    }
    for (state, title) in [
        (State::Held, "held"),
        (State::WouldHold, "would be held"),
        (State::Waiting, "waiting"),
        (State::Refused, "refused"),
    ] {
        let files: Vec<&FileStatus> = status.files.iter().filter(|f| f.state == state).collect();
        if files.is_empty() {
            continue;
        }
        let most = if all { files.len() } else { MOST };
        let _ = writeln!(text, "\n{title}: {}", count(files.len(), "file"));
        text.push_str(&table(files.iter().take(most).copied()));
        text.push('\n');
        if files.len() > most {
            let _ = writeln!(text, "and {} more (--all)", files.len() - most);
        }
    }
    if !status.replicas.is_empty() {
        let files = count(status.replicas.len(), "file");
        let _ = writeln!(
            text,
            "\nstarted by many at once, or far from those who run it: {files}"
        );
        text.push_str(&replica_table(&status.replicas));
        text.push('\n');
    }
    let _ = write!(text, "\n{}", meaning_of(report));
    text
}

fn meaning_of(report: &StatusReport) -> Meaning {
    let status = &report.status;
    let only_observes = status.mode == Mode::Observe;
    let state = if only_observes {
        State::WouldHold
    } else {
        State::Held
    };
    let files: Vec<&FileStatus> = status
        .files
        .iter()
        .filter(|file| file.state == state)
        .collect();
    let saves: u64 = files
        .iter()
        .fold(0, |sum, file| sum.saturating_add(file.saves_ns));
    // What is refused although it would save most is the question that comes next.
    let refused = status
        .files
        .iter()
        .filter(|file| file.state == State::Refused);
    let asked = refused
        .max_by_key(|file| file.saves_ns)
        .or(files.first().copied());
    let held = HeldFiles {
        only_observes,
        runs: report.daemon == DaemonState::Runs,
        files: files.len(),
        bytes: files
            .iter()
            .fold(0, |sum, file| sum.saturating_add(file.bytes)),
        saves: &time(saves),
        within: &format!("{:.1} h", hours(status.half_life_ns)),
        first: asked.map(|file| file.path.as_path()),
    };
    meaning::held(&held, of_this_host())
}

/// What the machine pays, and what huge text is expected to save on it.
pub(super) fn costs(costs: &CostStatus) -> String {
    let (fault, fill) = (costs.fault_ns, time(costs.fill_ns));
    let share = 100.0 * costs.share;
    let why = match costs.system_call_per_mille {
        _ if costs.is_share_set => ", as configured".to_owned(),
        Some(lost) if costs.share < 0.0 => {
            format!(", because each slows 256 pages of it by {}%", lost / 10)
        }
        _ => String::new(),
    };
    let share = match share {
        share if share < 0.0 => format!(
            "loses up to {:.0}% of processor time by system calls",
            -share
        ),
        share => format!("saves {share:.0}% of processor time"),
    };
    format!("a fault takes {fault} ns, a window {fill} to fill; huge text {share}{why}")
}

fn replica_table(replicas: &[ReplicaStatus]) -> String {
    let rows = replicas.iter().map(|replica| {
        let file = replica.advised.file;
        let unnamed = || format!("inode {} of device {:#x}", file.ino, file.dev);
        vec![
            replica.advised.starts_per_second.to_string(),
            percent(u64::from(replica.advised.remote_per_mille), 1000),
            replica.name.as_deref().map_or_else(unnamed, shown),
            advice(replica.advised.decision),
        ]
    });
    let header = ["starts a second", "remote", "file", "what is worth it"];
    figures(&header, &[2, 3], rows.collect())
}

/// What is worth it, and how a command gets it.
pub(super) fn advice(decision: ReplicaDecision) -> String {
    let cost = bytes(decision.bytes());
    match decision {
        ReplicaDecision::None {
            why: NoReplica::NothingToGain,
        } => "no copy: its lock is not crowded".to_owned(),
        ReplicaDecision::None {
            why: NoReplica::NoRoom,
        } => "copies, but two do not fit in memory".to_owned(),
        ReplicaDecision::PerNode { copies, .. } => {
            format!(
                "{copies} copies, on each node as many, in {cost} at most: hugetext run --replicas auto"
            )
        }
        ReplicaDecision::PerGroup { copies, .. } => {
            format!("{copies} copies in {cost} at most: hugetext run --replicas auto")
        }
    }
}

fn table<'f>(files: impl Iterator<Item = &'f FileStatus>) -> String {
    let rows = files.map(|file| {
        vec![
            format!("{:.0}", file.starts),
            file.cpu_ns.map_or_else(|| "-".to_owned(), time),
            bytes(file.bytes),
            time(file.saves_ns),
            shown(&file.path),
            file.reason.clone(),
        ]
    });
    let header = ["starts", "cpu", "text", "saves", "file", "why"];
    figures(&header, &[4, 5], rows.collect())
}

/// One file.
pub(super) fn why(known: Option<&FileStatus>, path: &Path, reason: &str) -> String {
    let path = shown(path);
    let Some(file) = known else {
        return format!("{path}: not held: {reason}");
    };
    let state = match file.state {
        State::Held => "held",
        State::WouldHold => "would be held",
        State::Waiting => "waiting",
        State::Refused => "not held",
    };
    let starts = format!("{:.0} starts", file.starts);
    let uncounted = || "uncounted processor time".to_owned();
    let cpu = |nanoseconds| format!("{} of processor time", time(nanoseconds));
    let cpu = file.cpu_ns.map_or_else(uncounted, cpu);
    let saves = time(file.saves_ns);
    let (users, cgroups) = (
        count(file.users, "user"),
        count(file.cgroups, "control group"),
    );
    let (text, huge) = (bytes(file.bytes), file.huge);
    let windows = count(file.windows, "window");
    format!(
        "{path}: {state}: {reason}\n  \
         remembered: {starts} and {cpu}, by {users} and {cgroups}\n  \
         text: {text} in {windows}, {huge} of them held on huge pages\n  \
         expected to save {saves} over the next half-life"
    )
}

fn hours(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 3.6e12
}

/// A time for display.
fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        _ if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (value, text) in [
            (0, "0 µs"),
            (400_000, "400 µs"),
            (250_000_000, "250 ms"),
            (12_340_000_000, "12.3 s"),
            (600_000_000_000, "10 min"),
        ] {
            assert_eq!(time(value), text);
        }
    }
}
