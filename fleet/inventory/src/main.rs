//! `hugetext-inventory`: what machines and container images have of text, as Parquet. `hugetext inventory`
//! runs it.

mod build_id;
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only stores behind HTTP have credentials")
)]
mod credentials;
mod facts;
mod host;
mod image;
mod machine;
mod place;
mod row;
mod spool;
mod stores;
mod table;

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use hugetext_auto::status::{self, Status};
use hugetext_engine::{HostContext, MachineVerdict};
use hugetext_host::Machine;
use hugetext_leaf::Filesystem;

use crate::facts::Ground;
use crate::image::Reader;
use crate::place::{Place, date, host_in_key};
use crate::row::{Moment, Row, Use, once, rows};
use crate::spool::Spool;

/// A time before this one is that of a clock that was never set: 1 January 2024.
const FIRST: i64 = 1_704_067_200;

/// Record the text of this machine and of its container images, as Parquet
///
/// Rows are written to DEST as date=DATE/host=HOST/NAME.parquet: whole files, each once, whatever is
/// interrupted and repeated. What cannot be sent waits in the spool for the next run.
#[derive(Debug, Parser)]
#[command(name = "hugetext inventory", version, max_term_width = 100)]
struct Arguments {
    /// A directory, or an object store as s3://bucket/prefix, gs://bucket/prefix or az://container/prefix; its
    /// keys come from the environment
    #[arg(short, long, value_name = "DEST", required_unless_present = "show")]
    output: Option<String>,
    /// Also the programs of these images: an OCI layout, an archive of `docker save`, or containerd's root
    /// directory
    #[arg(long, value_name = "PATH")]
    image: Vec<PathBuf>,
    /// Leave out what this machine itself runs
    #[arg(long)]
    only_images: bool,
    /// Also all programs below these directories
    #[arg(long, value_name = "DIR")]
    scan: Vec<PathBuf>,
    /// The filesystem on which containers of images will run, such as ext4, xfs, btrfs or overlay
    #[arg(long, value_name = "NAME", default_value = "ext4")]
    filesystem: String,
    /// The name of this host [default: that of the kernel]
    #[arg(long)]
    host: Option<String>,
    /// What tells this machine from all others [default: its machine-id]
    #[arg(long, value_name = "ID", value_parser = machine_id)]
    machine: Option<String>,
    /// Where rows wait until they are sent
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/hugetext/inventory"
    )]
    spool: PathBuf,
    /// The directory of the autopilot's documents
    #[arg(long, value_name = "DIR", default_value = status::DIRECTORY)]
    run_dir: PathBuf,
    /// Print the number of rows and columns of a file that was written, and whether it is whole
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    show: Option<PathBuf>,
}

fn machine_id(text: &str) -> Result<String, String> {
    let is_empty = text.trim().is_empty();
    (!is_empty)
        .then(|| text.to_owned())
        .ok_or_else(|| "a text that no other machine has".to_owned())
}

/// One line for the caller.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

fn failure(error: impl Display) -> Failure {
    // Errors of stores and of Parquet may have several lines.
    Failure(error.to_string().replace('\n', "; "))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            complain(failure);
            ExitCode::from(2)
        }
    }
}

fn complain(problem: impl Display) {
    eprintln!("hugetext inventory: {problem}");
}

fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.show {
        let at = |error: &dyn Display| failure(format!("{}: {error}", path.display()));
        let bytes = fs::read(path).map_err(|error| at(&error))?;
        if !place::is_named_by_content(path, &bytes) {
            return Err(at(
                &"damaged, cut short or renamed: its name is the sum of its content",
            ));
        }
        let rows = table::read(bytes).map_err(|error| at(&error))?;
        println!("{} rows of schema {}", rows.len(), table::SCHEMA);
        return Ok(ExitCode::SUCCESS);
    }
    // Before any work, so that a wrong place is reported at once.
    let place = Place::open(arguments.output.as_deref().unwrap_or_default()).map_err(failure)?;
    let machine = machine::machine(arguments.machine.as_deref()).map_err(failure)?;
    let spool = Spool::open(&arguments.spool, place).map_err(failure)?;
    let mut is_whole = true;
    let mut tell = |problem: String| {
        complain(problem);
        is_whole = false;
    };
    let (moment, host) = (moment(&spool, machine)?, host_name(arguments));
    let rows = collect(arguments, &moment, &mut tell)?;
    let mut bytes = Vec::new();
    table::write(&rows, &mut bytes).map_err(failure)?;
    let day = date(moment.time).ok_or_else(|| failure("the clock is beyond any date; set it"))?;
    if !rows.is_empty() {
        spool
            .keep(&day, &host_in_key(&host), &bytes)
            .map_err(failure)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(failure)?;
    let sent = runtime.block_on(spool.send(&mut tell)).map_err(failure)?;
    // What is for another place is no failure of this run.
    for other in spool.others().map_err(failure)? {
        complain(other);
    }
    println!(
        "{} rows in {} bytes; {sent} files sent",
        rows.len(),
        bytes.len()
    );
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}

fn moment(spool: &Spool, id: String) -> Result<Moment, Failure> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < FIRST {
        return Err(failure(
            "the clock of this machine was never set; set it, and run this again",
        ));
    }
    let machine = Machine::this();
    Ok(Moment {
        time: spool.time(now).map_err(failure)?,
        machine: id,
        thp: machine.thp.to_string(),
        kernel: machine.release,
        verdict: MachineVerdict::once().map(|found| found.judgement.verdict),
    })
}

fn host_name(arguments: &Arguments) -> String {
    let own = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = arguments.host.clone().unwrap_or_else(own);
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The rows of the machine and of the images. What cannot be read is reported to `tell`.
fn collect(
    arguments: &Arguments,
    moment: &Moment,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Row>, Failure> {
    let host = HostContext::read(None).map_err(failure)?;
    let mut all = Vec::new();
    if !arguments.only_images {
        // Without an autopilot, nobody knows of starts.
        let status = Status::read(&arguments.run_dir).ok();
        all = host::host_rows(moment, &host, status.as_ref(), &arguments.scan, tell);
    }
    let ground = Ground {
        kernel: host.kernel,
        filesystem: filesystem(&arguments.filesystem)?,
        geometry: None,
        dl_honours_align: true,
    };
    let mut reader = Reader::new(&ground);
    for path in &arguments.image {
        let images = match reader.read(path) {
            Ok(images) => images,
            Err(error) => {
                tell(error.to_string());
                continue;
            }
        };
        for image in images {
            match image {
                Ok(image) => {
                    for (file, facts) in &image.programs {
                        let file = file.to_string_lossy();
                        let name = Some(&image.name);
                        all.extend(rows(moment, name, &file, (facts, &ground), &Use::default()));
                    }
                }
                Err(error) => tell(error.to_string()),
            }
        }
    }
    Ok(once(all))
}

fn filesystem(name: &str) -> Result<Filesystem, Failure> {
    match Filesystem::from_name(name) {
        Filesystem::Other => {
            let named = Filesystem::NAMED.map(Filesystem::name);
            let known = named.map(|name| (name, Filesystem::from_name(name)));
            let known = known
                .iter()
                .filter(|(_, known)| *known != Filesystem::Other);
            let known: Vec<&str> = known.map(|(name, _)| *name).collect();
            let known = known.join(", ");
            Err(failure(format!(
                "--filesystem {name}: unknown; name one of {known}"
            )))
        }
        known => Ok(known),
    }
}
