//! What goes over the wire, beside the documented API, and what becomes of the answers. The server
//! here is a stand-in that notes requests; `make test-k8s` asks a real one.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use headwater_kubernetes::{ApiServer, KubernetesError, Listing, ServicePort, Slices};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Answers by path: status and body. Anything else is not found.
type Answers = &'static [(&'static str, u16, &'static str)];

struct Server {
    api: ApiServer,
    requests: Arc<Mutex<Vec<String>>>,
    folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

const NOT_FOUND: &str = r#"{"kind":"Status","message":"the server could not find it","code":404}"#;

fn server(answers: Answers) -> Server {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.path().join("token"), "the-token\n").unwrap();
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = answer(stream, answers, &noted).await;
            }
        }
    });
    let api = ApiServer::new("127.0.0.1", port, folder.path()).unwrap();
    Server { api, requests, folder, _runtime: runtime }
}

async fn answer(
    mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    answers: Answers,
    noted: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes).await? {
            0 => break,
            count => request.extend_from_slice(&bytes[..count]),
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    noted.lock().unwrap().push(request);
    let found = answers.iter().find(|(known, ..)| *known == path);
    let (status, body) = found.map_or((404, NOT_FOUND), |(_, status, body)| (*status, *body));
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n");
    let text = format!("{head}content-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

#[test]
fn a_list_is_read_with_the_token_of_the_account() {
    let server = server(&[(SLICES, 200, "{}")]);
    server.api.get(SLICES).unwrap();
    let requests = server.requests.lock().unwrap();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(request.starts_with(&format!("GET {SLICES} HTTP/1.1\r\n")), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer the-token\r\n"), "{request}");
}

#[test]
fn a_refusal_is_told_in_the_servers_words() {
    const REFUSAL: &str = r#"{"kind":"Status","message":"endpointslices is forbidden","code":403}"#;
    let server = server(&[(SLICES, 403, REFUSAL)]);
    let error = slices(ServicePort::Number(1)).list(&server.api).unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.to_string(), format!("GET {SLICES}: 403: endpointslices is forbidden"));
}

#[test]
fn a_token_is_read_again_for_each_request() {
    let server = server(&[(SLICES, 200, "{}")]);
    server.api.get(SLICES).unwrap();
    std::fs::write(server.folder.path().join("token"), "another").unwrap();
    server.api.get(SLICES).unwrap();
    let requests = server.requests.lock().unwrap();
    assert!(requests[1].contains("Bearer another\r\n"));
}

#[test]
fn a_server_that_another_authority_vouches_for_is_refused() {
    let ours = server(&[]);
    let theirs = server(&[]);
    let certificate = theirs.folder.path().join("ca.crt");
    std::fs::copy(certificate, ours.folder.path().join("ca.crt")).unwrap();
    let port = {
        // The address of ours, as its errors tell it.
        let error = ours.api.get("/none").unwrap_err();
        assert!(matches!(error, KubernetesError::Refused { status: 404, .. }), "{error}");
        let requests = ours.requests.lock().unwrap();
        let host = requests[0].lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        host.rsplit_once(':').unwrap().1.parse().unwrap()
    };
    let api = ApiServer::new("127.0.0.1", port, ours.folder.path()).unwrap();
    let error = api.get("/none").unwrap_err();
    assert!(matches!(error, KubernetesError::Connection { .. }), "{error}");
    assert!(error.is_retryable());
}

#[test]
fn without_a_token_the_remedy_is_named() {
    let error = ApiServer::new("127.0.0.1", 1, Path::new("/nowhere")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.crt"), "{error}");
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices?labelSelector=\
                      kubernetes.io%2Fservice-name%3Dhw-augment";
const OLD_SLICES: &str = "/apis/discovery.k8s.io/v1beta1/namespaces/ml/endpointslices?labelSelector=\
                          kubernetes.io%2Fservice-name%3Dhw-augment";
const TWO_SLICES: &str = r#"{"kind":"EndpointSliceList","items":[
    {"addressType":"IPv4","ports":[{"name":"grpc","port":7402},{"name":"metrics","port":9400}],
     "endpoints":[{"addresses":["10.0.0.3"],"conditions":{"ready":true}},
                  {"addresses":["10.0.0.2"],"conditions":{}},
                  {"addresses":["10.0.0.9"],"conditions":{"ready":false}}]},
    {"addressType":"IPv4","ports":[{"name":"grpc","port":7402}],
     "endpoints":[{"addresses":["10.0.0.2"],"conditions":{"ready":true}}]},
    {"addressType":"IPv6","ports":[{"name":"grpc","port":7402}],
     "endpoints":[{"addresses":["fd00::2"]}]}]}"#;

fn slices(port: ServicePort) -> Slices {
    Slices { namespace: "ml".into(), service: "hw-augment".into(), port }
}

#[test]
fn pods_that_are_ready_are_found_once_each() {
    let server = server(&[(SLICES, 200, TWO_SLICES)]);
    let found = slices(ServicePort::Name("grpc".into())).list(&server.api).unwrap().addresses();
    assert_eq!(found, ["10.0.0.2:7402", "10.0.0.3:7402", "[fd00::2]:7402"]);
    let found = slices(ServicePort::Name("metrics".into())).list(&server.api).unwrap().addresses();
    assert_eq!(found, ["10.0.0.2:9400", "10.0.0.3:9400"]);
    let found = slices(ServicePort::Number(1)).list(&server.api).unwrap().addresses();
    assert_eq!(found, ["10.0.0.2:1", "10.0.0.3:1", "[fd00::2]:1"]);
}

const LISTED: &str = r#"{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"name":"a"},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.3"]}]},
    {"metadata":{"name":"b"},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.4"]}]}]}"#;
const WATCHED: &str = "&watch=true&allowWatchBookmarks=true&resourceVersion=";
/// One slice changes, one goes, one comes; then the server does not know any more.
const EVENTS: &str = concat!(
    r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"8"},"addressType":"IPv4","#,
    r#""endpoints":[{"addresses":["10.0.0.3"]},{"addresses":["10.0.0.5"]}]}}"#,
    "\n",
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#,
    "\n",
    r#"{"type":"DELETED","object":{"metadata":{"name":"b","resourceVersion":"10"},"addressType":"IPv4"}}"#,
    "\n",
    r#"{"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"11"},"addressType":"IPv4","#,
    r#""endpoints":[{"addresses":["10.0.0.6"]}]}}"#,
    "\n",
);
const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}
"#;

/// The paths of a list's watch from a version on, for the table of answers.
macro_rules! watch {
    ($version:literal) => {
        concat!(
            "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices?labelSelector=",
            "kubernetes.io%2Fservice-name%3Dhw-augment",
            "&watch=true&allowWatchBookmarks=true&resourceVersion=",
            $version,
            "&timeoutSeconds=300"
        )
    };
}

#[test]
fn changes_are_followed_from_the_list_on_until_the_server_knows_no_more() {
    let server =
        server(&[(SLICES, 200, LISTED), (watch!("7"), 200, EVENTS), (watch!("11"), 200, GONE)]);
    let slices = slices(ServicePort::Number(1));
    let mut listing = slices.list(&server.api).unwrap();
    assert_eq!(listing.addresses(), ["10.0.0.3:1", "10.0.0.4:1"]);
    let mut told = Vec::new();
    let mut follow = |listing: &mut Listing, most: usize| {
        let begun = told.len();
        slices.follow(&server.api, listing, |listing| {
            told.push(listing.addresses().join(" "));
            if told.len() - begun < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
    };
    follow(&mut listing.clone(), 1).unwrap();
    follow(&mut listing, 99).unwrap();
    let error = follow(&mut listing, 99).unwrap_err();
    assert_eq!(error.status(), Some(410), "{error}");
    let first = "10.0.0.3:1 10.0.0.4:1 10.0.0.5:1";
    // The second is a bookmark's.
    let all = [first, first, "10.0.0.3:1 10.0.0.5:1", "10.0.0.3:1 10.0.0.5:1 10.0.0.6:1"];
    assert_eq!(told, [&all[..1], &all[..]].concat());
    let requests = server.requests.lock().unwrap();
    assert!(requests.iter().skip(1).all(|request| request.contains(WATCHED)), "{requests:?}");
}

#[test]
fn an_account_that_may_not_watch_is_told_from_a_server_that_is_gone() {
    const REFUSAL: &str = r#"{"kind":"Status","message":"cannot watch resource","code":403}"#;
    let server = server(&[(SLICES, 200, LISTED), (watch!("7"), 403, REFUSAL)]);
    let slices = slices(ServicePort::Number(1));
    let mut listing = slices.list(&server.api).unwrap();
    let error =
        slices.follow(&server.api, &mut listing, |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.status(), Some(403));
    assert!(error.to_string().ends_with(": 403: cannot watch resource"), "{error}");
}

#[test]
fn a_cluster_before_1_21_is_asked_in_its_own_version() {
    let server = server(&[(OLD_SLICES, 200, TWO_SLICES)]);
    let found = slices(ServicePort::Number(7402)).list(&server.api).unwrap().addresses();
    assert_eq!(found.len(), 3);
}
