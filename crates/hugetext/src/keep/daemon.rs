//! `hugetext keep daemon`: the daemon of `hugetext auto` with the lists alone. It warms the files that
//! the lists name, as `warm` does, and locks them in memory, so that reclaim leaves them.

use hugetext_auto::fixed::FixedList;
use hugetext_engine::keep::HoldReport;

use super::{Options, directories, lines};
use crate::documents::keep::DaemonReport;
use crate::failure::{Failure, plain};
use crate::output::Output;
use crate::size::Size;
use crate::table::{bytes, count};
use crate::verdict::Verdict;

/// Runs until it is killed; the kernel then unlocks the memory.
pub(super) fn run(options: &Options, budget: Size, output: &Output) -> Result<Verdict, Failure> {
    let failed = |error| Failure::new("inotify", plain(&error));
    let lists = FixedList::new(directories(options)?, options.store.clone());
    let mut lists = lists.map_err(failed)?;
    let mut told = None;
    loop {
        let renewed = lists.renew(budget.bytes())?;
        for error in renewed.unreadable {
            output.error(&error.into());
        }
        let news = Some((DaemonReport::of(renewed.report), renewed.states));
        if told != news {
            told = news;
            told.iter()
                .try_for_each(|(report, _)| report.print(output))?;
            if output.reader_is_gone() {
                return Ok(Verdict::Done);
            }
        }
        lists.wait().map_err(failed)?;
    }
}

impl DaemonReport {
    fn of(mut held: HoldReport) -> DaemonReport {
        DaemonReport {
            problems: lines(std::mem::take(&mut held.problems)),
            held,
        }
    }

    fn print(&self, output: &Output) -> Result<(), Failure> {
        for problem in &self.problems {
            output.warn(problem);
        }
        output.event("keep daemon", self, |report| {
            let held = &report.held;
            format!(
                "{} locked in {}, {} over the budget of {}",
                bytes(held.locked),
                count(held.files, "file"),
                bytes(held.over),
                bytes(held.budget)
            )
        })
    }
}
