//! Services that a loader starts for itself: a storage node and a worker on this host.

use std::path::PathBuf;

use headwater_config::{FROM_DEFAULT, Loaded};
use headwater_core::fields::has_field;
use headwater_local::{LocalError, Services, Wanted, Watch, local_ranks};
use headwater_receiver::ReceiverConfig;
use headwater_telemetry::TelemetryConfig;
use pyo3::prelude::*;

/// Links between processes of one host.
const LINKS: [&str; 2] = ["shm", "tcp"];

/// Where services run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In threads of this process.
    Threads,
    /// In a process that the ranks of this host share. The folders may have the program.
    Process(Vec<PathBuf>),
}

/// Services to be started, or joined.
#[derive(Debug)]
pub(crate) struct Local {
    wanted: Wanted,
    place: Place,
    /// Whether the configuration names the field of the labels.
    names_labels: bool,
}

// === impl Local ===

impl Local {
    pub(crate) fn new(loaded: &Loaded, telemetry: &TelemetryConfig, place: Place) -> Self {
        let mut wanted = Wanted::new(loaded, local_ranks(|name| std::env::var(name).ok()));
        wanted.config.telemetry = telemetry.clone();
        let names_labels = loaded.origin("receiver.label_field") != FROM_DEFAULT;
        Self { wanted, place, names_labels }
    }

    /// Starts or joins them, and gives the receiver their addresses. Waits until their indices are
    /// made.
    pub(crate) fn start(
        &self,
        receiver: &mut ReceiverConfig,
        watch: &Watch<'_>,
    ) -> Result<Services, LocalError> {
        let services = match &self.place {
            Place::Threads => Services::embedded(&self.wanted, watch),
            Place::Process(scripts) => Services::shared(&self.wanted, scripts, watch),
        }?;
        lead_to(receiver, &services);
        let is_image = |field: &String| has_field(&[field], &receiver.samples.image_field);
        if !self.names_labels && services.fields().iter().all(is_image) {
            // Nothing there could be one.
            receiver.samples.label_field.clear();
        }
        Ok(services)
    }
}

/// Settings that a receiver gets for services on its own host. They replace only defaults.
fn lead_to(receiver: &mut ReceiverConfig, services: &Services) {
    let default = ReceiverConfig::default();
    receiver.storage = vec![services.storage().to_owned()];
    receiver.workers = vec![services.worker().to_owned()];
    // Certificates and token of a cluster do not count here.
    receiver.security = default.security;
    receiver.security.token_file = services.token_file().to_owned();
    receiver.link_settings = std::mem::take(&mut receiver.link_settings).within_host();
    if receiver.links == default.links {
        receiver.links = LINKS.map(str::to_owned).to_vec();
    }
}

/// Path of the program `headwater` on this host, if there is one.
#[pyfunction]
pub(crate) fn program(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    Ok(headwater_local::program(&scripts(py)?).ok())
}

/// The program that runs this process, and the folder of its script: the user's own modules lie
/// there.
pub(crate) fn python(py: Python<'_>) -> PyResult<(PathBuf, Vec<PathBuf>)> {
    let sys = py.import("sys")?;
    let program: Option<PathBuf> = sys.getattr("executable")?.extract()?;
    let folders: Vec<PathBuf> = sys.getattr("path")?.extract().unwrap_or_default();
    Ok((program.unwrap_or_else(|| "python3".into()), folders.into_iter().take(1).collect()))
}

/// Folders in which installing the package may have put the program.
pub(crate) fn scripts(py: Python<'_>) -> PyResult<Vec<PathBuf>> {
    py.import("headwater._scripts")?.call_method0("folders")?.extract()
}
