//! A directory with a program, and the daemon that watches it.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::session::{HARMLESS, session};

pub(crate) fn hugetext() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
}

/// A directory with a program of four windows, settings, and places for the daemon.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new(mode: &str) -> Place {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Place { directory };
        place.configure(&format!(
            "mode = \"{mode}\"\nbudget = \"64M\"\nshare = 0.02\n"
        ));
        place.install(0);
        // The daemon makes the directory of its documents.
        fs::create_dir(place.path("lists")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        // The kernel names files without links.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.path("auto.toml"), text).unwrap();
    }

    /// Compiles the program that answers `status`, and renames it into place, as packages do. With an
    /// argument, it works until it is killed, and reads all its text: machines that reclaim what is cold
    /// (DAMON_RECLAIM) leave it alone.
    pub(crate) fn install(&self, status: u8) {
        self.install_with(status, 8 << 20);
    }

    /// The same with this number of bytes of text.
    pub(crate) fn install_with(&self, status: u8, text: u32) {
        let source = format!(
            "extern volatile char text[];\n\
             int main(int count, char **words) {{\n\
                 while (count > 1) for (int at = 0; at < {text}; at += 4096) text[at];\n\
                 return {status};\n\
             }}\n\
             __asm__(\".text\\n.balign 4096\\ntext: .skip {text}, 0xc3\\n\");\n"
        );
        let new = self.path("new");
        fs::write(self.path("program.c"), source).unwrap();
        let compiled = Command::new("cc")
            .args(["-Wl,-z,max-page-size=0x200000", "-o"])
            .args([&new, &self.path("program.c")])
            .status();
        assert!(compiled.unwrap().success());
        // What is not written back cannot be dropped and read again.
        fs::File::open(&new).unwrap().sync_all().unwrap();
        fs::rename(new, self.path("program")).unwrap();
    }

    pub(crate) fn daemon(&self, options: &[&str]) -> Daemon {
        self.daemon_by(hugetext(), options)
    }

    /// The same by a command that ends in the path of hugetext.
    pub(crate) fn daemon_by(&self, mut command: Command, options: &[&str]) -> Daemon {
        let mut child = command
            .env("XDG_RUNTIME_DIR", self.session())
            .args(["--json", "auto"])
            .args(options)
            .arg("--config")
            .arg(self.path("auto.toml"))
            .arg("--state")
            .arg(self.path("state"))
            .arg("--run-dir")
            .arg(self.path("run"))
            .arg("--lists")
            .arg(self.path("lists"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let complaints = BufReader::new(child.stderr.take().unwrap());
        Daemon {
            child,
            events: events(lines),
            complaints,
        }
    }

    /// How the daemon sees starts, once it has said so.
    pub(crate) fn status_source(&self) -> String {
        while !self.path("run/all.json").exists() {
            run_behind_others(&mut Command::new(self.path("program"))).unwrap();
        }
        self.status()["source"].as_str().unwrap().to_owned()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("run/all.json")).unwrap()).unwrap()
    }

    /// The directory of a session on a machine on which leaves do no harm: what a busy machine found of itself is another
    /// matter.
    pub(crate) fn session(&self) -> PathBuf {
        session(HARMLESS, self.directory.path())
    }

    /// What the status says about a file of the directory.
    pub(crate) fn status_of(&self, path: &Path) -> Option<Value> {
        let mut status = self.status();
        let files = status["files"].as_array_mut().unwrap();
        let at = files
            .iter()
            .position(|file| file["path"] == path.to_str().unwrap())?;
        Some(files.swap_remove(at))
    }

    /// Why the daemon could not hold what it should have held, if that was the machine: it gave no huge
    /// folios, because its memory is fragmented, or tasks stalled for memory.
    pub(crate) fn excuse(&self) -> Option<&'static str> {
        let status = self.status();
        if status.to_string().contains("in small folios") {
            return Some("the kernel gave no huge folios");
        }
        let stalls = ["some", "full", "missed", "plenty"];
        let stalled = stalls.iter().any(|kind| status["stalls"][kind] != 0);
        stalled.then_some("tasks stalled for memory")
    }

    /// Runs the program until the daemon says `event` about it. `None`, with the reason printed, if
    /// the machine has an excuse.
    pub(crate) fn run_until(&self, daemon: &Daemon, event: &str) -> Option<Value> {
        self.run_other_until(daemon, &self.path("program"), event)
    }

    /// The same with another program.
    pub(crate) fn run_other_until(
        &self,
        daemon: &Daemon,
        program: &Path,
        event: &str,
    ) -> Option<Value> {
        self.run_as_until(daemon, 0, program, event)
    }

    /// The same on behalf of a user.
    pub(crate) fn run_as_until(
        &self,
        daemon: &Daemon,
        user: u32,
        program: &Path,
        event: &str,
    ) -> Option<Value> {
        let mut command = Command::new(program);
        command.uid(user);
        self.told(daemon, command, program, event)
    }

    /// Runs `started` until the daemon says `event` about another program.
    pub(crate) fn run_until_told(
        &self,
        daemon: &Daemon,
        started: &Path,
        program: &Path,
        event: &str,
    ) -> Option<Value> {
        self.told(daemon, Command::new(started), program, event)
    }

    fn told(
        &self,
        daemon: &Daemon,
        mut started: Command,
        program: &Path,
        event: &str,
    ) -> Option<Value> {
        let concerns = |told: &Value| match event {
            "promoted" => told["reason"].as_str().unwrap().starts_with("program ("),
            _ => told["path"] == program.to_str().unwrap(),
        };
        let begun = Instant::now();
        for () in turns() {
            if begun.elapsed() > ENOUGH && self.excuse().is_some() {
                break;
            }
            let _ = run_behind_others(&mut started);
            for told in daemon.events.try_iter() {
                if told["event"] == event && concerns(&told) {
                    return Some(told);
                }
            }
        }
        let status = format!("{:#}", self.status());
        let excuse = self.excuse();
        assert!(excuse.is_some(), "never {event}: {status}");
        println!("skipped: never {event}, because {}: {status}", excuse?);
        None
    }

    /// Makes a FIFO in the directory.
    pub(crate) fn make_fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        path
    }

    /// Copies the program to another place in the directory.
    pub(crate) fn copy_program(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(self.path("program"), &path).unwrap();
        // What is not written back cannot be dropped and read again.
        fs::File::open(&path).unwrap().sync_all().unwrap();
        path
    }
}

