//! The messages of ttrpc, NRI (v1alpha1) and containerd's snapshots that the plugin uses, with their fields that it
//! uses. Numbers are those of the projects' .proto files. Protocol buffers skip fields that are not known.

use std::collections::HashMap;

/// The name of the plugin's service.
pub(crate) const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";
/// The name of the runtime's service.
pub(crate) const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The event REMOVE_CONTAINER.
pub(crate) const REMOVE_CONTAINER: i32 = 11;
/// The bits of the events CREATE_CONTAINER and REMOVE_CONTAINER.
pub(crate) const EVENTS: i32 = 1 << 3 | 1 << (REMOVE_CONTAINER - 1);

/// ttrpc: a call.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) payload: Vec<u8>,
    #[prost(int64, tag = "4")]
    pub(crate) timeout_nano: i64,
}

/// ttrpc: an answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Response {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) payload: Vec<u8>,
}

/// google.rpc.Status. The code 0 is success.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// NRI: the plugin's name, and its place among others.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RegisterPluginRequest {
    #[prost(string, tag = "1")]
    pub(crate) plugin_name: String,
    #[prost(string, tag = "2")]
    pub(crate) plugin_idx: String,
}

/// NRI: what the runtime says of itself.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConfigureRequest {
    #[prost(string, tag = "2")]
    pub(crate) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(crate) runtime_version: String,
    /// Milliseconds after which an answer comes too late; 0 if the runtime does not say.
    #[prost(int64, tag = "5")]
    pub(crate) request_timeout: i64,
}

/// NRI: the events that the plugin asks for.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConfigureResponse {
    #[prost(int32, tag = "2")]
    pub(crate) events: i32,
}

/// NRI: what is there already. It may come in several parts.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SynchronizeRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) pods: Vec<PodSandbox>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<Container>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
}

/// NRI: no changes of what runs.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SynchronizeResponse {
    #[prost(bool, tag = "2")]
    pub(crate) more: bool,
}

/// NRI: a container that is about to be made.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateContainerRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub(crate) container: Option<Container>,
}

/// NRI: what is changed in it.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateContainerResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) adjust: Option<ContainerAdjustment>,
}

/// NRI: something has happened to a pod or a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StateChangeEvent {
    #[prost(int32, tag = "1")]
    pub(crate) event: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) container: Option<Container>,
}

/// NRI: a container has been removed. Newer runtimes say it by this call of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RemoveContainerRequest {
    #[prost(message, optional, tag = "2")]
    pub(crate) container: Option<Container>,
}

/// NRI: a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) namespace: String,
    #[prost(map = "string, string", tag = "6")]
    pub(crate) annotations: HashMap<String, String>,
}

/// NRI: a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) pod_sandbox_id: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "7")]
    pub(crate) args: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    pub(crate) env: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) mounts: Vec<Mount>,
    #[prost(message, optional, tag = "11")]
    pub(crate) linux: Option<LinuxContainer>,
}

/// NRI: a mount of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub(crate) destination: String,
    #[prost(string, tag = "2")]
    pub(crate) r#type: String,
    #[prost(string, tag = "3")]
    pub(crate) source: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) options: Vec<String>,
}

/// NRI: what Linux alone has.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxContainer {
    #[prost(message, repeated, tag = "1")]
    pub(crate) namespaces: Vec<LinuxNamespace>,
    #[prost(message, optional, tag = "3")]
    pub(crate) resources: Option<LinuxResources>,
}

/// NRI: a namespace that the container gets.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxNamespace {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
}

/// NRI: resources.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxResources {
    #[prost(message, optional, tag = "2")]
    pub(crate) cpu: Option<LinuxCpu>,
}

/// NRI: processors.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxCpu {
    /// As cpuset.cpus: `0-3,8`.
    #[prost(string, tag = "6")]
    pub(crate) cpus: String,
}

/// NRI: changes of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerAdjustment {
    #[prost(message, repeated, tag = "3")]
    pub(crate) mounts: Vec<Mount>,
}

/// containerd: which snapshot.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MountsRequest {
    #[prost(string, tag = "1")]
    pub(crate) snapshotter: String,
    #[prost(string, tag = "2")]
    pub(crate) key: String,
}

/// containerd: how it is mounted.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MountsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) mounts: Vec<SnapshotMount>,
}

/// containerd: a mount.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SnapshotMount {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(string, tag = "2")]
    pub(crate) source: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) options: Vec<String>,
}
