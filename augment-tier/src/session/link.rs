//! Which data link a session uses.

use std::sync::Arc;
use std::time::Duration;

use headwater_access::Access;
use headwater_proto::augment::SessionHello;
use headwater_transport::links::tcp::ConnectTls;
use headwater_transport::links::{self, ConnectOptions, Demand};
use headwater_transport::{
    DeviceImports, Exchange, LinkError, LinkKind, LinkOffer, SessionKey, WorkerLink,
};
use tokio::time::timeout;

use crate::config::AugmentConfig;
use crate::error::{AugmentError, SessionError};
use crate::worker::Worker;

/// A connected link, and a sentence on each better one.
pub(crate) struct Chosen {
    pub(crate) link: Arc<dyn WorkerLink>,
    pub(crate) refused: Vec<String>,
}

/// Checks that a link that is forced is available on this machine at all.
///
/// # Errors
/// It cannot: the library, the device, an active port or its address is missing.
pub(crate) fn check_forced(
    config: &AugmentConfig,
    imports: Option<&Arc<dyn DeviceImports>>,
) -> Result<(), AugmentError> {
    let [kind] = config.link_kinds()?[..] else { return Ok(()) };
    let options = options(config, None, imports, Demand::Only);
    links::check(kind, &options).map_err(|error| AugmentError::Config {
        key: "links",
        value: kind.name().to_owned(),
        rule: format!("{error}; or allow \"tcp\" or \"shm\" as well"),
    })
}

/// Connects the first link that is available, in the receiver's order, of those this worker takes.
///
/// # Errors
/// None can; what stood in the way of each is said.
pub(crate) async fn connect(
    worker: &Worker,
    hello: &SessionHello,
    exchange: &dyn Exchange,
) -> Result<Chosen, SessionError> {
    let Worker { config, access, imports, .. } = worker;
    let taken = config.link_kinds().unwrap_or_default();
    let key = SessionKey(hello.session_key);
    // A receiver that offers one link forces it as well.
    let forced = taken.len() == 1 || hello.links.len() == 1;
    let demand = if forced { Demand::Only } else { Demand::AmongOthers };
    let within = config.sessions.link_timeout();
    let options = options(config, Some(access), imports.as_ref(), demand);
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
        match connect_one(&offer, &key, within, &options, exchange).await {
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
    options: &ConnectOptions,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    // The link's own limit speaks first; this one holds where the system does not answer.
    let connecting = links::connect(offer, key, options, exchange);
    timeout(within + Duration::from_secs(1), connecting).await.unwrap_or_else(|_| {
        let reason = format!("no connection within {} ms", within.as_millis());
        Err(LinkError::Setup { kind: offer.kind, reason })
    })
}

fn options(
    config: &AugmentConfig,
    access: Option<&Access>,
    imports: Option<&Arc<dyn DeviceImports>>,
    demand: Demand,
) -> ConnectOptions {
    let name = access.and_then(Access::server_name);
    let client = access.and_then(Access::data_client);
    ConnectOptions {
        config: config.link_settings.clone(),
        demand,
        encrypted_only: access.is_some_and(Access::encrypts_data),
        tls: client.map(|current| ConnectTls::new(current, name)),
        timeout: Some(config.sessions.link_timeout()),
        staging_buffers: config.parts() as usize,
        part_bytes: AugmentConfig::PART_BYTES_USUAL,
        imports: imports.cloned(),
    }
}
