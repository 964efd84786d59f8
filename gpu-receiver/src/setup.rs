//! From configuration to the parts a receiver is made of.

#[cfg(test)]
mod part_keys;

use std::sync::Arc;
use std::time::Duration;

use headwater_access::Access;
use headwater_core::recipe::SequencesSpec;
use headwater_core::sampler::{Curriculum, SamplerConfig};
use headwater_core::{Backoff, Digest, Manifest, Recipe};
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{DatasetRef, SessionHello};
use headwater_storage_client::{Dataset, LocalFiles, StorageClient, StorageClientConfig};
use headwater_transport::links::tcp::ListenTls;
use headwater_transport::links::{self, Demand, ListenOptions};
use headwater_transport::{Arrival, LinkKind, ReceiverLink};
use tokio::sync::mpsc;

use crate::config::{DatasetUse, GpuDirect, ReceiverConfig};
use crate::error::ReceiverError;
use crate::events::Event;
use crate::fields::{check_fields, check_followers, check_siblings};
use crate::ledger::{LateRule, LedgerConfig};

/// Pauses between two tries of a part that failed.
const RETRY: Backoff =
    Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5) };

/// The job's datasets as the storage tier has them, with a handle to each.
pub(crate) async fn fetch_datasets(
    config: &ReceiverConfig,
    recipe: &Recipe,
    datasets: &[DatasetUse],
) -> Result<(Vec<Arc<Manifest>>, Vec<Dataset>), ReceiverError> {
    let client = StorageClient::connect(StorageClientConfig {
        nodes: config.storage.clone(),
        local_files: LocalFiles::Off,
        access: config.security.clone(),
        wait_limit_ms: config.leases.worker_wait_ms.into(),
        wait_limit_key: "receiver.worker_wait_ms",
        ..StorageClientConfig::default()
    })
    .await?;
    let mut manifests = Vec::with_capacity(datasets.len());
    let mut handles = Vec::with_capacity(datasets.len());
    for DatasetUse { name, .. } in datasets {
        let manifest = Arc::new(client.manifest(name).await?);
        handles.push(client.dataset(Arc::clone(&manifest)));
        manifests.push(manifest);
    }
    check_fields(&manifests, &config.samples.image_field, &config.samples.label_field)?;
    check_siblings(&manifests, &recipe.fields)?;
    check_followers(&manifests, recipe)?;
    Ok((manifests, handles))
}

pub(crate) async fn open_links(
    config: &ReceiverConfig,
    access: &Access,
    slots_bytes: u64,
    events: &mpsc::Sender<Event>,
) -> Result<Vec<Arc<dyn ReceiverLink>>, ReceiverError> {
    let mut open: Vec<Arc<dyn ReceiverLink>> = Vec::new();
    let kinds = config.link_kinds()?;
    let forced = kinds.len() == 1;
    let options = ListenOptions {
        config: config.link_settings.clone(),
        demand: if forced { Demand::Only } else { Demand::AmongOthers },
        encrypted_only: access.encrypts_data(),
        tls: access.data_server().filter(|_| access.encrypts_data()).map(ListenTls::new),
        slots_bytes,
        near_cards: config.near_cards(),
    };
    for &kind in &kinds {
        let facts = kind.facts();
        let supersedes = |link: &&Arc<dyn ReceiverLink>| facts.superseded_by.contains(&link.kind());
        if let Some(better) = open.iter().find(supersedes) {
            let better = better.kind();
            tracing::info!("the {kind} link is not offered: {better}, listed before it, is");
            continue;
        }
        let on_device = config.device.gpudirect == GpuDirect::On && facts.writes_by_card();
        let needed = forced || facts.is_everywhere || on_device;
        let (arrivals, reported) = mpsc::unbounded_channel::<Arrival>();
        match links::listen(kind, &options, arrivals).await {
            Ok(link) => open.push(link),
            Err(error) if needed => return Err(error.into()),
            Err(error) => {
                tracing::info!(%error, "the {kind} link is not offered");
                continue;
            }
        }
        tokio::spawn(pass_on(kind, reported, events.clone()));
    }
    Ok(open)
}

/// Passes what a link reports to the driver.
pub(crate) async fn pass_on(
    kind: LinkKind,
    mut reported: mpsc::UnboundedReceiver<Arrival>,
    events: mpsc::Sender<Event>,
) {
    while let Some(arrival) = reported.recv().await {
        if events.send(Event::Link(kind, arrival)).await.is_err() {
            break;
        }
    }
}

/// The order of samples that a receiver of this configuration follows.
pub(crate) fn sampler_config(
    config: &ReceiverConfig,
    recipe: &Recipe,
    datasets: &[DatasetUse],
) -> SamplerConfig {
    let weighted = datasets.iter().any(|dataset| dataset.weight.is_some());
    let weights = match weighted {
        true => datasets.iter().map(|d| d.weight.unwrap_or(1.0)).collect(),
        false => Vec::new(),
    };
    let mut sampler =
        SamplerConfig::new(config.seed, config.world_size, config.rank, config.batch_samples);
    sampler.order = config.order.order;
    sampler.shuffle_block = config.order.shuffle_block;
    sampler.epoch_end = config.order.epoch_end;
    sampler.weights = weights;
    sampler.curriculum = (!config.order.curriculum.is_empty()).then(|| Curriculum {
        between: config.order.curriculum_between,
        points: config.order.curriculum.clone(),
    });
    // Batches of one length are as all others, short ones at the end included.
    let several = recipe.sequences.as_ref().filter(|spec| spec.lengths.len() > 1);
    sampler.lengths = several.map(SequencesSpec::sampled);
    sampler.recipe = Some(recipe.digest());
    sampler
}

/// What this receiver says to workers. Its driver adds the stream, its sessions their keys and links.
pub(crate) fn hello(
    config: &ReceiverConfig,
    recipe: &Recipe,
    manifests: &[Arc<Manifest>],
) -> SessionHello {
    let name =
        |m: &Arc<Manifest>| DatasetRef { name: m.dataset().to_owned(), manifest: m.digest() };
    SessionHello {
        wire_version: WIRE_VERSION,
        receiver: format!("{}/{}", config.job, config.rank),
        session_key: [0; 32],
        recipe: recipe.clone(),
        seed: config.seed,
        datasets: manifests.iter().map(name).collect(),
        links: Vec::new(),
        heartbeat_ms: config.leases.heartbeat_ms,
        on_bad_sample: config.samples.on_bad_sample,
        image_field: config.samples.image_field.clone(),
        label_field: config.samples.label_field.clone(),
        stream: Digest(0),
        sessions_held: None,
    }
}

pub(crate) fn ledger_config(config: &ReceiverConfig) -> LedgerConfig {
    LedgerConfig {
        part_samples: config.window.part_samples,
        late: LateRule {
            first: Duration::from_millis(config.leases.hedge_first_ms.into()),
            median_multiple: config.leases.hedge_median_multiple,
            floor: Duration::from_millis(config.leases.hedge_floor_ms.into()),
        },
        attempts_max: config.leases.attempts_max,
        verify: config.samples.verify,
        retry: RETRY,
    }
}
