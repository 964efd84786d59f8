//! Certificates on both sides, TLS 1.3.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::AccessError;
use crate::files::{NamedFile, Stamp};

/// gRPC is HTTP/2.
const GRPC: &[u8] = b"h2";
/// The `tcp` link: a caller of one kind gets nowhere at a listener of the other.
const DATA: &[u8] = b"headwater-data";

/// The three files of TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificates<'a> {
    pub(crate) ca: &'a Path,
    pub(crate) cert: &'a Path,
    pub(crate) key: &'a Path,
}

/// What both sides of a handshake need, as the files have it now.
pub(crate) struct Tls {
    ca: NamedFile,
    cert: NamedFile,
    key: NamedFile,
    held: Mutex<Held>,
}

#[derive(Clone)]
struct Held {
    stamps: [Option<Stamp>; 3],
    /// Of this process.
    own: CertificateDer<'static>,
    grpc: Ends,
    data: Ends,
}

/// Both ends of the connections of one protocol.
#[derive(Clone)]
pub(crate) struct Ends {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

// === impl Tls ===

impl Tls {
    pub(crate) fn open(files: Certificates<'_>) -> Result<Self, AccessError> {
        let ca = NamedFile::new("ca_file", files.ca);
        let cert = NamedFile::new("cert_file", files.cert);
        let key = NamedFile::new("key_file", files.key);
        let held = load(&ca, &cert, &key)?;
        Ok(Self { ca, cert, key, held: Mutex::new(held) })
    }

    pub(crate) fn grpc(&self) -> Ends {
        self.current().grpc
    }

    pub(crate) fn data(&self) -> Ends {
        self.current().data
    }

    /// Checks that callers of `name` accept this process's certificate.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), String> {
        let own = self.current().own;
        let wanted = server_name(name).ok_or_else(|| format!("`{name}` is no name of a server"))?;
        let own = ParsedCertificate::try_from(&own).map_err(|error| error.to_string())?;
        verify_server_name(&own, &wanted).map_err(|error| error.to_string())
    }

    /// As the files have it; what they had before while they do not fit together.
    fn current(&self) -> Held {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps(&self.ca, &self.cert, &self.key) != held.stamps {
            match load(&self.ca, &self.cert, &self.key) {
                Ok(loaded) => {
                    tracing::info!(path = %self.cert.path.display(), "certificates read again");
                    *held = loaded;
                }
                // Tried again at the next connection: perhaps only one of two files is new yet.
                Err(error) => tracing::warn!(%error, "the certificates before stay in force"),
            }
        }
        held.clone()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// A name as certificates carry it: of a host, or an address.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).ok()
}

fn stamps(ca: &NamedFile, cert: &NamedFile, key: &NamedFile) -> [Option<Stamp>; 3] {
    [ca.stamp(), cert.stamp(), key.stamp()]
}

fn load(ca: &NamedFile, cert: &NamedFile, key: &NamedFile) -> Result<Held, AccessError> {
    // Before the files are read: a change meanwhile is seen at the next look.
    let stamps = stamps(ca, cert, key);
    let roots = roots(ca)?;
    let chain = chain(cert)?;
    let secret = PrivateKeyDer::from_pem_slice(&key.read()?)
        .map_err(|error| key.wrong(format!("no private key in PEM form: {error}")))?;
    let provider = Arc::new(ring::default_provider());
    let pair = |error| cert.wrong(format!("does not go with {}: {error}", key.path.display()));

    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let verifier = verifier.build().map_err(|error| ca.wrong(error.to_string()))?;
    // What every other process of the job would find out, said here in plain words.
    let (own, between) = chain.split_first().expect("a chain is not empty");
    verifier.verify_client_cert(own, between, UnixTime::now()).map_err(|error| {
        cert.wrong(format!("not valid by the authorities of {}: {error}", ca.path.display()))
    })?;
    let own = own.clone();
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| cert.wrong(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), secret.clone_key())
        .map_err(pair)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cert.wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, secret)
        .map_err(pair)?;
    let ends = |protocol: &[u8]| {
        let (mut server, mut client) = (server.clone(), client.clone());
        server.alpn_protocols = vec![protocol.to_vec()];
        client.alpn_protocols = vec![protocol.to_vec()];
        Ends { server: Arc::new(server), client: Arc::new(client) }
    };
    Ok(Held { stamps, own, grpc: ends(GRPC), data: ends(DATA) })
}

fn roots(ca: &NamedFile) -> Result<Arc<RootCertStore>, AccessError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(ca)? {
        roots.add(certificate).map_err(|error| ca.wrong(error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn chain(file: &NamedFile) -> Result<Vec<CertificateDer<'static>>, AccessError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file.read()?).collect();
    let chain = chain.map_err(|error| file.wrong(format!("not in PEM form: {error}")))?;
    if chain.is_empty() {
        return Err(file.wrong("no certificate in PEM form"));
    }
    Ok(chain)
}
