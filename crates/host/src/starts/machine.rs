//! Reports who executes what on the whole machine, without stopping any process. The kernel reports
//! forks, executions and exits (the proc connector), and files opened for execution (fanotify).
//!
//! Reports may be lost if they come faster than they are read; losses are reported. Needs the
//! powers of root outside any container.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connector::{Connector, ProcessReport};
use super::opened::Opened;
use crate::processes::Pid;

/// An event of a process. Threads are not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// `parent` has a new child.
    Fork {
        /// The process that forked.
        parent: Pid,
        /// The new process.
        child: Pid,
    },
    /// A process has executed a program.
    Exec {
        /// The process.
        pid: Pid,
        /// The file, as its mount namespace names it; `None` if it was not seen.
        program: Option<PathBuf>,
    },
    /// A process has ended.
    Exit {
        /// The process.
        pid: Pid,
    },
    /// Some reports were lost; their number is unknown.
    Lost,
}

/// The reports of the machine since this value was made.
#[derive(Debug)]
pub struct Starts {
    connector: Connector,
    opened: Opened,
    processes: HashMap<Pid, Files>,
}

/// What is known of the files of a process.
#[derive(Debug, Default)]
struct Files {
    /// A file opened for execution, before its execution was reported.
    opened: Vec<PathBuf>,
    /// The program that it executes.
    program: Option<PathBuf>,
}

impl Files {
    /// The program of the next execution. The kernel reports a file only once if a process opens it
    /// twice in a row, so without a report the program is the same again (`env env true`).
    fn execute(&mut self) -> Option<PathBuf> {
        if let Some(program) = first_program(&mut self.opened) {
            self.program = Some(program);
        }
        self.program.clone()
    }
}

impl Starts {
    /// An error if the reports are not permitted, or not supported by the kernel.
    pub fn new() -> io::Result<Starts> {
        Ok(Starts {
            opened: Opened::new()?,
            connector: Connector::new()?,
            processes: HashMap::new(),
        })
    }

    /// The events since the last call, in order. Without events, waits for `timeout`, or until
    /// `also` can be read.
    pub fn wait(&mut self, timeout: Duration, also: impl AsFd) -> io::Result<Vec<Start>> {
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The files are read together with the executions, which are reported after them.
        let mut ready = [
            PollFd::new(&self.connector, PollFlags::IN),
            PollFd::new(&also, PollFlags::IN),
        ];
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // This order guarantees that the files of every reported execution are there already.
        let reports = self.connector.read()?;
        let mut starts = Vec::new();
        for file in self.opened.read()? {
            match file {
                Some((pid, path)) => self.processes.entry(pid).or_default().opened.push(path),
                None => starts.push(Start::Lost),
            }
        }
        for report in reports {
            starts.push(match report {
                ProcessReport::Fork { parent, child } => Start::Fork { parent, child },
                ProcessReport::Exec { pid } => {
                    let program = self.processes.entry(pid).or_default().execute();
                    Start::Exec { pid, program }
                }
                ProcessReport::Exit { pid } => {
                    self.processes.remove(&pid);
                    Start::Exit { pid }
                }
                ProcessReport::Lost => Start::Lost,
            });
        }
        Ok(starts)
    }
}

/// Takes the files of one execution from the front: a script and its interpreters, then the program
/// itself, then its loader, which is the last one. Without a loader, all are taken.
fn first_program(files: &mut Vec<PathBuf>) -> Option<PathBuf> {
    let loader = files.iter().position(|file| is_loader(file));
    let taken = loader.map_or(files.len(), |loader| loader.saturating_add(1));
    let taken: Vec<PathBuf> = files.drain(..taken).collect();
    // A loader that comes alone was itself executed by name.
    let program = taken.iter().rev().find(|file| !is_loader(file));
    program.or(taken.last()).cloned()
}

/// Names of loaders: ld-linux-x86-64.so.2, ld-2.31.so, ld-musl-x86_64.so.1, ld64.so.2, ld.so.1.
fn is_loader(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| {
        let begins = ["ld-", "ld.so", "ld64.so"]
            .iter()
            .any(|start| name.starts_with(start));
        begins && name.contains(".so") || is_musl(&name)
    })
}

/// The loader of musl is its library.
fn is_musl(name: &str) -> bool {
    name == "libc.so" || name.starts_with("libc.musl-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_execution_that_their_loader_ends() {
        let mut files: Vec<PathBuf> = [
            "/usr/bin/env",
            "/lib/ld-linux-x86-64.so.2",
            "/home/script",
            "/bin/bash",
            "/lib/ld-linux-x86-64.so.2",
            "/bin/static",
        ]
        .map(PathBuf::from)
        .into();
        let mut next = || first_program(&mut files).map(|path| path.display().to_string());
        assert_eq!(next().as_deref(), Some("/usr/bin/env"));
        assert_eq!(next().as_deref(), Some("/bin/bash"));
        assert_eq!(next().as_deref(), Some("/bin/static"));
        assert_eq!(next(), None);
        let mut alone = vec![PathBuf::from("/lib64/ld-2.31.so")];
        let program = first_program(&mut alone);
        assert_eq!(program.as_deref(), Some(Path::new("/lib64/ld-2.31.so")));
    }

    #[test]
    fn a_file_executed_twice_in_a_row_is_told_once() {
        let mut files = Files {
            opened: vec![PathBuf::from("/usr/bin/env")],
            program: None,
        };
        assert_eq!(files.execute(), files.execute());
        assert!(files.program.is_some());
    }
}
