//! The links: what each is made with, and what else must be known of it. One folder each, and one line in the table
//! here. Receiver, worker, `headwater doctor` and `headwater bench link` ask the table.

#[macro_use]
mod tables;

mod config;
pub mod cuda;
mod facts;
pub(crate) mod local;
mod options;
#[cfg(feature = "rdma")]
pub mod rdma;
mod reference;
pub mod shm;
pub mod tcp;
#[cfg(feature = "ucx")]
pub mod ucx;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::link::contract::{Exchange, ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkOffer, SessionKey};
use crate::metrics;

pub use config::{LinksConfig, LinksConfigError};
pub use facts::{CardPort, Demand, LinkFacts, LinkLibrary, PortKind, Tuned};
pub use options::{ConnectOptions, ListenOptions};
pub use reference::{Figures, Moved, Reference, ReferenceRun, Workload};

links! {
    Cuda(cuda::Cuda) = "cuda",
    Shm(shm::Shm) = "shm",
    #[cfg(feature = "rdma")]
    Rdma(rdma::Rdma) = "rdma",
    #[cfg(feature = "ucx")]
    Ucx(ucx::Ucx) = "ucx",
    Tcp(tcp::Tcp) = "tcp",
}

/// A link, as the table has it. Nothing has a default: a new link answers each question, or does not compile.
#[async_trait]
trait Link: Sync {
    /// What others have to know of it.
    fn facts(&self) -> &'static LinkFacts;

    /// Programs of others that measure the same path.
    fn references(&self) -> &'static [Reference];

    /// Whether this machine has what a worker's end needs, before anybody is connected.
    ///
    /// # Errors
    /// [`LinkError::Setup`]: what is missing, with the remedy.
    fn check(&self, options: &ConnectOptions) -> Result<(), LinkError>;

    /// As [`listen`].
    async fn listen(
        &self,
        options: &ListenOptions,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError>;

    /// As [`connect`].
    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
        options: &ConnectOptions,
        exchange: &dyn Exchange,
    ) -> Result<Arc<dyn WorkerLink>, LinkError>;

    /// The port of a card that an end with these settings takes; `None`: it is not known before.
    fn card_port(&self, options: &ListenOptions) -> Option<CardPort>;

    /// Takes any bytes for each of its messages. Panics where one is taken that is written otherwise than it was
    /// read.
    #[cfg(feature = "conformance")]
    fn take_any(&self, bytes: &[u8]);
}

/// Opens the receiver's end of one kind. What happens on it is reported on `arrivals`, at most two
/// per admission and two per lease, so the channel holds no more than the receiver asked for.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing here, with the remedy.
pub async fn listen(
    kind: LinkKind,
    options: &ListenOptions,
    arrivals: mpsc::UnboundedSender<Arrival>,
) -> Result<Arc<dyn ReceiverLink>, LinkError> {
    metrics::describe_metrics();
    let link = kind.built()?;
    check_encryption(kind, options.encrypted_only)?;
    link.listen(options, arrivals).await
}

/// Connects a worker to the receiver's end that is offered. `exchange` is the control stream of both,
/// which some links begin over.
///
/// # Errors
/// [`LinkError::Setup`]: the link is not available here, or does not get through.
/// [`LinkError::Refused`]: wrong key or version.
pub async fn connect(
    offer: &LinkOffer,
    key: &SessionKey,
    options: &ConnectOptions,
    exchange: &dyn Exchange,
) -> Result<Arc<dyn WorkerLink>, LinkError> {
    metrics::describe_metrics();
    let link = offer.kind.built()?;
    check_encryption(offer.kind, options.encrypted_only)?;
    link.connect(offer, key, options, exchange).await
}

/// Whether this machine has what a kind needs, before anybody is connected.
///
/// # Errors
/// [`LinkError::Setup`]: what is missing, with the remedy.
pub fn check(kind: LinkKind, options: &ConnectOptions) -> Result<(), LinkError> {
    kind.built()?.check(options)
}

