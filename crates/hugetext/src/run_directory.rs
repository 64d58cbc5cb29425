//! Where the daemon of `hugetext auto` says what it does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use hugetext_auto::author::DaemonState;
use hugetext_auto::status::{self, Status};

use crate::failure::Failure;
use crate::output::Output;

// The directory of its documents. This is no documentation comment: clap would print it as the headline of the
// command that flattens it.
#[derive(Debug, Args)]
pub(crate) struct RunDirectory {
    /// Directory in which the daemon of `hugetext auto` writes its documents
    #[arg(long, value_name = "DIR", default_value = status::DIRECTORY, global = true)]
    run_dir: PathBuf,
}

impl RunDirectory {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.run_dir
    }

    /// What the daemon says. A warning says if it is old.
    pub(crate) fn read(&self, output: &Output) -> Result<Status, Failure> {
        let status = Status::read(&self.run_dir).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::at(&self.run_dir, "no daemon runs here")
                .remedy("start it: systemctl enable --now hugetext-auto"),
            _ => Failure::io(&self.run_dir, &error),
        })?;
        let (pid, age) = (status.pid, status.age().as_secs());
        let problem = match status.daemon() {
            DaemonState::Runs => return Ok(status),
            DaemonState::Silent => {
                format!("the daemon, process {pid}, has said nothing for {age} s")
            }
            DaemonState::Ended => {
                format!("the daemon, process {pid}, has ended; it said this {age} s ago")
            }
        };
        let failure = Failure::at(&self.run_dir, problem);
        output.warn(failure.remedy("start it again: systemctl restart hugetext-auto"));
        Ok(status)
    }
}
