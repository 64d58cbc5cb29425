//! One row of the inventory.

use hugetext_leaf::Version;
use hugetext_leaf::verdict::Verdict;

use crate::facts::{Facts, Ground, SegmentFacts};

/// A segment of a file and a leaf, on one host or in one image at one time. docs/inventory.md says what each
/// column means; a field is a column of the same name.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Row {
    pub(crate) time: i64,
    pub(crate) machine: String,
    pub(crate) image: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) build_id: Option<String>,
    pub(crate) file: String,
    pub(crate) segment: i32,
    pub(crate) leaf: i64,
    pub(crate) text: i64,
    pub(crate) layout_now: i64,
    pub(crate) layout_fix: i64,
    pub(crate) layout_merge: i64,
    pub(crate) reach_now: i64,
    pub(crate) reach_fix: i64,
    pub(crate) reach_merge: i64,
    pub(crate) cause: Option<String>,
    pub(crate) needs_kernel: Option<i32>,
    pub(crate) linker: Option<String>,
    pub(crate) filesystem: String,
    pub(crate) kernel: String,
    pub(crate) kernel_number: i32,
    pub(crate) thp: String,
    pub(crate) refused: Option<String>,
    pub(crate) starts: f64,
    pub(crate) cpu_ns: i64,
    pub(crate) huge: i64,
    pub(crate) memory_limit: Option<i64>,
    pub(crate) verdict: Option<String>,
}

/// What all rows of one run have in common.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// Seconds since the epoch.
    pub(crate) time: i64,
    /// The machine, independent of its name.
    pub(crate) machine: String,
    /// The THP setting.
    pub(crate) thp: String,
    /// The release of the kernel.
    pub(crate) kernel: String,
    /// What huge text gives on the machine, as `hugetext host` says; `None` where no verdict can be kept.
    pub(crate) verdict: Option<Verdict>,
}

/// The image that a file lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageName {
    /// A name, if it has one.
    pub(crate) name: Option<String>,
    /// The digest of its manifest or configuration.
    pub(crate) digest: String,
}

/// How much a file is used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Use {
    /// Starts that the autopilot remembers.
    pub(crate) starts: f64,
    /// Nanoseconds of processor time that it remembers.
    pub(crate) cpu_ns: u64,
    /// Why it holds nothing of the file; `None` if it does, or is not there.
    pub(crate) refused: Option<String>,
    /// Text that PMD leaves map in the process with most, by offset in the file.
    pub(crate) huge: Vec<(u64, u64)>,
    /// Bytes of memory that control groups allow the processes that run it: the lowest limit; `None` without one.
    pub(crate) memory_limit: Option<u64>,
}

/// The rows of a file.
pub(crate) fn rows(
    moment: &Moment,
    image: Option<&ImageName>,
    file: &str,
    (facts, ground): (&Facts, &Ground),
    used: &Use,
) -> Vec<Row> {
    let first = facts.segments.iter().map(|segment| segment.segment).min();
    let row = |segment: &SegmentFacts| {
        // Once for a file, so that sums are right.
        let is_first = Some(segment.segment) == first;
        let reach = |bytes| if segment.is_able { signed(bytes) } else { 0 };
        let layout = segment.layout;
        let of_segment = |(offset, _): &&(u64, u64)| segment.file.contains(*offset);
        let huge: u64 = used
            .huge
            .iter()
            .filter(of_segment)
            .map(|(_, bytes)| *bytes)
            .sum();
        Row {
            time: moment.time,
            machine: moment.machine.clone(),
            image: image.and_then(|image| image.name.clone()),
            digest: image.map(|image| image.digest.clone()),
            build_id: facts.build_id.clone(),
            file: file.to_owned(),
            segment: segment.segment,
            leaf: signed(segment.leaf),
            text: signed(segment.text),
            layout_now: signed(layout.now),
            layout_fix: signed(layout.fix),
            layout_merge: signed(layout.merge),
            reach_now: reach(layout.now),
            reach_fix: reach(layout.fix),
            reach_merge: reach(layout.merge),
            cause: segment.cause.clone(),
            needs_kernel: segment.needs_kernel.map(number),
            linker: facts.linker.clone(),
            filesystem: ground.filesystem.name().to_owned(),
            kernel: moment.kernel.clone(),
            kernel_number: number(ground.kernel.version),
            thp: moment.thp.clone(),
            refused: used.refused.clone(),
            starts: if is_first { used.starts } else { 0.0 },
            cpu_ns: if is_first { signed(used.cpu_ns) } else { 0 },
            huge: signed(huge),
            memory_limit: used.memory_limit.map(signed),
            verdict: moment.verdict.map(|verdict| verdict.name().to_owned()),
        }
    };
    facts.segments.iter().map(row).collect()
}

/// What tells rows of one run apart.
fn identity(row: &Row) -> impl Ord {
    let image = (&row.image, &row.digest);
    let file = (&row.file, &row.build_id, row.text, &row.filesystem);
    (image, file, row.segment, row.leaf)
}

/// Each row once: containers of one image run the same files from mounts of their own, and an image may have been
/// named twice. The row with most huge text stays.
pub(crate) fn once(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| identity(a).cmp(&identity(b)).then(b.huge.cmp(&a.huge)));
    rows.dedup_by(|next, kept| identity(next) == identity(kept));
    rows
}

/// A version as one number that grows with it: 6.18 is 6018.
pub(crate) fn number(version: Version) -> i32 {
    i32::from(version.major) * 1000 + i32::from(version.minor)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_several_containers_run_has_one_row() {
        let row = |build_id: &str, segment, huge| Row {
            file: "/usr/bin/node".to_owned(),
            build_id: Some(build_id.to_owned()),
            segment,
            huge,
            ..Row::default()
        };
        let seen = vec![
            row("aa", 1, 0),
            row("bb", 1, 0),
            row("aa", 1, 7),
            row("aa", 2, 0),
        ];
        assert_eq!(
            once(seen),
            [row("aa", 1, 7), row("aa", 2, 0), row("bb", 1, 0)]
        );
    }
}
