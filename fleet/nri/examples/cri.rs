//! A client of the Container Runtime Interface, with what test.sh needs of it:
//!
//!     cri SOCKET run NAME LOGS IMAGE [KEY=VALUE…] -- COMMAND…    prints the ids of a pod and of its container
//!     cri SOCKET end POD                                        stops and removes a pod
//!
//! KEY=VALUE are annotations of the pod. Containers use the network of the host. The variable RUN_AS names the user of
//! the image whom the container runs as.

use std::collections::HashMap;
use std::error::Error;

use http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// The messages, with their fields that are used here. Numbers are those of runtime.v1.
mod messages {
    use std::collections::HashMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RunPodSandboxRequest {
        #[prost(message, optional, tag = "1")]
        pub(crate) config: Option<PodSandboxConfig>,
    }

    /// An id alone: what most requests and answers are.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Id {
        #[prost(string, tag = "1")]
        pub(crate) id: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Empty {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct PodSandboxConfig {
        #[prost(message, optional, tag = "1")]
        pub(crate) metadata: Option<PodSandboxMetadata>,
        #[prost(string, tag = "3")]
        pub(crate) log_directory: String,
        #[prost(map = "string, string", tag = "7")]
        pub(crate) annotations: HashMap<String, String>,
        #[prost(message, optional, tag = "8")]
        pub(crate) linux: Option<LinuxPodSandboxConfig>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct PodSandboxMetadata {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(string, tag = "2")]
        pub(crate) uid: String,
        #[prost(string, tag = "3")]
        pub(crate) namespace: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct LinuxPodSandboxConfig {
        #[prost(string, tag = "1")]
        pub(crate) cgroup_parent: String,
        #[prost(message, optional, tag = "2")]
        pub(crate) security_context: Option<LinuxSandboxSecurityContext>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct LinuxSandboxSecurityContext {
        #[prost(message, optional, tag = "1")]
        pub(crate) namespace_options: Option<NamespaceOption>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct NamespaceOption {
        #[prost(int32, tag = "1")]
        pub(crate) network: i32,
        #[prost(int32, tag = "2")]
        pub(crate) pid: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct CreateContainerRequest {
        #[prost(string, tag = "1")]
        pub(crate) pod_sandbox_id: String,
        #[prost(message, optional, tag = "2")]
        pub(crate) config: Option<ContainerConfig>,
        #[prost(message, optional, tag = "3")]
        pub(crate) sandbox_config: Option<PodSandboxConfig>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ContainerConfig {
        #[prost(message, optional, tag = "1")]
        pub(crate) metadata: Option<Id>,
        #[prost(message, optional, tag = "2")]
        pub(crate) image: Option<Id>,
        #[prost(string, repeated, tag = "3")]
        pub(crate) command: Vec<String>,
        #[prost(string, tag = "11")]
        pub(crate) log_path: String,
        #[prost(message, optional, tag = "15")]
        pub(crate) linux: Option<LinuxContainerConfig>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct LinuxContainerConfig {
        #[prost(message, optional, tag = "2")]
        pub(crate) security_context: Option<LinuxContainerSecurityContext>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct LinuxContainerSecurityContext {
        #[prost(message, optional, tag = "3")]
        pub(crate) namespace_options: Option<NamespaceOption>,
        #[prost(string, tag = "6")]
        pub(crate) run_as_username: String,
    }
}

use messages::{
    ContainerConfig, CreateContainerRequest, Empty, Id, LinuxContainerConfig,
    LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata, RunPodSandboxRequest,
};

/// NamespaceMode: a namespace of the container's own, and that of the host.
const CONTAINER: i32 = 1;
const NODE: i32 = 2;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match words.as_slice() {
            [socket, "run", name, logs, image, rest @ ..] => {
                let mut annotations = HashMap::new();
                let mut rest = rest.iter();
                for word in rest.by_ref().take_while(|word| **word != "--") {
                    let (key, value) = word.split_once('=').ok_or("an annotation is KEY=VALUE")?;
                    annotations.insert(key.to_owned(), value.to_owned());
                }
                let command = rest.map(|word| (*word).to_owned()).collect();
                let pod = pod(name, logs, annotations);
                run(&connect(socket).await?, pod, image, command).await
            }
            [socket, "end", pod] => {
                let channel = connect(socket).await?;
                call::<_, Empty>(&channel, "StopPodSandbox", id(pod)).await?;
                call::<_, Empty>(&channel, "RemovePodSandbox", id(pod)).await?;
                Ok(())
            }
            _ => Err("the first lines of this file say how it is called".into()),
        }
    })
}

fn id(id: &str) -> Id {
    Id { id: id.to_owned() }
}

fn namespaces() -> NamespaceOption {
    NamespaceOption {
        network: NODE,
        pid: CONTAINER,
    }
}

fn pod(name: &str, logs: &str, annotations: HashMap<String, String>) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: name.to_owned(),
            uid: name.to_owned(),
            namespace: "test".to_owned(),
        }),
        log_directory: logs.to_owned(),
        annotations,
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: std::env::var("CGROUP_PARENT").unwrap_or_default(),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces()),
            }),
        }),
    }
}

async fn run(
    channel: &Channel,
    pod: PodSandboxConfig,
    image: &str,
    command: Vec<String>,
) -> Result<(), Failure> {
    let sandbox = RunPodSandboxRequest {
        config: Some(pod.clone()),
    };
    let sandbox: Id = call(channel, "RunPodSandbox", sandbox).await?;
    let container = ContainerConfig {
        metadata: Some(id("main")),
        image: Some(id(image)),
        command,
        log_path: "log".to_owned(),
        linux: Some(LinuxContainerConfig {
            security_context: Some(LinuxContainerSecurityContext {
                namespace_options: Some(namespaces()),
                run_as_username: std::env::var("RUN_AS").unwrap_or_default(),
            }),
        }),
    };
    let container = CreateContainerRequest {
        pod_sandbox_id: sandbox.id.clone(),
        config: Some(container),
        sandbox_config: Some(pod),
    };
    let container: Id = call(channel, "CreateContainer", container).await?;
    call::<_, Empty>(channel, "StartContainer", container.clone()).await?;
    println!("{} {}", sandbox.id, container.id);
    Ok(())
}

async fn connect(socket: &str) -> Result<Channel, Failure> {
    Ok(Endpoint::try_from(format!("unix:{socket}"))?
        .connect()
        .await?)
}

async fn call<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Failure>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await?;
    let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{method}"))?;
    let request = tonic::Request::new(request);
    let answer = client
        .unary(request, path, ProstCodec::<Q, A>::default())
        .await;
    Ok(answer
        .map_err(|status| format!("{method}: {}", status.message()))?
        .into_inner())
}
