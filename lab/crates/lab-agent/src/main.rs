//! Init of a lab guest: sets up, runs the job, reports, and waits to be switched off.

mod init;
mod probe;

use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, ExitCode};

use hugetext_lab_agent::{Event, Finished, JOB, Job, PROGRAMS};

fn main() -> ExitCode {
    let result = run();
    if let Err(error) = &result {
        eprintln!("lab agent: {error}");
    }
    // The first process must not end, because the kernel would panic. The lab ends the machine; if
    // no lab listens, the machine ends itself.
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

fn run() -> Result<(), init::InitError> {
    init::mount_pseudo()?;
    let job: Job = serde_json::from_slice(&std::fs::read(JOB)?).map_err(io::Error::other)?;
    let mut missing = init::load_modules(&job.modules);
    let mut lab = Lab(init::event_port()?);
    missing.extend(init::mount_places(&job.places));
    lab.say(&Event::Hello(init::hello()?))?;
    for (what, error) in missing {
        lab.say(&Event::Missing { what, error })?;
    }
    for cell in job.cells {
        lab.say(&Event::Begin { cell: cell.clone() })?;
        let outcome = probe::run(&cell);
        lab.say(&Event::Result { cell, outcome })?;
    }
    if job.shell || !job.command.is_empty() {
        init::install_tools();
    }
    if job.root {
        init::enter_root()?;
    }
    if let [program, arguments @ ..] = job.command.as_slice() {
        lab.say(&Event::Command(finish(in_path(program).args(arguments))))?;
    }
    lab.say(&Event::Done)?;
    if job.shell {
        let _ = init::on_terminal(in_path("setsid").args(["-c", "sh"])).status();
    }
    Ok(())
}

/// A program of the guest by its name. The program finds others in the same way.
fn in_path(program: &str) -> Command {
    // A root directory of somebody's own may have no program of its own, not even env.
    let mut command = Command::new(program);
    command.env(
        "PATH",
        format!("{PROGRAMS}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
    );
    command
}

fn finish(command: &mut Command) -> Finished {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match command.output() {
        Ok(output) => Finished {
            exit: output.status.code(),
            printed: text(&output.stdout),
            said: text(&output.stderr),
        },
        Err(error) => Finished {
            exit: None,
            printed: String::new(),
            said: error.to_string(),
        },
    }
}

/// The connection to the lab.
struct Lab(File);

impl Lab {
    fn say(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}
