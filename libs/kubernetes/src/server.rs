//! One request at a time, each on a connection of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::KubernetesError;

/// Where a pod finds its token, the cluster's authority and its namespace.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Largest answer: a thousand endpoint slices of a hundred pods each.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// The API server, as a service account sees it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    host: String,
    port: u16,
    token: PathBuf,
    tls: Arc<ClientConfig>,
    namespace: String,
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

    /// A server whose certificate `ca.crt` in `account` vouches for, with `token` and `namespace`
    /// of the same folder.
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
        let namespace = read(&account.join("namespace"))?;
        Ok(Self { host: host.to_owned(), port, token, tls: Arc::new(tls), namespace })
    }

    /// The namespace of this pod.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// No connection within its limit, a refusal, no JSON.
    pub fn get(&self, path: &str) -> Result<Value, KubernetesError> {
        self.request(Method::GET, path, None)
    }

    /// Changes an object by a merge patch (RFC 7386).
    ///
    /// # Errors
    /// As for [`ApiServer::get`].
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value, KubernetesError> {
        self.request(Method::PATCH, path, Some(patch))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        patch: Option<&Value>,
    ) -> Result<Value, KubernetesError> {
        let broken = |source| KubernetesError::Connection { server: self.place(), source };
        // Its own: callers are threads that may block, in a runtime or without one.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let verb = if method == Method::GET { "GET" } else { "PATCH" };
        // Read each time: a token lives for an hour and is replaced in its file.
        let token = read(&self.token)?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.place())
            .header("authorization", format!("Bearer {token}"))
            .header("accept", "application/json")
            .header("user-agent", concat!("headwater/", env!("CARGO_PKG_VERSION")));
        if patch.is_some() {
            request = request.header("content-type", "application/merge-patch+json");
        }
        let body = patch.map(ToString::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| {
            KubernetesError::Answer { path: path.to_owned(), problem: error.to_string() }
        })?;
        let answered = runtime.map_err(broken)?.block_on(async {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in 10 s");
            tokio::time::timeout(TIME_LIMIT, self.exchange(request)).await.map_err(late)?
        });
        let (status, bytes) = answered.map_err(broken)?;
        let answer = serde_json::from_slice(&bytes);
        if !(200..300).contains(&status) {
            let said = answer.ok().and_then(|answer: Value| {
                answer.get("message").and_then(Value::as_str).map(str::to_owned)
            });
            let message = said.unwrap_or_else(|| "no reason was given".to_owned());
            return Err(KubernetesError::Refused { verb, path: path.to_owned(), status, message });
        }
        answer.map_err(|error| KubernetesError::Answer {
            path: path.to_owned(),
            problem: format!("the answer is no JSON: {error}"),
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> io::Result<(u16, Bytes)> {
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| io::Error::other(format!("`{}` is no name of a server", self.host)))?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        speak(stream, request).await
    }

    fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// One request and its answer over a connection.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> io::Result<(u16, Bytes)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(async move {
        // What breaks it off is said to whoever waits for the answer.
        let _ = connection.await;
    });
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok((status, body.map_err(io::Error::other)?.to_bytes()))
}

fn read(path: &Path) -> Result<String, KubernetesError> {
    let text = std::fs::read_to_string(path).map_err(|error| KubernetesError::File {
        path: path.to_owned(),
        problem: format!("{error}: is the service account's token mounted?"),
    })?;
    Ok(text.trim().to_owned())
}
