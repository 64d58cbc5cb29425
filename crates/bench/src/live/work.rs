//! Units of work that a service has done, from what counts them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hugetext_host::Pid;

use super::command::printed;
use super::counters::Instructions;
use super::work_error::{ANSWER, WorkError};
use crate::interrupt::Bounds;

/// What counts the work.
#[derive(Debug, Clone)]
pub enum Source {
    /// A command for the shell. The last number that it prints is the count.
    Command(String),
    /// A log. A line is a unit.
    Log(PathBuf),
    /// A counter of a Prometheus endpoint; the sum over its labels.
    Metric {
        /// The address of the endpoint.
        url: String,
        /// The name of the counter.
        name: String,
    },
    /// The instructions that the processes retire in user mode. A million is a unit.
    Instructions,
}

const INSTRUCTIONS_OF_A_UNIT: f64 = 1e6;

/// A counter that is being read.
#[derive(Debug)]
pub(super) enum Meter {
    Command(String),
    Log(Log),
    Metric { url: String, name: String },
    Instructions(Instructions),
}

impl Meter {
    /// Begins to count the work of `pids`. A log counts from its present end.
    pub(super) fn open(source: &Source, pids: &[Pid]) -> Result<Meter, WorkError> {
        Ok(match source {
            Source::Command(command) => Meter::Command(command.clone()),
            Source::Log(path) => Meter::Log(Log::at_end(path).map_err(failed(path))?),
            Source::Metric { url, name } => Meter::Metric {
                url: url.clone(),
                name: name.clone(),
            },
            Source::Instructions => {
                let counters = Instructions::start(pids).map_err(WorkError::NoInstructions)?;
                Meter::Instructions(counters)
            }
        })
    }

    /// The units of work done so far.
    pub(super) fn read(&mut self, bounds: &Bounds<'_>) -> Result<f64, WorkError> {
        match self {
            Meter::Command(command) => printed(command, bounds),
            Meter::Log(log) => {
                let path = log.path.clone();
                log.lines().map_err(failed(&path))
            }
            Meter::Metric { url, name } => metric(url, name),
            Meter::Instructions(counters) => {
                let count = counters.read().map_err(WorkError::NoInstructions)?;
                Ok(count as f64 / INSTRUCTIONS_OF_A_UNIT)
            }
        }
    }
}

