//! What is done about a file, in one word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done about a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its huge windows are locked or, without windows, its text in the largest folios.
    Held,
    /// It would be held, and the daemon only observes.
    WouldHold,
    /// It should be held, but something is in the way for now.
    Waiting,
    /// It is not held.
    Refused,
}

impl State {
    /// One word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::WouldHold => "would-hold",
            State::Waiting => "waiting",
            State::Refused => "refused",
        }
    }

    /// One word, as in metrics.
    pub fn label(self) -> &'static str {
        match self {
            State::WouldHold => "would_hold",
            other => other.name(),
        }
    }
}
