//! Patterns of URLs, roots, checksums.

use std::sync::Arc;

use headwater_storage_client::ObjectError;
use sha2::{Digest, Sha256};

use super::super::Registry;
use super::super::conformance::bytes;
use super::super::sums::{SUMS_FILE, Sums, is_other_sum, read_whole};
use super::config;
use super::hub::COMMIT;
use super::server::{Dialect, Server};
use crate::config::SourceConfig;
use crate::find::find_distant;

fn found(registry: &Registry, pattern: &str) -> Result<Vec<String>, String> {
    let mut places = Vec::new();
    find_distant(pattern, registry, &mut places).map_err(|error| error.sentence())?;
    Ok(places.iter().map(|found| found.place.name()).collect())
}

#[test]
fn named_shards_are_not_asked_for_and_keep_their_order() {
    let server = Server::start(Dialect::Plain);
    let registry = Registry::new(&config());
    let base = format!("http://{}/ds", server.address);
    let names = found(&registry, &format!("{base}/shard-{{000999..000000}}.tar")).unwrap();
    assert_eq!(names.len(), 1000);
    assert_eq!(names[0], format!("{base}/shard-000999.tar"));
    assert!(server.requests().is_empty());
}

#[test]
fn globs_fit_what_the_folder_before_them_has() {
    let elsewhere = Server::start(Dialect::Plain);
    let server = Server::start(Dialect::Hub { elsewhere: elsewhere.address });
    for name in ["a/t-1.tar", "a/t-0.tar", "a/t-0.tar.idx", "a/v-0.tar", "a/b/t-2.tar", "t-9.tar"] {
        server.put(name, b"x");
    }
    server.put(&format!("a/{SUMS_FILE}"), b"");
    let config = SourceConfig { hub_endpoint: format!("http://{}", server.address), ..config() };
    let mut registry = Registry::new(&config);
    registry.hub.token = Some("hf_secret".to_owned());
    let find = |pattern: &str| {
        let names = found(&registry, &format!("hf://datasets/u/n/{pattern}"))?;
        let name = |name: &String| name.replace("hf://datasets/u/n@main/", "");
        Ok::<_, String>(names.iter().map(name).collect::<Vec<_>>())
    };
    assert_eq!(find("a/t-*.tar").unwrap(), ["a/t-0.tar", "a/t-1.tar"]);
    assert_eq!(find("a/{v,t}-?.tar").unwrap(), ["a/v-0.tar", "a/t-0.tar", "a/t-1.tar"]);
    assert_eq!(find("**/t-[0-2].tar").unwrap(), ["a/b/t-2.tar", "a/t-0.tar", "a/t-1.tar"]);
    assert_eq!(find("a/*").unwrap(), ["a/b", "a/t-0.tar", "a/t-1.tar", "a/v-0.tar"]);
    let error = find("a/x-*.tar").unwrap_err();
    assert!(error.contains("no file fits") && error.contains("a/x-*.tar"), "{error}");
    let error = find("a/[.tar").unwrap_err();
    assert!(error.contains("brackets"), "{error}");
    // The folder of a pattern, not all there is.
    server.requests();
    find("a/b/*.tar").unwrap();
    let asked: Vec<String> = server.requests().into_iter().map(|r| r.path).collect();
    assert_eq!(asked, [format!("/api/datasets/u/n/tree/{COMMIT}/a/b")]);
}

#[test]
fn with_roots_only_what_lies_below_them_is_found() {
    let roots = |roots: &[&str]| {
        let roots = roots.iter().map(Into::into).collect();
        Registry::new(&SourceConfig { roots, ..config() })
    };
    let inside = "https://host/ds/a.tar";
    assert!(found(&roots(&[]), inside).is_ok());
    assert!(found(&roots(&["/data", "https://host/ds"]), inside).is_ok());
    for other in [&["/data"][..], &["https://host/d"], &["https://other/ds"], &["http://host/ds"]] {
        let error = found(&roots(other), inside).unwrap_err();
        assert!(error.contains("storage.roots") && error.contains(inside), "{error}");
    }
    let error = found(&roots(&["https://host/ds"]), "https://host/ds/../x.tar").unwrap_err();
    assert!(error.contains("name the object itself"), "{error}");
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_whole_shard_is_held_against_the_sums_beside_it() {
    let server = Server::start(Dialect::Plain);
    let (right, wrong) = (bytes(1, 20 << 20), bytes(2, 20 << 20));
    server.put("ds/a.tar", &right);
    server.put("ds/none.tar", &right);
    let text = format!("{}  a.tar\n{} *b.tar\n", sum(&right), sum(&wrong));
    server.put(&format!("ds/{SUMS_FILE}"), text.as_bytes());
    let registry = Registry::new(&config());
    let place = registry.place(&format!("http://{}/ds/a.tar", server.address)).unwrap();
    let sums = Sums::default();
    let wanted = sums.of(&place).unwrap();
    assert!(wanted.is_some());
    assert_eq!(sums.of(&place.beside("none.tar")).unwrap(), None);
    let object = place.open().unwrap();
    let fetch = || {
        let mut whole = Vec::new();
        let mut sink = |bytes: &[u8]| {
            whole.extend_from_slice(bytes);
            Ok::<_, ObjectError>(())
        };
        read_whole(&*object, wanted.as_ref(), &mut sink).map(|()| whole)
    };
    assert!(fetch().unwrap() == right);
    // Bytes that differ although no version says so.
    let version = server.state.files()["ds/a.tar"].1;
    server.state.files().insert("ds/a.tar".to_owned(), (Arc::new(wrong), version));
    let error = fetch().unwrap_err();
    assert!(is_other_sum(&error), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains("ds/a.tar") && cause.contains(&sum(&right)), "{cause}");
}

#[test]
fn sums_that_cannot_be_read_are_named_with_their_line() {
    let server = Server::start(Dialect::Plain);
    server.put(&format!("ds/{SUMS_FILE}"), format!("{}  a.tar\nnonsense\n", sum(b"")).as_bytes());
    let registry = Registry::new(&config());
    let place = registry.place(&format!("http://{}/ds/a.tar", server.address)).unwrap();
    let error = Sums::default().of(&place).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains("ds/SHA256SUMS") && cause.contains("line 2"), "{cause}");
}
