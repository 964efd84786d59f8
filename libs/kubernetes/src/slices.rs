//! Where the pods behind a Service are, from its EndpointSlices: no name service is asked.

use serde_json::Value;

use crate::{ApiServer, KubernetesError};

/// A port of a Service, by its number or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicePort {
    /// The number that pods listen on.
    Number(u16),
    /// The name of the Service's port.
    Name(String),
}

/// The slices of one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Namespace of the Service.
    pub namespace: String,
    /// Its name.
    pub service: String,
    /// Which of its ports.
    pub port: ServicePort,
}

// === impl Slices ===

impl Slices {
    /// Since 1.21, and what was there before.
    const VERSIONS: [&'static str; 2] = ["v1", "v1beta1"];

    fn path(&self, version: &str) -> String {
        let Self { namespace, service, .. } = self;
        format!(
            "/apis/discovery.k8s.io/{version}/namespaces/{namespace}/endpointslices\
             ?labelSelector=kubernetes.io%2Fservice-name%3D{service}"
        )
    }

    /// Addresses `host:port` of the pods that are ready, sorted.
    ///
    /// # Errors
    /// See [`ApiServer::get`]. No pod is no error.
    pub fn addresses(&self, server: &ApiServer) -> Result<Vec<String>, KubernetesError> {
        let [newer, older] = Self::VERSIONS;
        let answer = match server.get(&self.path(newer)) {
            Err(error) if error.status() == Some(404) => server.get(&self.path(older))?,
            answer => answer?,
        };
        let items = answer["items"].as_array().ok_or_else(|| KubernetesError::Answer {
            path: self.path(newer),
            problem: "the answer is no list of slices".to_owned(),
        })?;
        let mut found: Vec<String> = items.iter().flat_map(|slice| self.of_slice(slice)).collect();
        // Slices overlap while pods move from one to another.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn of_slice(&self, slice: &Value) -> Vec<String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let v6 = slice["addressType"] == "IPv6";
        let port = match &self.port {
            ServicePort::Number(port) => Some(*port),
            ServicePort::Name(name) => {
                let port = list(&slice["ports"]).into_iter().find(|port| port["name"] == **name);
                port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok())
            }
        };
        let Some(port) = port else { return Vec::new() };
        let ready = |endpoint: &Value| {
            // Left out means ready, by the API's own words.
            endpoint["conditions"]["ready"].as_bool().unwrap_or(true)
        };
        let endpoints = list(&slice["endpoints"]).into_iter().filter(ready);
        // The first address stands for all of an endpoint's, by the API's own words.
        let first = endpoints.filter_map(|e| e["addresses"][0].as_str().map(str::to_owned));
        first
            .map(|host| if v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
            .collect()
    }
}
