//! One HTTP client for everything that is fetched: object stores, web servers, the hub.
//!
//! HTTP/1.1 over TCP or TLS with the system's certificates (`SSL_CERT_FILE` names others). Redirects
//! are followed where the caller wants that; a token goes to the first host only.

mod answer;
mod redirect;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::http::uri::Scheme;
use hyper::{Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::distant::Refusal;

pub(crate) use answer::{bounded_body, range_of_answer, size_of_answer, tag_of_answer};
pub(crate) use redirect::{Asked, Followed, follow, same_host};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
const IDLE_OF_A_HOST: usize = 32;

type Plain = Client<HttpConnector, Full<Bytes>>;
type Encrypted = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

tokio::task_local! {
    /// There where each request goes over a connection of its own.
    static ANEW: ();
}

/// Makes requests, over connections that it keeps for later ones.
#[derive(Debug, Default)]
pub(crate) struct Web {
    /// The second one keeps no connection.
    plain: [OnceLock<Plain>; 2],
    tls: [OnceLock<Encrypted>; 2],
    /// How TLS begins with the system's certificates, or what is wrong with them.
    trust: OnceLock<Result<HttpsConnector<HttpConnector>, String>>,
}

/// What can go wrong with a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebError {
    /// A URL of another kind.
    #[error("only `http` and `https` are supported, not `{0}`")]
    Scheme(String),
    /// An address that is not encrypted, where that was not allowed.
    #[cfg(feature = "source-object-store")]
    #[error("the address is not encrypted: set `{0}` to `true` to allow plain HTTP")]
    Plain(&'static str),
    /// The system has no certificates.
    #[error(
        "no certificates to trust: {0}; install `ca-certificates`, or name a file by `SSL_CERT_FILE`"
    )]
    Trust(String),
    /// No connection, or it broke.
    #[error("no answer")]
    Send(#[source] hyper_util::client::legacy::Error),
    /// An answer that broke off.
    #[error("the answer ended early")]
    Body(#[source] hyper::Error),
    /// An answer of another length than it should have.
    #[error("the answer has {got} bytes or more instead of {wanted}")]
    Length {
        /// That it should have.
        wanted: u64,
        /// That came until then.
        got: u64,
    },
    /// An answer that is no success.
    #[error("the server answers {status}{}{said}{}", if said.is_empty() { "" } else { ": " }, hint(*status))]
    Status {
        /// Its status.
        status: StatusCode,
        /// What the server said, without what could be secret.
        said: String,
    },
    /// An answer that cannot be used.
    #[error("{0}")]
    Unusable(&'static str),
    /// Redirects that lead nowhere.
    #[error("redirected {0} times")]
    Redirects(usize),
    /// A redirect that gives up encryption, or that is no URL.
    #[error("redirected to an address that cannot be followed")]
    Redirect,
    /// A URL that is none.
    #[error("`{0}` is not a URL")]
    Url(String),
}

/// Has each request of a future go over a connection of its own: one that is kept may lead to a server that is broken.
pub(crate) async fn anew<F: Future>(future: F) -> F::Output {
    ANEW.scope((), future).await
}

// === impl Web ===

impl Web {
    /// Makes one request. The answer's body is not read yet.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, WebError> {
        let scheme = request.uri().scheme().cloned();
        let sent = match scheme {
            Some(scheme) if scheme == Scheme::HTTP => self.plain().request(request),
            Some(scheme) if scheme == Scheme::HTTPS => self.tls()?.request(request),
            other => {
                return Err(WebError::Scheme(other.map_or(String::new(), |s| s.to_string())));
            }
        };
        sent.await.map_err(WebError::Send)
    }

    fn plain(&self) -> &Plain {
        self.plain[usize::from(is_anew())].get_or_init(|| client().build(connector()))
    }

    fn tls(&self) -> Result<&Encrypted, WebError> {
        let trust = self.trust.get_or_init(|| {
            let mut tcp = connector();
            tcp.enforce_http(false);
            let tls = HttpsConnectorBuilder::new().with_native_roots();
            let tls = tls.map_err(|error| error.to_string())?;
            Ok(tls.https_only().enable_http1().wrap_connector(tcp))
        });
        let trust = trust.as_ref().map_err(|fault| WebError::Trust(fault.clone()))?;
        Ok(self.tls[usize::from(is_anew())].get_or_init(|| client().build(trust.clone())))
    }
}

/// Whether this is such a future.
pub(crate) fn is_anew() -> bool {
    ANEW.try_with(|()| ()).is_ok()
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.set_nodelay(true);
    connector
}

fn client() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    let idle = if is_anew() { 0 } else { IDLE_OF_A_HOST };
    builder.pool_idle_timeout(IDLE_TIMEOUT).pool_max_idle_per_host(idle);
    builder
}

// === impl WebError ===

impl From<WebError> for Refusal {
    fn from(error: WebError) -> Self {
        match &error {
            WebError::Send(_) | WebError::Body(_) | WebError::Length { .. } => {
                Self::Passing(Box::new(error))
            }
            WebError::Status { status, .. } => match status.as_u16() {
                404 | 410 => Self::NotFound,
                412 => Self::Changed,
                // The end of an object that is shorter than it was.
                416 => Self::Changed,
                408 | 425 | 429 | 500.. => Self::Passing(Box::new(error)),
                _ => Self::Final(Box::new(error)),
            },
            _ => Self::Final(Box::new(error)),
        }
    }
}

/// What a person may do about a status.
fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => " (check region, endpoint and credentials)",
        401 | 403 => " (check that the credentials may read it)",
        301 | 307 | 308 => " (check region and endpoint)",
        429 | 503 => " (fewer requests at a time: lower `storage.source_requests_max`)",
        _ => "",
    }
}