/// The units between two counts.
pub(super) fn between(from: f64, to: f64) -> Result<f64, WorkError> {
    if to < from {
        Err(WorkError::WentBack { from, to })
    } else if to > from {
        Ok(to - from)
    } else {
        Err(WorkError::Stalled { at: from })
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> WorkError {
    let path = path.to_owned();
    move |source| WorkError::Log {
        path: path.clone(),
        source,
    }
}

/// A log that is followed by name: it may be rotated or cut short meanwhile.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// Bytes of the file that were counted.
    seen: u64,
    lines: u64,
}

impl Log {
    fn at_end(path: &Path) -> io::Result<Log> {
        let mut file = File::open(path)?;
        let seen = file.seek(SeekFrom::End(0))?;
        Ok(Log {
            path: path.to_owned(),
            file,
            seen,
            lines: 0,
        })
    }

    /// The lines added since the beginning.
    fn lines(&mut self) -> io::Result<f64> {
        self.follow()?;
        // A rotated log was read to its end first.
        let now = File::open(&self.path)?;
        if now.metadata()?.ino() != self.file.metadata()?.ino() {
            (self.file, self.seen) = (now, 0);
            self.follow()?;
        }
        Ok(self.lines as f64)
    }

    fn follow(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() < self.seen {
            self.seen = 0;
        }
        self.file.seek(SeekFrom::Start(self.seen))?;
        let mut bytes = [0; 64 << 10];
        loop {
            let read = match self.file.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let new = bytes.get(..read).unwrap_or_default();
            self.lines += new.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.seen += read as u64;
        }
    }
}

fn metric(url: &str, name: &str) -> Result<f64, WorkError> {
    let problem = |problem: String| WorkError::Endpoint {
        url: url.to_owned(),
        problem,
    };
    let answer = minreq::get(url).with_timeout(ANSWER.as_secs()).send();
    let answer = answer.map_err(|error| problem(error.to_string()))?;
    if answer.status_code != 200 {
        return Err(problem(format!("answers {}", answer.status_code)));
    }
    let text = answer
        .as_str()
        .map_err(|error| problem(error.to_string()))?;
    sum_of(text, name).ok_or_else(|| WorkError::NoMetric {
        url: url.to_owned(),
        name: name.to_owned(),
    })
}

/// The sum of the samples of `name` in Prometheus' text format: `name{labels} value [timestamp]`.
fn sum_of(text: &str, name: &str) -> Option<f64> {
    let samples = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            // Label values may hold braces, but no label ends the line.
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(|space: char| space.is_whitespace())?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    let sum = samples.reduce(|sum, sample| sum + sample);
    sum.filter(|sum| sum.is_finite())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::interrupt::Interrupt;

    #[test]
    fn counts_must_grow() {
        assert_eq!(between(3.0, 5.0).unwrap(), 2.0);
        assert!(matches!(between(5.0, 3.0), Err(WorkError::WentBack { .. })));
        assert!(matches!(between(5.0, 5.0), Err(WorkError::Stalled { .. })));
        assert!(between(f64::NAN, 1.0).is_err());
    }

    #[test]
    fn a_log_is_followed_when_it_is_rotated_and_when_it_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = File::create(&path).unwrap();
        writeln!(file, "old").unwrap();
        let mut meter = Meter::open(&Source::Log(path.clone()), &[]).unwrap();
        let interrupt = Interrupt::default();
        let mut read = || meter.read(&interrupt.within(60));
        assert_eq!(read().unwrap(), 0.0);
        write!(file, "one\ntwo\nhal").unwrap();
        assert_eq!(read().unwrap(), 2.0);
        writeln!(file, "f").unwrap();
        std::fs::rename(&path, directory.path().join("log.1")).unwrap();
        std::fs::write(&path, "four\n").unwrap();
        assert_eq!(read().unwrap(), 4.0);
        std::fs::write(&path, "5\n").unwrap();
        assert_eq!(read().unwrap(), 5.0);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read(), Err(WorkError::Log { .. })));
    }

    #[test]
    fn samples_of_a_counter_are_summed_over_its_labels() {
        let text = "# TYPE requests_total counter\n\
            requests_total{path=\"/a}b\",code=\"200\"} 3\n\
            requests_total{path=\"/c\"} 4.5 1395066363000\n\
            requests_total_other 9\n\
            up 1\n";
        assert_eq!(sum_of(text, "requests_total"), Some(7.5));
        assert_eq!(sum_of(text, "up"), Some(1.0));
        assert_eq!(sum_of(text, "requests"), None);
        assert_eq!(sum_of("up NaN\nup 1\n", "up"), None);
    }

    /// An endpoint that gives each answer once, to one asker after the other.
    fn endpoint(answers: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (answer, stream) in answers.iter().zip(listener.incoming()) {
                let mut stream = stream.unwrap();
                let request = BufReader::new(&stream).lines().map(Result::unwrap);
                request.take_while(|line| !line.is_empty()).for_each(drop);
                write!(stream, "HTTP/1.1 {answer}").unwrap();
            }
        });
        format!("http://{address}/metrics")
    }

    #[test]
    fn an_endpoint_is_asked_each_time_and_its_failures_are_named() {
        let url = endpoint(&[
            "200 OK\r\nContent-Length: 15\r\n\r\nrequests{} 41\n\n",
            "200 OK\r\nContent-Length: 11\r\n\r\nrequests 42",
            "200 OK\r\nContent-Length: 4\r\n\r\nup 1",
            "503 Busy\r\nContent-Length: 0\r\n\r\n",
        ]);
        let name = "requests".to_owned();
        let source = Source::Metric {
            url: url.clone(),
            name,
        };
        let mut meter = Meter::open(&source, &[]).unwrap();
        let interrupt = Interrupt::default();
        let mut read = || meter.read(&interrupt.within(60));
        assert_eq!(read().unwrap(), 41.0);
        assert_eq!(read().unwrap(), 42.0);
        let said = [(); 3].map(|()| read().unwrap_err().to_string());
        assert_eq!(said[0], format!("{url}: has no counter named requests"));
        assert_eq!(said[1], format!("{url}: answers 503"));
        // It is gone.
        assert!(said[2].starts_with(&url), "{}", said[2]);
    }
}
