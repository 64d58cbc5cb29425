//! `hugetext-nri`: text of containers on huge pages from their start, as a plugin of containerd by the Node
//! Resource Interface. `hugetext nri` runs it.

mod containerd;
mod decide;
mod layers;
mod look;
mod messages;
mod prepare;
mod session;
mod wire;
mod work;

use std::fmt::Display;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hugetext_engine::prepare::AUTOPILOT_DIRECTORY;
use hugetext_engine::running::{PromotionRequests, REQUESTS_DIRECTORY};
use hugetext_engine::{MachineVerdict, escaped};
use hugetext_leaf::verdict::{Deed, LeafUse};

use crate::containerd::Containerd;
use crate::decide::{
    Decision, Order, PROMOTE, Policy, Promotion, Treatment, adjustment, asking, decide, promotion,
};
use crate::messages::{Container, ContainerAdjustment, CreateContainerRequest, SynchronizeRequest};
use crate::prepare::Preparer;
use crate::session::{Plugin, serve};
use crate::wire::Trunk;
use crate::work::{Extent, Worker};

/// The time between attempts to reach a runtime that is away.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest time that the runtime may leave an answer unread.
const WRITE: Duration = Duration::from_secs(10);
/// How long a runtime waits that does not say it, such as containerd 1.7: the default of NRI.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prepare the text of containers before they start, as a plugin of containerd
///
/// Registers with the Node Resource Interface of the runtime and stays. Before a container is made, its program
/// and libraries are brought onto huge pages. A container whose preparation fails or takes too long starts
/// as it is.
#[derive(Debug, Parser)]
#[command(name = "hugetext nri", version, max_term_width = 100)]
struct Arguments {
    /// The socket of the Node Resource Interface
    #[arg(long, value_name = "PATH", default_value = "/var/run/nri/nri.sock")]
    socket: PathBuf,
    /// containerd's socket, which says of which layers a container is made
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/containerd/containerd.sock"
    )]
    containerd: PathBuf,
    /// containerd's namespace
    #[arg(long, value_name = "NAME", default_value = "k8s.io")]
    namespace: String,
    /// containerd's snapshotter
    #[arg(long, value_name = "NAME", default_value = "overlayfs")]
    snapshotter: String,
    /// Where copies are made. The runtime must see the directory at the same path
    #[arg(long, value_name = "DIR", default_value = "/var/cache/hugetext")]
    store: PathBuf,
    /// Where the autopilot of this node says of which files several copies are worth it
    #[arg(long, value_name = "DIR", default_value = AUTOPILOT_DIRECTORY)]
    run_dir: PathBuf,
    /// What containers get whose pod has no annotation hugetext/text
    #[arg(long, value_enum, default_value_t = Treatment::Warm)]
    unasked: Treatment,
    /// What a pod may ask for at most
    #[arg(long, value_enum, default_value_t = Treatment::Warm)]
    at_most: Treatment,
    /// Tell the autopilot of this node, in this directory, which pods ask for the promotion of their running
    /// processes. Without it, no pod may ask
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = REQUESTS_DIRECTORY)]
    requests: Option<PathBuf>,
    /// The longest delay of a start, in milliseconds; never more than half of what the runtime waits
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    bound: u64,
    /// The place among plugins: two digits
    #[arg(long, value_name = "NN", default_value = "50", value_parser = index)]
    index: String,
}

fn index(text: &str) -> Result<String, String> {
    let is_index = text.len() == 2 && text.chars().all(|letter| letter.is_ascii_digit());
    is_index
        .then(|| text.to_owned())
        .ok_or_else(|| "two digits, such as 50".to_owned())
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).as_deref() == Some(look::ARGUMENT.as_ref()) {
        return look::answer().map_or_else(
            |error| {
                eprintln!("{error}");
                ExitCode::from(2)
            },
            |()| ExitCode::SUCCESS,
        );
    }
    match run(&Arguments::parse()) {
        Ok(never) => match never {},
        Err(problem) => {
            tell(problem);
            ExitCode::from(2)
        }
    }
}

/// One line. Names of pods and messages of images come from strangers.
fn tell(line: impl Display) {
    eprintln!("hugetext nri: {}", escaped(&line.to_string()));
}