/// The port of a card that a link would take; of the first that can say so.
#[must_use]
pub fn card_port(options: &ListenOptions) -> Option<CardPort> {
    LinkKind::ALL.into_iter().find_map(|kind| kind.link()?.card_port(options))
}

/// Takes any bytes for each message of each link; none may be read for more than it says. For fuzzing.
///
/// # Panics
/// A message is accepted that is not written again as it was read.
#[cfg(feature = "conformance")]
pub fn take_any(bytes: &[u8]) {
    LinkKind::ALL.into_iter().filter_map(LinkKind::link).for_each(|link| link.take_any(bytes));
}

/// Memory of the host is nobody else's to read; what leaves it may have to be encrypted.
fn check_encryption(kind: LinkKind, wanted: bool) -> Result<(), LinkError> {
    if wanted && !kind.facts().keeps_private {
        return Err(kind.setup("it does not encrypt, and the configuration asks for it"));
    }
    Ok(())
}

// === impl LinkKind ===

impl LinkKind {
    /// What others have to know of it. Of a link that this program was built without, nothing is there.
    #[must_use]
    pub fn facts(self) -> &'static LinkFacts {
        self.link().map_or(&LinkFacts::ABSENT, Link::facts)
    }

    /// Programs of others that measure the same path.
    #[must_use]
    pub fn references(self) -> &'static [Reference] {
        self.link().map_or(&[], Link::references)
    }

    /// The kinds of a list in a configuration.
    ///
    /// # Errors
    /// What is wrong, and the rule: no link, or one that is not known or named twice.
    pub fn parse_list(names: &[String]) -> Result<Vec<Self>, (String, &'static str)> {
        let mut kinds = Vec::new();
        for name in names {
            match Self::from_name(name) {
                Some(kind) if !kinds.contains(&kind) => kinds.push(kind),
                Some(_) => return Err((name.clone(), "names each link once")),
                None => return Err((name.clone(), Self::RULE)),
            }
        }
        if kinds.is_empty() {
            Err(("[]".to_owned(), "must name one link at least"))
        } else {
            Ok(kinds)
        }
    }

    /// Names of the links that are taken where a configuration names none.
    #[must_use]
    pub fn usual() -> Vec<String> {
        let usual = Self::ALL.into_iter().filter(|kind| kind.facts().is_usual);
        usual.map(|kind| kind.name().to_owned()).collect()
    }

    fn built(self) -> Result<&'static dyn Link, LinkError> {
        self.link().ok_or_else(|| {
            self.setup(format!(
                "this program was built without it: build it with `--features {self}`, or name other links"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_needs_a_card_or_another_link_says_what_stands_in_for_it() {
        for kind in LinkKind::ALL {
            let facts = kind.facts();
            assert!(
                !facts.is_everywhere || !facts.needs_card,
                "{kind}: no machine need have a card"
            );
            assert!(!facts.superseded_by.contains(&kind), "{kind} is left out for itself");
            assert_eq!(LinkKind::from_name(kind.name()), Some(kind));
        }
        assert!(
            LinkKind::ALL.iter().any(|kind| kind.facts().is_fallback),
            "some link gets through"
        );
    }

    #[test]
    fn a_list_names_known_links_and_each_once() {
        let parse = |names: &[&str]| {
            LinkKind::parse_list(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(parse(&["tcp", "shm"]), Ok(vec![LinkKind::Tcp, LinkKind::Shm]));
        assert!(parse(&[]).unwrap_err().1.contains("one link at least"));
        let (value, rule) = parse(&["tcp", "udp"]).unwrap_err();
        assert_eq!(value, "udp");
        assert!(LinkKind::ALL.iter().all(|kind| rule.contains(&format!("\"{kind}\""))), "{rule}");
        assert!(parse(&["tcp", "tcp"]).unwrap_err().1.contains("once"));
    }
}
