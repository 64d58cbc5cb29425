//! What all parts of the daemon go by: the configuration, what the machine pays, and the time.

use std::path::Path;
use std::time::{Duration, Instant};

use hugetext_leaf::Leaf;
use hugetext_leaf::hold::{Costs, EvidenceTime};
use hugetext_leaf::verdict::Verdict;

use crate::calibrate::{Calibration, calibrate};
use crate::config::{Config, ConfigError, Mode};

/// What things cost is measured again after this long, which takes milliseconds, and less than a second on slow machines.
const CALIBRATE: Duration = Duration::from_secs(1800);

/// What all parts go by. They read it; only the loop changes it.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) config: Config,
    /// Whether to only observe, also if the configuration says mode = "act".
    observe: bool,
    pub(super) costs: Costs,
    /// What huge text gives on this machine.
    pub(super) verdict: Verdict,
    pub(super) leaf: Leaf,
    begun: Instant,
    /// How long this machine was watched by earlier daemons.
    watched_before: Duration,
    calibrated: Instant,
}

impl Terms {
    /// The terms of a daemon that begins now. What things cost was measured a moment ago.
    pub(super) fn new(
        config: Config,
        observe: bool,
        calibration: &Calibration,
        leaf: Leaf,
    ) -> Terms {
        Terms {
            config,
            observe,
            costs: calibration.costs,
            verdict: calibration.verdict,
            leaf,
            begun: Instant::now(),
            watched_before: Duration::ZERO,
            calibrated: Instant::now(),
        }
    }

    /// Earlier daemons watched this machine for so long.
    pub(super) fn watched_before(&mut self, watched: Duration) {
        self.watched_before = watched;
    }

    /// How long this machine was watched in all.
    pub(super) fn now(&self) -> Duration {
        self.watched_before.saturating_add(self.begun.elapsed())
    }

    /// Now, and how fast evidence fades.
    pub(super) fn moment(&self) -> EvidenceTime {
        EvidenceTime {
            now: self.now(),
            half_life: self.config.half_life(),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        if self.observe {
            Mode::Observe
        } else {
            self.config.mode
        }
    }

    /// Takes a new configuration.
    pub(super) fn reload(&mut self, path: &Path) -> Result<(), ConfigError> {
        self.config = Config::read(path)?;
        self.costs.set_share = self.config.set_share();
        Ok(())
    }

    /// The daemon begins while the machine boots and everything takes long. A quieter moment tells what things cost.
    /// Returns whether that was measured again.
    pub(super) fn calibrate_again(&mut self) -> bool {
        if self.calibrated.elapsed() < CALIBRATE {
            return false;
        }
        self.calibrated = Instant::now();
        let again = calibrate(self.leaf, self.config.set_share());
        if let Ok(again) = &again {
            self.costs = self.costs.least(again.costs);
            self.verdict = again.verdict;
        }
        again.is_ok()
    }
}
