//! Workers as pods of a Deployment or StatefulSet.

use anyhow::{Context, Result};
use headwater_kubernetes::{ApiServer, Workload};

use super::backend::Backend;

/// One workload.
pub(super) struct Pods {
    server: ApiServer,
    workload: Workload,
}

// === impl Pods ===

impl Pods {
    /// The workload `deployments/NAME` in the namespace of this pod.
    ///
    /// # Errors
    /// Another form; no pod.
    pub(super) fn new(workload: &str) -> Result<Self> {
        let parts = workload.split_once('/').filter(|(resource, name)| {
            matches!(*resource, "deployments" | "statefulsets") && !name.is_empty()
        });
        let (resource, name) = parts.with_context(|| {
            format!("`autoscale.workload` is `{workload}`: write `deployments/NAME`")
        })?;
        let server = ApiServer::of_this_pod()?;
        let namespace = server.namespace().to_owned();
        let (resource, name) = (resource.to_owned(), name.to_owned());
        Ok(Self { server, workload: Workload { resource, namespace, name } })
    }
}

impl Backend for Pods {
    fn asked(&mut self) -> Result<u32> {
        Ok(self.server.scale(&self.workload)?.asked)
    }

    fn ask(&mut self, workers: u32) -> Result<()> {
        self.server.set_scale(&self.workload, workers)?;
        Ok(())
    }
}