/// Serves one session after the other. Returns only if no session could be of use.
fn run(arguments: &Arguments) -> Result<std::convert::Infallible, String> {
    let preparer = Preparer {
        containerd: Containerd {
            socket: arguments.containerd.clone(),
            namespace: arguments.namespace.clone(),
            snapshotter: arguments.snapshotter.clone(),
        },
        store: arguments.store.clone(),
        autopilot: arguments.run_dir.clone(),
        // Asked once, before any container waits: a trial takes a second.
        leaves: LeafUse::of(MachineVerdict::this().judgement.verdict, Deed::Fill),
    };
    let worker = Worker::start(
        move |order, progress| preparer.carry_out(order, progress),
        |order, done| {
            let (id, warm, copies) = (&order.id, done.warm, done.shown.len());
            tell(format!(
                "container {id}: {warm} files warm, {copies} copies ready for the next start"
            ));
        },
    );
    let bound = Duration::from_millis(arguments.bound);
    let keep = |directory: &PathBuf| {
        let kept = PromotionRequests::keep(directory);
        kept.map_err(|error| format!("{}: {error}", directory.display()))
    };
    let mut containers = Containers {
        worker: worker.map_err(|error| format!("no thread: {error}"))?,
        policy: Policy {
            unasked: arguments.unasked,
            at_most: arguments.at_most,
        },
        requests: arguments.requests.as_ref().map(keep).transpose()?,
        wanted: bound,
        bound,
    };
    let mut last = String::new();
    loop {
        let ended = attend(&arguments.socket, &arguments.index, &mut containers);
        containers.forget();
        // A runtime that stays away is reported once.
        if ended != last {
            tell(&ended);
            last = ended;
        }
        thread::sleep(AGAIN);
    }
}

/// One session. Returns why it ended.
fn attend(socket: &Path, index: &str, containers: &mut Containers) -> String {
    let connect = || {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(WRITE))?;
        Ok::<_, std::io::Error>(stream)
    };
    match connect() {
        Err(error) => format!(
            "{}: {error}; enable the Node Resource Interface in the runtime's configuration",
            socket.display()
        ),
        Ok(stream) => match serve(&mut Trunk::new(stream), index, containers) {
            Ok(never) => match never {},
            Err(error) => error.to_string(),
        },
    }
}

/// Prepares containers.
#[derive(Debug)]
struct Containers {
    worker: Worker,
    policy: Policy,
    /// For the autopilot, if pods may ask for promotion.
    requests: Option<PromotionRequests>,
    wanted: Duration,
    bound: Duration,
}

impl Plugin for Containers {
    fn configured(&mut self, runtime: &str, patience: Option<Duration>) {
        self.bound = self.wanted.min(patience.unwrap_or(PATIENCE) / 2);
        let bound = self.bound.as_millis();
        tell(format!(
            "serves {runtime}; a start waits for {bound} ms at most"
        ));
    }

    fn found(&mut self, there: &SynchronizeRequest) {
        for container in asking(there) {
            self.request(&format!("container {}", container.id), container);
        }
    }

    fn removed(&mut self, container: &Container) {
        let removed = self
            .requests
            .as_ref()
            .map(|requests| requests.remove(&container.id));
        if let Some(Err(error)) = removed {
            tell(format!("container {}: {error}", container.id));
        }
    }

    fn create(&mut self, request: &CreateContainerRequest) -> ContainerAdjustment {
        let name = name(request);
        if let Some(container) = &request.container {
            match promotion(request.pod.as_ref(), container) {
                Promotion::Unasked => {}
                Promotion::Asked => self.request(&name, container),
                Promotion::UnknownValue => {
                    tell(format!("{name}: {PROMOTE} is neither true nor false"))
                }
            }
        }
        match decide(request, self.policy) {
            Decision::Leave(why) => {
                tell(format!("{name}: left: {why}"));
                ContainerAdjustment::default()
            }
            Decision::Prepare(order) => self.prepare(&name, *order),
        }
    }

    fn odd(&mut self, problem: String) {
        tell(problem);
    }
}

impl Containers {
    /// Tells the autopilot that a container may be promoted.
    fn request(&self, name: &str, container: &Container) {
        match self
            .requests
            .as_ref()
            .map(|requests| requests.add(&container.id))
        {
            None => tell(format!(
                "{name}: asks for promotion; this node lets no pod ask"
            )),
            Some(Ok(())) => tell(format!("{name}: asks for promotion")),
            Some(Err(error)) => tell(format!("{name}: asks for promotion: {error}")),
        }
    }

    /// Without a session, nobody says which containers are there.
    fn forget(&self) {
        if let Some(Err(error)) = self.requests.as_ref().map(PromotionRequests::clear) {
            tell(format!("requests for promotion: {error}"));
        }
    }

    fn prepare(&self, name: &str, order: Order) -> ContainerAdjustment {
        let begun = Instant::now();
        let (done, extent) = self.worker.prepare(order, self.bound);
        let took = begun.elapsed().as_millis();
        let rest = match extent {
            Extent::Whole => "",
            Extent::Late => "; the rest goes on after the start",
            Extent::Crowded => "; too many containers wait",
            Extent::Ended => "; the thread that prepares has ended, restart the plugin",
        };
        let (warm, copies) = (done.warm, done.shown.len());
        tell(format!(
            "{name}: {warm} files warm, {copies} copies shown, {took} ms{rest}"
        ));
        for problem in &done.problems {
            tell(format!("{name}: {problem}"));
        }
        adjustment(&done.shown)
    }
}

/// A container, as people know it.
fn name(request: &CreateContainerRequest) -> String {
    let pod = request.pod.as_ref();
    let pod = pod.map_or(String::new(), |pod| {
        format!("{}/{}", pod.namespace, pod.name)
    });
    let container = request.container.as_ref();
    let container = container.map_or("", |container| container.name.as_str());
    format!("pod {pod} container {container}")
}
