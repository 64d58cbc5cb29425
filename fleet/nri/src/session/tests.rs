use std::os::unix::net::UnixStream;
use std::thread;

use super::*;
use crate::messages::{Mount, PodSandbox};

/// Shows one file in every container.
#[derive(Default)]
struct Shows {
    runtime: String,
    patience: Option<Duration>,
    problems: Vec<String>,
    /// How many pods and containers were there.
    found: Vec<(usize, usize)>,
    removed: Vec<String>,
}

fn mounts() -> ContainerAdjustment {
    let mount = Mount {
        destination: "/usr/bin/node".to_owned(),
        ..Mount::default()
    };
    ContainerAdjustment {
        mounts: vec![mount],
    }
}

impl Plugin for Shows {
    fn configured(&mut self, runtime: &str, patience: Option<Duration>) {
        (self.runtime, self.patience) = (runtime.to_owned(), patience);
    }

    fn create(&mut self, _: &CreateContainerRequest) -> ContainerAdjustment {
        mounts()
    }

    fn found(&mut self, there: &SynchronizeRequest) {
        self.found.push((there.pods.len(), there.containers.len()));
    }

    fn removed(&mut self, container: &Container) {
        self.removed.push(container.id.clone());
    }

    fn odd(&mut self, problem: String) {
        self.problems.push(problem);
    }
}

/// The runtime's side of a session.
struct Runtime {
    trunk: Trunk<UnixStream>,
    stream: u32,
}

impl Runtime {
    fn call(&mut self, method: &str, body: Vec<u8>) -> Response {
        let request = Request {
            service: PLUGIN.to_owned(),
            method: method.to_owned(),
            payload: body,
            timeout_nano: 0,
        };
        self.raw(request.encode_to_vec())
    }

    fn raw(&mut self, payload: Vec<u8>) -> Response {
        self.stream += 2;
        let message = Message {
            stream: self.stream,
            kind: Kind::Request,
            payload,
        };
        self.trunk.send(Lane::Plugin, &message).unwrap();
        let (lane, answer) = self.trunk.receive().unwrap();
        assert_eq!(
            (lane, answer.stream, answer.kind),
            (Lane::Plugin, self.stream, Kind::Response)
        );
        Response::decode(answer.payload.as_slice()).unwrap()
    }
}

/// A session in which `runtime` plays the runtime after the registration.
fn session(status: Option<Status>, play: impl FnOnce(&mut Runtime)) -> (Shows, SessionError) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let plugin = thread::spawn(move || {
        let mut plugin = Shows::default();
        let ended = serve(&mut Trunk::new(ours), "50", &mut plugin);
        (plugin, ended.unwrap_err())
    });
    let mut trunk = Trunk::new(theirs);
    let (lane, call) = trunk.receive().unwrap();
    assert_eq!(lane, Lane::Runtime);
    let request = Request::decode(call.payload.as_slice()).unwrap();
    assert_eq!(
        (request.service.as_str(), request.method.as_str()),
        (RUNTIME, "RegisterPlugin")
    );
    let registration = RegisterPluginRequest::decode(request.payload.as_slice()).unwrap();
    assert_eq!(registration.plugin_idx, "50");
    let answer = Response {
        status,
        payload: Vec::new(),
    };
    let answer = Message {
        stream: call.stream,
        kind: Kind::Response,
        payload: answer.encode_to_vec(),
    };
    trunk.send(Lane::Runtime, &answer).unwrap();
    let mut runtime = Runtime { trunk, stream: 1 };
    play(&mut runtime);
    drop(runtime);
    plugin.join().unwrap()
}

#[test]
fn a_container_gets_the_adjustment() {
    let (plugin, ended) = session(None, |runtime| {
        let configure = ConfigureRequest {
            runtime_name: "containerd".to_owned(),
            runtime_version: "v1.7.24".to_owned(),
            request_timeout: 2000,
        };
        let configured = runtime.call("Configure", configure.encode_to_vec());
        let configured = ConfigureResponse::decode(configured.payload.as_slice()).unwrap();
        assert_eq!(configured.events, 0b100_0000_1000);
        let request = CreateContainerRequest {
            pod: None,
            container: Some(Container::default()),
        };
        let created = runtime.call("CreateContainer", request.encode_to_vec());
        let created = CreateContainerResponse::decode(created.payload.as_slice()).unwrap();
        assert_eq!(created.adjust, Some(mounts()));
    });
    assert!(matches!(ended, SessionError::Wire(WireError::Closed)));
    assert_eq!(plugin.runtime, "containerd v1.7.24");
    assert_eq!(plugin.patience, Some(Duration::from_secs(2)));
}

/// An error would fail the start of the container.
#[test]
fn a_request_that_cannot_be_read_changes_nothing_and_is_no_error() {
    let (plugin, _) = session(None, |runtime| {
        let created = runtime.call("CreateContainer", vec![0xff; 40]);
        assert_eq!(created.status, None);
        let created = CreateContainerResponse::decode(created.payload.as_slice()).unwrap();
        assert_eq!(created.adjust, Some(ContainerAdjustment::default()));
    });
    assert_eq!(plugin.problems.len(), 1);
}

#[test]
fn strange_calls_are_refused_and_the_session_goes_on() {
    session(None, |runtime| {
        assert_eq!(
            runtime.call("Nothing", vec![]).status.unwrap().code,
            UNIMPLEMENTED
        );
        assert_eq!(
            runtime.raw(vec![0xff; 9]).status.unwrap().code,
            INVALID_ARGUMENT
        );
        assert_eq!(runtime.call("StateChange", vec![0xff; 9]).status, None);
    });
}

#[test]
fn a_refusal_and_the_end_of_the_runtime_are_told() {
    let status = Status {
        code: 3,
        message: "invalid plugin index".to_owned(),
    };
    let (_, ended) = session(Some(status), |_| {});
    assert!(matches!(ended, SessionError::Refused(why) if why == "invalid plugin index"));
    let (_, ended) = session(None, |runtime| {
        runtime.call("Shutdown", vec![]);
    });
    assert!(matches!(ended, SessionError::Shutdown));
}

#[test]
fn what_is_there_comes_in_parts_and_what_is_removed_is_told() {
    let container = |id: &str| Container {
        id: id.to_owned(),
        ..Container::default()
    };
    let (plugin, _) = session(None, |runtime| {
        let mut part = |pods: usize, containers: usize, more| {
            let part = SynchronizeRequest {
                pods: vec![PodSandbox::default(); pods],
                containers: vec![Container::default(); containers],
                more,
            };
            let answer = runtime.call("Synchronize", part.encode_to_vec());
            SynchronizeResponse::decode(answer.payload.as_slice())
                .unwrap()
                .more
        };
        assert!(part(2, 0, true) && part(0, 3, true) && !part(1, 1, false));
        for event in [REMOVE_CONTAINER, 6] {
            let change = StateChangeEvent {
                event,
                container: Some(container("1")),
            };
            runtime.call("StateChange", change.encode_to_vec());
        }
        let request = RemoveContainerRequest {
            container: Some(container("2")),
        };
        runtime.call("RemoveContainer", request.encode_to_vec());
        runtime.call("Synchronize", vec![0xff; 9]);
    });
    // What cannot be read is as nothing.
    assert_eq!(plugin.found, [(3, 4), (0, 0)]);
    assert_eq!(plugin.problems.len(), 1);
    assert_eq!(plugin.removed, ["1", "2"]);
}
