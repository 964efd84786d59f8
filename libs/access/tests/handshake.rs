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
    let mut incoming = access.incoming(listener, 1000, "test");
    while let Some(connection) = incoming.next().await {
        let mut connection = connection.expect("a connection");
        assert!(connection.standing().let_in());
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

/// Whether the other end keeps the connection.
fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect(what);
}

#[tokio::test]
async fn callers_who_shake_no_hands_hold_up_nobody_however_many_they_are() {
    const STRANGERS_MAX: usize = 256;
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, ca) = authority();
    let pair = sign(&ours, 3000);
    let access = access(folder.path(), &ca, &pair, 600_000);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(serve(access, listener));
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.expect("a listener"));
    }
    let answered = tokio::time::timeout(Duration::from_secs(60), answered(port, &ca, Some(&pair)));
    assert_eq!(answered.await, Ok(true), "its turn never comes");
    until("all stand who came", || {
        silent.retain(is_open);
        silent.len() <= STRANGERS_MAX
    })
    .await;
}

/// Takes connections and lets those in that say something; what they say is left unread.
async fn serve_talkers(access: Access, listener: TcpListener, connections_max: usize) {
    let mut incoming = access.incoming(listener, connections_max, "test");
    while let Some(connection) = incoming.next().await {
        let mut connection = connection.expect("a connection");
        tokio::spawn(async move {
            let standing = connection.standing();
            while connection.read_u8().await.is_ok() {
                connection.write_u8(standing.let_in().into()).await.ok();
            }
        });
    }
}

async fn said(stream: &mut TcpStream) -> Option<u8> {
    stream.write_all(b"?").await.ok()?;
    stream.read_u8().await.ok()
}

#[tokio::test]
async fn a_caller_without_a_request_is_cut_off_and_one_with_it_stays() {
    let config =
        AccessConfig { first_request_timeout_ms: 300, strangers_max: 4, ..AccessConfig::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(serve_talkers(Access::open(&config).expect("no files"), listener, 2));
    let dial = || TcpStream::connect(("127.0.0.1", port));
    let mut honest = dial().await.expect("a listener");
    assert_eq!(said(&mut honest).await, Some(1));
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(dial().await.expect("a listener"));
    }
    let mut second = dial().await.expect("a listener");
    assert_eq!(said(&mut second).await, Some(1), "beside a hundred silent ones");
    let mut third = dial().await.expect("a listener");
    assert_eq!(said(&mut third).await, Some(0), "three where there may be two");
    until("silent callers stand", || {
        silent.retain(is_open);
        silent.is_empty() && !is_open(&third)
    })
    .await;
    assert_eq!(said(&mut honest).await, Some(1), "it was let in once and stays");
    drop((honest, second));
    let again = async { while said(&mut dial().await.expect("a listener")).await != Some(1) {} };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("a seat given back");
}
