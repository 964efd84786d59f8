//! One request at a time, each on a connection of its own.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headwater_http_client::{HttpError, Limits, block_on};
use http_body_util::Empty;
use hyper::Request;
use rustix::net::sockopt;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::KubernetesError;

/// Where a pod finds its token, the cluster's authority and its namespace.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The largest answer has a thousand endpoint slices of a hundred pods each.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), body_bytes: 32 << 20 };

/// A connection that is quiet is asked after, and given up without answers.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 4;

/// The API server, as a service account sees it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    host: String,
    port: u16,
    token: PathBuf,
    tls: Arc<ClientConfig>,
}

// === impl ApiServer ===

impl ApiServer {
    /// The server of the cluster that this process is a pod of.
    ///
    /// # Errors
    /// It is not in a pod, or the pod has no token.
    pub fn of_this_pod() -> Result<Self, KubernetesError> {
        let variable = |name: &str| {
            std::env::var(name)
                .map_err(|_| KubernetesError::NotInPod { what: format!("${name} is not set") })
        };
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let port = port.parse().map_err(|_| KubernetesError::NotInPod {
            what: format!("$KUBERNETES_SERVICE_PORT is `{port}`, no port"),
        })?;
        Self::new(&host, port, Path::new(SERVICE_ACCOUNT))
    }

    /// A server whose certificate `ca.crt` in `account` vouches for, with the `token` of the
    /// same folder.
    ///
    /// # Errors
    /// A file that is missing, or no certificate.
    pub fn new(host: &str, port: u16, account: &Path) -> Result<Self, KubernetesError> {
        let authority = account.join("ca.crt");
        let token = account.join("token");
        let wrong = |problem: String| KubernetesError::File { path: authority.clone(), problem };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(&authority);
        for certificate in certificates.map_err(|error| wrong(error.to_string()))? {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        read(&token)?;
        Ok(Self { host: host.to_owned(), port, token, tls: Arc::new(tls) })
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// No connection within its limit, a refusal, no JSON.
    pub fn get(&self, path: &str) -> Result<Value, KubernetesError> {
        let wrong = |problem: String| KubernetesError::Answer { path: path.to_owned(), problem };
        let broken = |source| KubernetesError::Connection { server: self.place(), source };
        let request = self.request(path)?;
        let answer = block_on(LIMITS.exchange(self.connect(), request));
        let answer = answer.map_err(HttpError::Connect).flatten().map_err(broken)?;
        let (status, answer) = (answer.status(), serde_json::from_slice(answer.body()));
        if !status.is_success() {
            return Err(refused(path, status.as_u16(), answer.ok()));
        }
        answer.map_err(|error| wrong(format!("the answer is no JSON: {error}")))
    }

    /// Follows a list: the events of a watch, one after another, until the server ends it, `take` says to stop, or nothing
    /// comes for `silence`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn watch(
        &self,
        path: &str,
        silence: Duration,
        mut take: impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<(), KubernetesError> {
        let broken = |source| KubernetesError::Connection { server: self.place(), source };
        let request = self.request(path)?;
        let (mut line, mut fault) = (Vec::new(), None);
        let followed = LIMITS.stream(self.connect(), request, silence, |status, piece| {
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LIMITS.body_bytes {
                    fault = Some("an event is too long".to_owned());
                    return ControlFlow::Break(());
                }
                // A refusal is one object, which need not end a line.
                if !status.is_success() || !line.ends_with(b"\n") {
                    continue;
                }
                match serde_json::from_slice(&std::mem::take(&mut line)) {
                    Ok(event) => take(event)?,
                    Err(error) => {
                        fault = Some(format!("an event is no JSON: {error}"));
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        let status = block_on(followed).map_err(HttpError::Connect).flatten().map_err(broken)?;
        if !status.is_success() {
            return Err(refused(path, status.as_u16(), serde_json::from_slice(&line).ok()));
        }
        let wrong = |problem| KubernetesError::Answer { path: path.to_owned(), problem };
        fault.map_or(Ok(()), |problem| Err(wrong(problem)))
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, KubernetesError> {
        let wrong = |problem: String| KubernetesError::Answer { path: path.to_owned(), problem };
        // Read each time: a token lives for an hour and is replaced in its file.
        let token = read(&self.token)?;
        Request::get(path)
            .header("host", self.place())
            .header("authorization", format!("Bearer {token}"))
            .header("accept", "application/json")
            .header("user-agent", concat!("headwater/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| wrong(error.to_string()))
    }

    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| io::Error::other(format!("`{}` is no name of a server", self.host)))?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        // A server that is gone says nothing, and nothing is sent to it while it is listened to.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_COUNT)?;
        TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await
    }

    fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// In the server's words.
fn refused(path: &str, status: u16, answer: Option<Value>) -> KubernetesError {
    let said = answer.and_then(|answer| Some(answer.get("message")?.as_str()?.to_owned()));
    let message = said.unwrap_or_else(|| "no reason was given".to_owned());
    KubernetesError::Refused { path: path.to_owned(), status, message }
}

fn read(path: &Path) -> Result<String, KubernetesError> {
    let text = std::fs::read_to_string(path).map_err(|error| KubernetesError::File {
        path: path.to_owned(),
        problem: format!("{error}: is the service account's token mounted?"),
    })?;
    Ok(text.trim().to_owned())
}
