//! Which data link a session uses.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::Access;
use headwater_proto::augment::SessionHello;
use headwater_transport::rdma::ucx::{self, UcxConnect};
use headwater_transport::rdma::{Exchange, RdmaConnect};
use headwater_transport::shm::ShmConnect;
use headwater_transport::tcp::{ConnectTls, TcpConnect};
use headwater_transport::{LinkError, LinkKind, LinkOffer, SessionKey, WorkerLink, rdma, shm, tcp};
use tokio::time::timeout;

use crate::config::AugmentConfig;
use crate::error::{AugmentError, SessionError};

/// A part of 16 samples of `dinov2` in bf16. A receiver does not say ahead how large its parts are.
const PART_BYTES_USUAL: u64 = 16 << 20;

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
    let kinds = config.link_kinds()?;
    match kinds.as_slice() {
        [LinkKind::Rdma] => {
            rdma::detect(&config.rdma_port()).map(drop).map_err(|error| AugmentError::Config {
                key: "links",
                value: LinkKind::Rdma.name().to_owned(),
                rule: format!("{error}; or allow \"tcp\" or \"shm\" as well"),
            })
        }
        [LinkKind::Ucx] => ucx::detect(false).map(drop).map_err(|error| AugmentError::Config {
            key: "links",
            value: LinkKind::Ucx.name().to_owned(),
            rule: format!("{error}; or allow \"tcp\" or \"shm\" as well"),
        }),
        _ => Ok(()),
    }
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
        match connect_one(&offer, &key, config, access, forced, exchange).await {
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
    config: &AugmentConfig,
    access: &Access,
    forced: bool,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    let within = config.link_timeout();
    let setup = |reason: String| LinkError::Setup { kind: offer.kind, reason };
    let connecting = async {
        match offer.kind {
            LinkKind::Shm => {
                let choices = ShmConnect { handshake_timeout: within };
                shm::connect(offer, key, &choices).await
            }
            LinkKind::Tcp => {
                let name = access.server_name();
                let choices = TcpConnect {
                    tls: access.data_client().map(|current| ConnectTls::new(current, name)),
                    encrypted_only: access.encrypts_data(),
                    handshake_timeout: within,
                    staging_buffers: config.parts() as usize,
                    ..TcpConnect::default()
                };
                tcp::connect(offer, key, &choices).await
            }
            LinkKind::Ucx if access.encrypts_data() => {
                Err(setup("UCX does not encrypt, and the configuration asks for it".to_owned()))
            }
            LinkKind::Ucx => {
                let choices = UcxConnect {
                    handshake_timeout: within,
                    staging_buffers: config.parts() as usize,
                    // Sockets of UCX are no better than the tcp link.
                    rdma_only: !forced,
                };
                ucx::connect(offer, key, &choices).await
            }
            LinkKind::Rdma if access.encrypts_data() => {
                Err(setup("RDMA does not encrypt, and the configuration asks for it".to_owned()))
            }
            LinkKind::Rdma => {
                let choices = RdmaConnect {
                    port: config.rdma_port(),
                    // A probe that gets lost must leave the receiver time to take another link.
                    handshake_timeout: within.min(rdma::DEFAULT_HANDSHAKE_TIMEOUT),
                    staging_buffers: config.parts() as usize,
                    queue_pairs: config.rdma_queue_pairs,
                    part_bytes: PART_BYTES_USUAL,
                };
                rdma::connect(key, &choices, exchange).await
            }
        }
    };
    // The link's own limit speaks first; this one holds where the system does not answer.
    match timeout(within + Duration::from_secs(1), connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(setup(format!("no connection within {} ms", within.as_millis()))),
    }
}
