//! Sources against servers that behave, and that do not.

mod faults;
mod finding;
mod hub;
#[cfg(feature = "source-object-store")]
mod moto;
mod s3;
mod server;
mod serving;

use std::path::PathBuf;
use std::sync::Arc;

use super::conformance::World;
use super::distant::{Distant, Node, Remote};
use super::hub::Hub;
use super::web::Web;
use super::web_server::WebServer;
use super::{LocalSource, Source};
use crate::config::SourceConfig;
use server::{Dialect, Fault, Request, Server};

fn config() -> SourceConfig {
    SourceConfig { source_timeout_ms: 60_000, source_retry_ms: 60_000, ..Default::default() }
}

fn distant(remote: impl Remote + 'static, config: &SourceConfig) -> Arc<Distant> {
    Arc::new(Distant::new(Arc::new(remote), Arc::new(Node::new(config))))
}

fn web_server(server: &Server) -> WebServer {
    WebServer::new(Arc::default(), format!("http://{}", server.address))
}

fn hub_of(server: &Server) -> Hub {
    let endpoint = format!("http://{}/", server.address);
    Hub::new(Arc::<Web>::default(), &endpoint, Some("hf_secret\n"), "u/n@main").unwrap()
}

#[cfg(feature = "source-object-store")]
fn bucket(server: &Server) -> super::stores::Bucket {
    bucket_at(server.address)
}

#[cfg(feature = "source-object-store")]
fn bucket_at(address: std::net::SocketAddr) -> super::stores::Bucket {
    bucket_named("bucket", address)
}

#[cfg(feature = "source-object-store")]
fn bucket_named(name: &str, address: std::net::SocketAddr) -> super::stores::Bucket {
    use object_store::ClientConfigKey;
    use object_store::aws::AmazonS3ConfigKey as Key;
    let options = [
        (Key::AccessKeyId, "AKIAKEY".to_owned()),
        (Key::SecretAccessKey, "hushhush".to_owned()),
        (Key::Region, "eu-west-1".to_owned()),
        (Key::Endpoint, format!("http://{address}")),
        (Key::Client(ClientConfigKey::AllowHttp), "true".to_owned()),
    ];
    super::stores::Bucket::s3_with(name, &Arc::default(), &options)
}

#[test]
fn files_of_this_host_conform() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let put = move |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Another file of that name, as whoever replaces one carefully does.
        let new = path.with_extension("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, path).unwrap();
    };
    let source: Arc<dyn Source> = Arc::new(LocalSource::within(&[], false));
    let root = folder.path().to_owned();
    World { source, root, put: Box::new(put), lists: true, secrets: Vec::new() }.conforms();
}

#[test]
fn a_web_server_conforms() {
    let server = Server::start(Dialect::Plain);
    let source = distant(web_server(&server), &config());
    let put = Box::new(move |name: &str, bytes: &[u8]| server.put(&format!("ds/{name}"), bytes));
    World { source, root: "ds".into(), put, lists: false, secrets: Vec::new() }.conforms();
}

#[test]
#[cfg(feature = "source-object-store")]
fn a_store_that_speaks_s3_conforms() {
    let server = Server::start(Dialect::S3);
    let source = distant(bucket(&server), &config());
    let put = Box::new(move |name: &str, bytes: &[u8]| server.put(&format!("ds/{name}"), bytes));
    let secrets = vec!["AKIAKEY", "hushhush"];
    World { source, root: "ds".into(), put, lists: true, secrets }.conforms();
}

#[test]
fn the_hub_conforms_and_its_token_stays_with_it() {
    let elsewhere = Arc::new(Server::start(Dialect::Plain));
    let hub = Arc::new(Server::start(Dialect::Hub { elsewhere: elsewhere.address }));
    let source = distant(hub_of(&hub), &config());
    let (at_hub, at_other) = (hub.clone(), elsewhere.clone());
    let put = Box::new(move |name: &str, bytes: &[u8]| {
        at_hub.put(&format!("ds/{name}"), bytes);
        at_other.put(&format!("datasets/u/n/resolve/{}/ds/{name}", hub::COMMIT), bytes);
    });
    let secrets = vec!["hf_secret"];
    World { source, root: "ds".into(), put, lists: true, secrets }.conforms();
    let of_other = elsewhere.requests();
    assert!(of_other.len() > 20, "large files lie elsewhere");
    assert!(of_other.iter().all(|request| !request.headers.contains_key("authorization")));
    let asked = hub.requests();
    let ranges = |asked: &[Request]| {
        let of_file = asked.iter().filter(|request| request.path.ends_with("/ranges.tar"));
        of_file.filter(|request| request.headers.contains_key("range")).count()
    };
    let (asked_here, there) = (ranges(&asked), ranges(&of_other));
    assert!(asked_here * 3 <= there, "signed URLs are used again: {asked_here} of {there}");
    let named: Vec<_> = asked.iter().filter(|request| request.path.contains("/main")).collect();
    assert_eq!(named.len(), 1, "the revision is pinned by one request");
}

/// The hub names another mirror in the place of one that gives wrong bytes.
#[test]
fn a_second_read_of_the_hub_follows_a_redirect_of_its_own() {
    let mirrors = [0; 2].map(|_| Server::start(Dialect::Plain));
    let hub = Server::start(Dialect::Hub { elsewhere: mirrors[0].address });
    let resolved = format!("datasets/u/n/resolve/{}/a.tar", hub::COMMIT);
    hub.put("a.tar", b"right");
    for (mirror, bytes) in mirrors.iter().zip([b"wrong", b"right"]) {
        mirror.put(&resolved, bytes);
    }
    let source = distant(hub_of(&hub), &config());
    let read = |source: &dyn Source| source.open(&path("a.tar")).unwrap().read(0..5).unwrap();
    assert_eq!(read(&*source), "wrong");
    let other = format!("http://{}/{resolved}", mirrors[1].address);
    hub.fail(move |request| {
        let is_read = request.headers.contains_key("range");
        is_read.then(|| Fault::Redirect(other.clone()))
    });
    assert_eq!(read(&*source.anew().unwrap()), "right");
    assert_eq!(read(&*source), "right", "later reads follow it too");
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(name)
}
