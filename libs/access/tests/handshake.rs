//! Callers that present another certificate than ours, or none, get no connection.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headwater_access::{Access, AccessConfig};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_stream::StreamExt as _;

type Authority = Issuer<'static, KeyPair>;

/// A certificate and its key in PEM form.
struct Pair {
    certificate: String,
    key: String,
}

fn authority() -> (Authority, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    (Issuer::new(params, key), certificate)
}

fn sign(authority: &Authority, ends: i32) -> Pair {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(ends, 1, 1);
    let certificate = params.signed_by(&key, authority).expect("a certificate").pem();
    Pair { certificate, key: key.serialize_pem() }
}

fn access(folder: &Path, ca: &str, pair: &Pair, handshake_timeout_ms: u64) -> Access {
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("a file");
        folder.join(name)
    };
    let config = AccessConfig {
        ca_file: file("ca.pem", ca),
        cert_file: file("cert.pem", &pair.certificate),
        key_file: file("key.pem", &pair.key),
        handshake_timeout_ms,
        ..AccessConfig::default()
    };
    Access::open(&config).expect("usable files")
}

/// Calls with a certificate, or none, trusting `ca`; whether an answer comes.
async fn answered(port: u16, ca: &str, pair: Option<&Pair>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS 1.3")
        .with_root_certificates(roots);
    let mut config = match pair {
        None => config.with_no_client_auth(),
        Some(Pair { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a listener");
    let name = "localhost".try_into().expect("a name");
    let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
        return false;
    };
    let mut answer = [0];
    stream.write_all(b"?").await.is_ok() && stream.read_exact(&mut answer).await.is_ok()
}

/// Answers a byte to every byte of every connection.
async fn serve(access: Access, listener: TcpListener) {
    let mut incoming = access.incoming(listener, 1000);
    while let Some(connection) = incoming.next().await {
        let mut connection = connection.expect("a connection");
        tokio::spawn(async move {
            while let Ok(byte) = connection.read_u8().await {
                connection.write_u8(byte).await.ok();
                connection.flush().await.ok();
            }
        });
    }
}

#[tokio::test]
async fn only_a_certificate_of_our_authority_gets_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, ca) = authority();
    let (theirs, _) = authority();
    let access = access(folder.path(), &ca, &sign(&ours, 3000), 500);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(serve(access, listener));

    assert!(answered(port, &ca, Some(&sign(&ours, 3000))).await, "one of ours");
    assert!(!answered(port, &ca, None).await, "no certificate");
    assert!(!answered(port, &ca, Some(&sign(&theirs, 3000))).await, "another authority's");
    assert!(!answered(port, &ca, Some(&sign(&ours, 2001))).await, "an expired one");
    // One that says nothing is cut off, and holds up nobody meanwhile.
    let mut silent = TcpStream::connect(("127.0.0.1", port)).await.expect("a listener");
    assert!(answered(port, &ca, Some(&sign(&ours, 3000))).await, "beside a silent one");
    let mut rest = Vec::new();
    let cut = tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut rest)).await;
    assert!(cut.is_ok(), "a silent caller is kept");
}

#[tokio::test]
async fn beside_as_many_handshakes_as_may_be_a_further_caller_waits_for_one_to_end() {
    const HANDSHAKES_MAX: usize = 256;
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, ca) = authority();
    let pair = sign(&ours, 3000);
    let access = access(folder.path(), &ca, &pair, 600_000);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(serve(access, listener));
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.expect("a listener"));
    }
    let mut answer = Box::pin(answered(port, &ca, Some(&pair)));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut answer).await;
    assert!(early.is_err(), "more handshakes at a time than may be");
    drop(silent.pop());
    let answered = tokio::time::timeout(Duration::from_secs(60), answer).await;
    assert_eq!(answered, Ok(true), "its turn never comes");
}
