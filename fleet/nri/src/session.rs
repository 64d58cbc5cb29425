//! A session with the runtime: the plugin registers, is configured, and answers until the runtime ends it.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::time::Duration;

use prost::Message as _;

use crate::messages::{
    ConfigureRequest, ConfigureResponse, Container, ContainerAdjustment, CreateContainerRequest,
    CreateContainerResponse, EVENTS, PLUGIN, REMOVE_CONTAINER, RUNTIME, RegisterPluginRequest,
    RemoveContainerRequest, Request, Response, StateChangeEvent, Status, SynchronizeRequest,
    SynchronizeResponse,
};
use crate::wire::{Kind, Lane, Message, Trunk, WireError};

/// The plugin's name.
const NAME: &str = "hugetext";
/// The stream of the only call that the plugin makes.
const REGISTRATION: u32 = 1;
/// google.rpc.Code: the service has no such method.
const UNIMPLEMENTED: i32 = 12;
/// google.rpc.Code: the request is unknown.
const INVALID_ARGUMENT: i32 = 3;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// Nothing can be read or written any more.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The runtime did not take the plugin.
    #[error("the runtime refused the plugin: {0}")]
    Refused(String),
    /// The runtime said that it ends.
    #[error("the runtime ends")]
    Shutdown,
}

/// What the plugin does with events.
pub(crate) trait Plugin {
    /// The runtime has taken the plugin. It waits for an answer for `patience`, if it says so.
    fn configured(&mut self, runtime: &str, patience: Option<Duration>);
    /// These pods and containers are there already.
    fn found(&mut self, there: &SynchronizeRequest);
    /// A container is about to be made. What cannot be done leaves it as it is: there is no error.
    fn create(&mut self, request: &CreateContainerRequest) -> ContainerAdjustment;
    /// A container has been removed.
    fn removed(&mut self, container: &Container);
    /// Something that is no event was asked for.
    fn odd(&mut self, problem: String);
}

/// Registers with the place `index` among plugins, and answers until something ends it.
pub(crate) fn serve<S: Read + Write>(
    trunk: &mut Trunk<S>,
    index: &str,
    plugin: &mut impl Plugin,
) -> Result<Infallible, SessionError> {
    let registration = RegisterPluginRequest {
        plugin_name: NAME.to_owned(),
        plugin_idx: index.to_owned(),
    };
    let call = Request {
        service: RUNTIME.to_owned(),
        method: "RegisterPlugin".to_owned(),
        payload: registration.encode_to_vec(),
        timeout_nano: 0,
    };
    let message = Message {
        stream: REGISTRATION,
        kind: Kind::Request,
        payload: call.encode_to_vec(),
    };
    trunk.send(Lane::Runtime, &message)?;
    let mut there = SynchronizeRequest::default();
    loop {
        let (lane, message) = trunk.receive()?;
        match (lane, message.kind) {
            (Lane::Runtime, Kind::Response) if message.stream == REGISTRATION => {
                if let Some(why) = refusal(&message.payload) {
                    return Err(SessionError::Refused(why));
                }
            }
            (Lane::Plugin, Kind::Request) => {
                let answered = answer(&message.payload, &mut there, plugin);
                let ends = matches!(answered, Answer::Last(_));
                let (Answer::Next(response) | Answer::Last(response)) = answered;
                let answer = Message {
                    stream: message.stream,
                    kind: Kind::Response,
                    payload: response.encode_to_vec(),
                };
                trunk.send(lane, &answer)?;
                if ends {
                    return Err(SessionError::Shutdown);
                }
            }
            (lane, kind) => plugin.odd(format!("{kind:?} on the connection {lane:?}")),
        }
    }
}

/// Why the runtime refused, if it did.
fn refusal(payload: &[u8]) -> Option<String> {
    match Response::decode(payload) {
        Ok(response) => response
            .status
            .filter(|status| status.code != 0)
            .map(|status| status.message),
        Err(error) => Some(error.to_string()),
    }
}

enum Answer {
    Next(Response),
    Last(Response),
}

/// Answers a call. `there` is what was found so far.
fn answer(payload: &[u8], there: &mut SynchronizeRequest, plugin: &mut impl Plugin) -> Answer {
    let Ok(request) = Request::decode(payload) else {
        return Answer::Next(failed(INVALID_ARGUMENT, "not a request"));
    };
    if request.service != PLUGIN {
        return Answer::Next(failed(UNIMPLEMENTED, "no such service"));
    }
    let body = request.payload.as_slice();
    Answer::Next(match request.method.as_str() {
        "Configure" => {
            configure(body, plugin);
            done(&ConfigureResponse { events: EVENTS })
        }
        "Synchronize" => done(&SynchronizeResponse {
            more: find(body, there, plugin),
        }),
        "CreateContainer" => done(&CreateContainerResponse {
            adjust: Some(create(body, plugin)),
        }),
        "RemoveContainer" => {
            let request = RemoveContainerRequest::decode(body).unwrap_or_default();
            removed(request.container, plugin)
        }
        "StateChange" => {
            let change = StateChangeEvent::decode(body).unwrap_or_default();
            let is_removal = change.event == REMOVE_CONTAINER;
            removed(change.container.filter(|_| is_removal), plugin)
        }
        "Shutdown" => return Answer::Last(Response::default()),
        // The answers to all other events are empty.
        "RunPodSandbox"
        | "UpdatePodSandbox"
        | "PostUpdatePodSandbox"
        | "StopPodSandbox"
        | "RemovePodSandbox"
        | "PostCreateContainer"
        | "StartContainer"
        | "PostStartContainer"
        | "UpdateContainer"
        | "PostUpdateContainer"
        | "StopContainer"
        | "ValidateContainerAdjustment" => Response::default(),
        _ => failed(UNIMPLEMENTED, "no such method"),
    })
}

fn configure(body: &[u8], plugin: &mut impl Plugin) {
    let request = ConfigureRequest::decode(body).unwrap_or_default();
    let patience = u64::try_from(request.request_timeout)
        .ok()
        .filter(|milliseconds| *milliseconds > 0);
    let runtime = format!("{} {}", request.runtime_name, request.runtime_version);
    plugin.configured(&runtime, patience.map(Duration::from_millis));
}

/// Takes in a part of what is there. A container may come in a later part than its pod. Returns whether there is more.
fn find(body: &[u8], there: &mut SynchronizeRequest, plugin: &mut impl Plugin) -> bool {
    let part = match SynchronizeRequest::decode(body) {
        Ok(part) => part,
        Err(error) => {
            plugin.odd(format!("Synchronize cannot be read: {error}"));
            SynchronizeRequest::default()
        }
    };
    there.pods.extend(part.pods);
    there.containers.extend(part.containers);
    if !part.more {
        plugin.found(&std::mem::take(there));
    }
    part.more
}

fn removed(container: Option<Container>, plugin: &mut impl Plugin) -> Response {
    if let Some(container) = container {
        plugin.removed(&container);
    }
    Response::default()
}

fn create(body: &[u8], plugin: &mut impl Plugin) -> ContainerAdjustment {
    match CreateContainerRequest::decode(body) {
        Ok(request) => plugin.create(&request),
        Err(error) => {
            plugin.odd(format!("CreateContainer cannot be read: {error}"));
            ContainerAdjustment::default()
        }
    }
}

fn done(message: &impl prost::Message) -> Response {
    Response {
        status: None,
        payload: message.encode_to_vec(),
    }
}

fn failed(code: i32, message: &str) -> Response {
    Response {
        status: Some(Status {
            code,
            message: message.to_owned(),
        }),
        payload: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
