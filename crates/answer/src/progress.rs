//! Shows how far a benchmark is.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use hugetext_bench::{BenchError, Observer};
use indicatif::ProgressBar;

use crate::output::Output;

/// How often a bar without known length moves.
const TICK: Duration = Duration::from_millis(100);

/// A progress bar for the present work of a benchmark.
pub struct BenchProgress<'o> {
    output: &'o Output,
    bar: RefCell<ProgressBar>,
}

impl BenchProgress<'_> {
    /// Shown on the stderr of `output`.
    pub fn new(output: &Output) -> BenchProgress<'_> {
        BenchProgress {
            output,
            bar: RefCell::new(ProgressBar::hidden()),
        }
    }
}

impl Observer for BenchProgress<'_> {
    fn begin(&self, what: &'static str, steps: u64) {
        let bar = self.output.progress(what, steps);
        if steps == 0 {
            bar.enable_steady_tick(TICK);
        }
        self.bar.replace(bar).finish_and_clear();
    }

    fn step(&self) {
        self.bar.borrow().inc(1);
    }

    fn say(&self, what: &'static str) {
        self.bar.borrow().set_message(what);
    }

    fn end(&self) {
        self.bar.borrow().finish_and_clear();
    }

    fn tell(&self, text: &dyn fmt::Display) {
        self.output.tell_user(text);
    }

    fn warn(&self, text: &dyn fmt::Display) {
        self.output.warn(text);
    }

    fn left_out(&self, why: &BenchError) {
        self.output.error(&why.clone().into());
    }
}
