//! How many pods a workload has, by the subresource `scale` alone: no right to change anything else
//! of it is needed.

use serde_json::{Value, json};

use crate::{ApiServer, KubernetesError};

/// Something of the group `apps` that can be scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// `deployments` or `statefulsets`.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How many pods were asked for, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Asked for.
    pub asked: u32,
    /// There are.
    pub there: u32,
}

// === impl Workload ===

impl Workload {
    fn path(&self) -> String {
        let Self { resource, namespace, name } = self;
        format!("/apis/apps/v1/namespaces/{namespace}/{resource}/{name}/scale")
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// How many pods a workload has.
    ///
    /// # Errors
    /// See [`ApiServer::get`].
    pub fn scale(&self, workload: &Workload) -> Result<Scale, KubernetesError> {
        let path = workload.path();
        scale(&path, &self.get(&path)?)
    }

    /// Asks for so many pods.
    ///
    /// # Errors
    /// See [`ApiServer::get`].
    pub fn set_scale(&self, workload: &Workload, pods: u32) -> Result<Scale, KubernetesError> {
        let path = workload.path();
        scale(&path, &self.merge(&path, &json!({"spec": {"replicas": pods}}))?)
    }
}

fn scale(path: &str, answer: &Value) -> Result<Scale, KubernetesError> {
    // A number of 0 is left out of an answer.
    let replicas = |part: &str| answer[part].get("replicas").map_or(Some(0), Value::as_u64);
    let number = |part| replicas(part).and_then(|number| u32::try_from(number).ok());
    match (answer["kind"].as_str(), number("spec"), number("status")) {
        (Some("Scale"), Some(asked), Some(there)) => Ok(Scale { asked, there }),
        _ => Err(KubernetesError::Answer {
            path: path.to_owned(),
            problem: "the answer is no Scale with numbers of replicas".to_owned(),
        }),
    }
}
