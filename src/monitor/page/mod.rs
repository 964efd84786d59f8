//! The monitor's report as a page for browsers, and the server of that page.
//!
//! Read-only: it answers GET and HEAD. The page asks for `/report.json` again and again rather than keep a stream of
//! events open, so that no caller stays: a place of the server is free again after each answer, and a page whose
//! service has gone knows it with the next question.
//!
//! Deliberately absent: TLS (put a proxy in front, or come through SSH), anything that changes the service, memory of
//! who was here.

mod guard;
mod latest;
mod listen;
mod ranks;
mod routes;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use headwater_access::{Access, AccessConfig};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::Report;
use guard::Guard;
use latest::Latest;
use listen::Place;
use routes::{Service, router};

/// A page that is served until this is dropped.
pub(crate) struct Page {
    address: SocketAddr,
    latest: watch::Sender<Option<Latest>>,
    is_open_to_all: bool,
    _runtime: Runtime,
}

// === impl Page ===

impl Page {
    /// Serves at `place`, as in `:8080`, which is this host only, or `0.0.0.0:8080`. Callers need
    /// the token of `security`, if there is one.
    ///
    /// # Errors
    /// No place, or one that is taken; a token that cannot be read.
    pub(crate) fn open(place: &str, security: &AccessConfig) -> Result<Self> {
        let place = Place::parse(place)?;
        let bearers = Access::open(security)?.bearers();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hw-page")
            .enable_all()
            .build();
        let runtime = runtime.context("cannot start threads")?;
        let listener = runtime.block_on(TcpListener::bind(place.listen()));
        let listener = listener.with_context(|| {
            format!(
                "cannot listen on {} for the page: name another --web HOST:PORT",
                place.listen()
            )
        })?;
        let address = listener.local_addr()?;
        let is_open_to_all = !bearers.is_needed() && !address.ip().is_loopback();
        let (latest, shown) = watch::channel(None);
        let service = Service::new(shown, Guard::new(&place, address, bearers));
        runtime.spawn(headwater_telemetry::serve(listener, router(service), "page"));
        Ok(Self { address, latest, is_open_to_all, _runtime: runtime })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether other hosts can see the page without a token.
    pub(crate) fn is_open_to_all(&self) -> bool {
        self.is_open_to_all
    }

    /// Shows a report in the place of the one before.
    pub(crate) fn show(&self, report: &Report) -> Result<()> {
        self.latest.send_replace(Some(Latest::new(report)?));
        Ok(())
    }
}
