//! Which data link a session uses.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::Access;
use headwater_proto::augment::SessionHello;
use headwater_transport::links::{self, ConnectChoices};
use headwater_transport::rdma::{self, RdmaConnect};
use headwater_transport::shm::ShmConnect;
use headwater_transport::tcp::{ConnectTls, TcpConnect};
use headwater_transport::ucx::UcxConnect;
use headwater_transport::{Exchange, LinkError, LinkKind, LinkOffer, SessionKey, WorkerLink};
use tokio::time::timeout;

use crate::config::AugmentConfig;
use crate::error::{AugmentError, SessionError};

/// A connected link, and a sentence on each better one.
pub(crate) struct Chosen {
    pub(crate) link: Arc<dyn WorkerLink>,
    pub(crate) refused: Vec<String>,
}

/// Checks that a link that is forced can be had on this machine at all.
///
/// # Errors
/// It cannot: the library, the device, an active port or its address is missing.
pub(crate) fn check_forced(config: &AugmentConfig) -> Result<(), AugmentError> {
    let [kind] = config.link_kinds()?[..] else { return Ok(()) };
    // A UCX that has sockets alone is for trials.
    let choices = choices(config, None, config.link_timeout(), true);
    links::check(kind, &choices).map_err(|error| AugmentError::Config {
        key: "links",
        value: kind.name().to_owned(),
        rule: format!("{error}; or allow \"tcp\" or \"shm\" as well"),
    })
}

/// Connects the first link that can be had, in the receiver's order, of those this worker takes.
///
/// # Errors
/// None can; what stood in the way of each is said.
pub(crate) async fn connect(
    config: &AugmentConfig,
    access: &Access,
    hello: &SessionHello,
    exchange: &dyn Exchange,
) -> Result<Chosen, SessionError> {
    let taken = config.link_kinds().unwrap_or_default();
    let key = SessionKey(hello.session_key);
    // A receiver that offers one link forces it as well.
    let forced = taken.len() == 1 || hello.links.len() == 1;
    let within = config.link_timeout();
    let choices = choices(config, Some(access), within, forced);
    let mut refused = Vec::new();
    let mut tried = false;
    for offer in &hello.links {
        let Some(kind) = LinkKind::from_name(&offer.kind) else {
            refused.push(format!("{}: not known to this worker", offer.kind.escape_debug()));
            continue;
        };
        if !taken.contains(&kind) {
            refused.push(format!("{kind}: not in augment.links of this worker"));
            continue;
        }
        let offer = LinkOffer { kind, address: offer.address.clone() };
        match connect_one(&offer, &key, within, &choices, exchange).await {
            Ok(link) => return Ok(Chosen { link, refused }),
            Err(error) => {
                tried = true;
                refused.push(error.to_string());
            }
        }
    }
    for kind in taken.iter().filter(|kind| !hello.links.iter().any(|l| l.kind == kind.name())) {
        refused.push(format!("{kind}: not offered by the receiver"));
    }
    Err(SessionError::NoLink { refused, tried })
}

async fn connect_one(
    offer: &LinkOffer,
    key: &SessionKey,
    within: Duration,
    choices: &ConnectChoices,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    // The link's own limit speaks first; this one holds where the system does not answer.
    let connecting = links::connect(offer, key, choices, exchange);
    timeout(within + Duration::from_secs(1), connecting).await.unwrap_or_else(|_| {
        let reason = format!("no connection within {} ms", within.as_millis());
        Err(LinkError::Setup { kind: offer.kind, reason })
    })
}

fn choices(
    config: &AugmentConfig,
    access: Option<&Access>,
    within: Duration,
    forced: bool,
) -> ConnectChoices {
    let staging_buffers = config.parts() as usize;
    let name = access.and_then(Access::server_name);
    let client = access.and_then(Access::data_client);
    ConnectChoices {
        shm: ShmConnect { allow_uids: config.shm_allow_uids.clone(), handshake_timeout: within },
        tcp: TcpConnect {
            tls: client.map(|current| ConnectTls::new(current, name)),
            encrypted_only: access.is_some_and(Access::encrypts_data),
            handshake_timeout: within,
            staging_buffers,
            ..TcpConnect::default()
        },
        ucx: UcxConnect {
            handshake_timeout: within,
            staging_buffers,
            // Sockets of UCX are no better than the tcp link.
            rdma_only: !forced,
            devices: config.ucx_devices(),
        },
        rdma: RdmaConnect {
            port: config.rdma_port(),
            // A probe that gets lost must leave the receiver time to take another link.
            handshake_timeout: within.min(rdma::DEFAULT_HANDSHAKE_TIMEOUT),
            staging_buffers,
            queue_pairs: config.rdma_queue_pairs,
            part_bytes: AugmentConfig::PART_BYTES_USUAL,
        },
    }
}
