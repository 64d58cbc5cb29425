//! The sentence that ends an answer.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What a result means to its user, and what to type next.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Meaning {
    /// What it is, in one or two sentences.
    pub says: String,
    /// The next command; absent where nothing is left to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Meaning {
    /// Sentences, and the command that follows from them.
    pub fn new(says: impl Into<String>, next: impl Into<String>) -> Meaning {
        Meaning {
            says: says.into(),
            next: Some(next.into()),
        }
    }

    /// Sentences after which nothing is left to do.
    pub fn last(says: impl Into<String>) -> Meaning {
        Meaning {
            says: says.into(),
            next: None,
        }
    }

    /// Adds a sentence.
    #[must_use]
    pub fn and(mut self, sentence: Option<&str>) -> Meaning {
        if let Some(sentence) = sentence {
            self.says.push(' ');
            self.says.push_str(sentence);
        }
        self
    }
}

impl fmt::Display for Meaning {
    /// One line. The command is its end, so that it can be copied.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)?;
        match &self.next {
            Some(next) => write!(f, " Next: {next}"),
            None => Ok(()),
        }
    }
}