/// How long the daemon may take to act, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// And how long if it has an excuse.
const ENOUGH: Duration = Duration::from_secs(30);

/// Runs a command behind all else: daemons and other tests have the processors first.
pub(crate) fn run_behind_others(command: &mut Command) -> io::Result<ExitStatus> {
    let run = || {
        // Each thread has a niceness of its own, and what it starts inherits that.
        let _ = rustix::process::nice(10);
        command.status()
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// The turns that a test takes until the daemon has acted, or had its time. It acts beside starts, so each turn starts
/// a program. A hundred starts a second make any program hot. More of them would only take the processors from the daemon
/// and from other tests, so this is a pace, and nothing depends on it.
pub(crate) fn turns() -> impl Iterator<Item = ()> {
    let begun = Instant::now();
    std::iter::repeat_with(|| thread::sleep(PACE)).take_while(move |()| begun.elapsed() < PATIENCE)
}

const PACE: Duration = Duration::from_millis(8);

/// The lines of the daemon, as they come.
pub(crate) fn events(lines: BufReader<ChildStdout>) -> Receiver<Value> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let _ = send.send(serde_json::from_str(&line).unwrap());
        }
    });
    receive
}

pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) events: Receiver<Value>,
    complaints: BufReader<ChildStderr>,
}

impl Daemon {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line on stderr.
    pub(crate) fn complaint(&mut self) -> String {
        let mut line = String::new();
        self.complaints.read_line(&mut line).unwrap();
        line
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this machine can hold the program; says why not.
pub(crate) fn can_hold(place: &Place) -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        println!("skipped: only root sees what all processes run");
        return false;
    }
    let warmed = hugetext()
        .env("XDG_RUNTIME_DIR", place.session())
        .arg("warm")
        .arg(place.path("program"))
        .output();
    let warmed = warmed.unwrap();
    if !warmed.status.success() {
        let said = String::from_utf8_lossy(&warmed.stdout).into_owned();
        println!("skipped: no huge folios here: {said}");
        return false;
    }
    true
}

/// A process that works until this value is dropped.
pub(crate) struct Working(pub(crate) Child);

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
