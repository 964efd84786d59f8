//! Where the pods behind a Service are, from its EndpointSlices: no name service is asked.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

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

/// The slices of a Service at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    path: String,
    /// What the server calls the time.
    version: String,
    /// Addresses by the names of the slices.
    slices: BTreeMap<String, Vec<String>>,
}

/// The server ends a watch after this time.
const WATCH_FOR: Duration = Duration::from_secs(300);
/// Bookmarks come about once a minute: a server that is silent for this time is gone.
const SILENCE: Duration = Duration::from_secs(150);

fn name(slice: &Value, at: usize) -> String {
    slice["metadata"]["name"].as_str().map_or_else(|| at.to_string(), str::to_owned)
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

// === impl Listing ===

impl Listing {
    /// Addresses `host:port` of the pods that are ready, sorted.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let mut found: Vec<String> = self.slices.values().flatten().cloned().collect();
        // Slices overlap while pods move from one to another.
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Takes an event over.
    fn take(&mut self, slices: &Slices, event: &Value) {
        let object = &event["object"];
        self.version = version(object);
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                self.slices.insert(name(object, 0), slices.of_slice(object));
            }
            Some("DELETED") => drop(self.slices.remove(&name(object, 0))),
            // A bookmark, which only says the time.
            _ => {}
        }
    }
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

    /// The pods that are ready, and where to follow them from.
    ///
    /// # Errors
    /// See [`ApiServer::get`]. No pod is no error.
    pub fn list(&self, server: &ApiServer) -> Result<Listing, KubernetesError> {
        let [newer, older] = Self::VERSIONS.map(|version| self.path(version));
        let (path, answer) = match server.get(&newer) {
            Err(error) if error.status() == Some(404) => (older.clone(), server.get(&older)?),
            answer => (newer, answer?),
        };
        let Some(items) = answer["items"].as_array() else {
            let problem = "the answer is no list of slices".to_owned();
            return Err(KubernetesError::Answer { path, problem });
        };
        let slices = items.iter().enumerate();
        let slices = slices.map(|(at, slice)| (name(slice, at), self.of_slice(slice))).collect();
        Ok(Listing { path, version: version(&answer), slices })
    }

    /// Waits for changes of a list, and tells of each, and of some others, until the server has enough of it, which is no error, or `tell` says
    /// to stop.
    ///
    /// # Errors
    /// See [`ApiServer::watch`]; the status 410: what has changed since is not known any more, and a new list is.
    pub fn follow(
        &self,
        server: &ApiServer,
        listing: &mut Listing,
        mut tell: impl FnMut(&Listing) -> ControlFlow<()>,
    ) -> Result<(), KubernetesError> {
        let Listing { path, version, .. } = &*listing;
        let path = format!(
            "{path}&watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={}",
            WATCH_FOR.as_secs()
        );
        let mut refusal = None;
        let watched = server.watch(&path, SILENCE, |event| {
            if event["type"] == "ERROR" {
                refusal = Some(event["object"].clone());
                return ControlFlow::Break(());
            }
            listing.take(self, &event);
            tell(listing)
        });
        watched?;
        let Some(refusal) = refusal else { return Ok(()) };
        let status = refusal["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let message = refusal["message"].as_str().unwrap_or("no reason was given").to_owned();
        Err(KubernetesError::Refused { path, status: status.unwrap_or(500), message })
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
