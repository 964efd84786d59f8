//! From configuration to the parts a receiver is made of.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::Access;
use headwater_core::sampler::{Curriculum, SamplerConfig};
use headwater_core::{Manifest, Recipe};
use headwater_storage_client::{Dataset, DatasetRef, LocalMap, StorageClient, StorageClientConfig};
use headwater_transport::rdma::ucx::{self, UcxListen};
use headwater_transport::{Arrival, LinkError, LinkKind, ReceiverLink, rdma, shm, tcp};
use tokio::sync::mpsc;

use crate::config::{DatasetUse, GpuDirect, ReceiverConfig};
use crate::driver::Event;
use crate::error::ReceiverError;
use crate::ledger::{LateRule, LedgerConfig};

/// Longest pause between two tries of a part that failed.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// First such pause.
const RETRY_BASE: Duration = Duration::from_millis(50);

/// The job's datasets as the storage tier has them, with a handle to each.
pub(crate) async fn fetch_datasets(
    config: &ReceiverConfig,
    datasets: &[DatasetUse],
) -> Result<(Vec<Arc<Manifest>>, Vec<Dataset>), ReceiverError> {
    let client = StorageClient::connect(StorageClientConfig {
        nodes: config.storage.clone(),
        local_map: LocalMap::Off,
        access: config.security.clone(),
        wait_limit_ms: config.worker_wait_ms.into(),
        ..StorageClientConfig::default()
    })
    .await?;
    let mut manifests = Vec::with_capacity(datasets.len());
    let mut handles = Vec::with_capacity(datasets.len());
    for DatasetUse { name, .. } in datasets {
        let manifest = client.manifest(name).await?;
        handles
            .push(client.dataset(&DatasetRef { name: name.clone(), manifest: manifest.digest() }));
        manifests.push(Arc::new(manifest));
    }
    Ok((manifests, handles))
}

pub(crate) async fn open_links(
    config: &ReceiverConfig,
    access: &Access,
    slots_bytes: u64,
    events: &mpsc::UnboundedSender<Event>,
) -> Result<Vec<Arc<dyn ReceiverLink>>, ReceiverError> {
    let mut links: Vec<Arc<dyn ReceiverLink>> = Vec::new();
    let kinds = config.link_kinds()?;
    for &kind in &kinds {
        let (arrivals, mut reported) = mpsc::unbounded_channel::<Arrival>();
        links.push(match kind {
            LinkKind::Shm => {
                let dir = &config.shm_socket_dir;
                let socket_dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
                shm::listen(&shm::ShmListen { socket_dir, ..Default::default() }, arrivals).await?
            }
            LinkKind::Tcp => tcp::listen(&tcp_listen(config, access)?, arrivals).await?,
            LinkKind::Ucx if links.iter().any(|link| link.kind() == LinkKind::Rdma) => {
                // It would register every slot once more, for the same cards.
                tracing::info!("the ucx link is not offered: rdma, listed before it, is");
                continue;
            }
            LinkKind::Ucx => match ucx_listen(kinds.len() == 1, access, arrivals).await {
                Ok(link) => link,
                Err(error) if kinds.len() == 1 => return Err(error.into()),
                Err(error) => {
                    tracing::info!(%error, "the ucx link is not offered");
                    continue;
                }
            },
            LinkKind::Rdma => match rdma_listen(config, access, slots_bytes, arrivals).await {
                Ok(link) => link,
                Err(error) if kinds.len() == 1 || config.gpudirect == GpuDirect::On => {
                    return Err(error.into());
                }
                Err(error) => {
                    tracing::info!(%error, "the rdma link is not offered");
                    continue;
                }
            },
        });
        let events = events.clone();
        tokio::spawn(async move {
            while let Some(arrival) = reported.recv().await {
                if events.send(Event::Link(kind, arrival)).is_err() {
                    break;
                }
            }
        });
    }
    Ok(links)
}

async fn ucx_listen(
    forced: bool,
    access: &Access,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    if access.encrypts_data() {
        let reason = "UCX does not encrypt, and the configuration asks for it".to_owned();
        return Err(LinkError::Setup { kind: LinkKind::Ucx, reason });
    }
    let rdma_only = !(forced && ucx::transports_chosen());
    ucx::listen(&UcxListen { rdma_only, ..UcxListen::default() }, arrivals).await
}

async fn rdma_listen(
    config: &ReceiverConfig,
    access: &Access,
    slots_bytes: u64,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    if access.encrypts_data() {
        let reason = "RDMA does not encrypt, and the configuration asks for it".to_owned();
        return Err(LinkError::Setup { kind: LinkKind::Rdma, reason });
    }
    let port = config.rdma_port();
    rdma::listen(&rdma::RdmaListen { port, slots_bytes, ..Default::default() }, arrivals).await
}

fn tcp_listen(config: &ReceiverConfig, access: &Access) -> Result<tcp::TcpListen, LinkError> {
    let bind = config.tcp_listen.parse().map_err(|error| LinkError::Setup {
        kind: LinkKind::Tcp,
        reason: format!(
            "receiver.tcp_listen `{}` is not an address and port: {error}",
            config.tcp_listen
        ),
    })?;
    let host = &config.tcp_advertise;
    let advertise_host = (!host.is_empty()).then(|| host.clone());
    let tls = access.data_server().filter(|_| access.encrypts_data()).map(tcp::ListenTls::new);
    Ok(tcp::TcpListen { bind, advertise_host, tls, ..Default::default() })
}

/// The order of samples that a receiver of this configuration follows.
#[must_use]
pub fn sampler_config(
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
    sampler.order = config.order;
    sampler.shuffle_block = config.shuffle_block;
    sampler.epoch_end = config.epoch_end;
    sampler.weights = weights;
    sampler.curriculum = (!config.curriculum.is_empty()).then(|| Curriculum {
        between: config.curriculum_between,
        points: config.curriculum.clone(),
    });
    sampler.recipe = Some(recipe.digest());
    sampler
}

pub(crate) fn ledger_config(config: &ReceiverConfig) -> LedgerConfig {
    LedgerConfig {
        part_samples: config.part_samples,
        late: LateRule {
            median_multiple: config.hedge_median_multiple,
            floor: Duration::from_millis(config.hedge_floor_ms.into()),
        },
        attempts_max: config.attempts_max,
        retry_base: RETRY_BASE,
        retry_max: RETRY_MAX,
    }
}
