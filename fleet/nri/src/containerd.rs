//! Asks containerd how the root of a container is mounted. NRI does not say it.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::layers::{Layers, LayersError};
use crate::messages::{MountsRequest, MountsResponse};

/// The call.
const MOUNTS: &str = "/containerd.services.snapshots.v1.Snapshots/Mounts";
/// The longest wait for the answer. It comes from a database in memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where containerd is, and what it calls things.
#[derive(Debug, Clone)]
pub(crate) struct Containerd {
    /// Its socket.
    pub(crate) socket: PathBuf,
    /// Its namespace; that of Kubernetes is `k8s.io`.
    pub(crate) namespace: String,
    /// The snapshotter of containers.
    pub(crate) snapshotter: String,
}

/// Why the layers of a container are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContainerdError {
    /// containerd cannot be asked.
    #[error("{socket}: {problem}; name containerd's socket with --containerd")]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The problem.
        problem: String,
    },
    /// It has no such snapshot, or may not say.
    #[error("containerd: {0}")]
    Refused(String),
    /// The answer is of no use.
    #[error(transparent)]
    Layers(#[from] LayersError),
}

impl Containerd {
    /// The layers of a container. Its snapshot has the container's id.
    pub(crate) fn layers(&self, id: &str) -> Result<Layers, ContainerdError> {
        let unreachable = |problem: &dyn std::fmt::Display| ContainerdError::Unreachable {
            socket: self.socket.clone(),
            problem: problem.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unreachable(&error))?;
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, self.ask(id)).await });
        let response = asked.map_err(|_| unreachable(&"no answer"))??;
        Ok(Layers::of(&response.mounts)?)
    }

    async fn ask(&self, id: &str) -> Result<MountsResponse, ContainerdError> {
        let unreachable = |error: &dyn std::error::Error| ContainerdError::Unreachable {
            socket: self.socket.clone(),
            // The cause is the kernel's error; what stands before it only says that there is one.
            problem: innermost(error),
        };
        let endpoint = Endpoint::try_from(format!("unix:{}", self.socket.display()));
        let endpoint = endpoint.map_err(|error| unreachable(&error))?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| unreachable(&error))?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|error| unreachable(&error))?;
        let mut request = tonic::Request::new(MountsRequest {
            snapshotter: self.snapshotter.clone(),
            key: id.to_owned(),
        });
        let namespace = MetadataValue::try_from(&self.namespace);
        let namespace = namespace.map_err(|error| ContainerdError::Refused(error.to_string()))?;
        request
            .metadata_mut()
            .insert("containerd-namespace", namespace);
        let codec = ProstCodec::<MountsRequest, MountsResponse>::default();
        let answer = client
            .unary(request, PathAndQuery::from_static(MOUNTS), codec)
            .await;
        let refused = |status: tonic::Status| ContainerdError::Refused(status.message().to_owned());
        Ok(answer.map_err(refused)?.into_inner())
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_containerd_is_named() {
        let containerd = Containerd {
            socket: "/nowhere/containerd.sock".into(),
            namespace: "k8s.io".to_owned(),
            snapshotter: "overlayfs".to_owned(),
        };
        let error = containerd.layers("x").unwrap_err().to_string();
        assert!(
            error.starts_with("/nowhere/containerd.sock: No such file"),
            "{error}"
        );
    }
}
