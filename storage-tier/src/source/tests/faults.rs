//! Servers that fail: equal bytes or an error by name, never other bytes.

use std::sync::Arc;

use headwater_core::error_chain;
use headwater_storage_client::ObjectError;

use super::super::Source;
use super::super::conformance::bytes;
use super::server::{Dialect, Fault, Server};
use super::{config, distant, path, web_server};
use crate::config::SourceConfig;

/// Little time for tries that cannot help.
fn impatient() -> SourceConfig {
    SourceConfig { source_retry_ms: 400, source_timeout_ms: 60_000, ..config() }
}

/// The same file by each kind of source that answers ranges.
fn each_source(test: impl Fn(&Server, &dyn Fn(&SourceConfig) -> Arc<dyn Source>, &str)) {
    let server = Server::start(Dialect::Plain);
    test(&server, &|config| distant(web_server(&server), config), "http");
    #[cfg(feature = "source-object-store")]
    {
        let server = Server::start(Dialect::S3);
        test(&server, &|config| distant(super::bucket(&server), config), "s3");
    }
}

#[test]
fn what_passes_is_tried_again_and_gives_equal_bytes() {
    let faults = [
        Fault::Status(503),
        Fault::Status(500),
        Fault::Status(429),
        Fault::Hangup,
        Fault::Cut(0),
        Fault::Cut(1000),
        Fault::OtherRange,
    ];
    each_source(|server, source, kind| {
        let content = bytes(3, 300_000);
        server.put("ds/a.tar", &content);
        let source = source(&config());
        for fault in &faults {
            let object = source.open(&path("ds/a.tar")).unwrap();
            server.requests();
            server.fail_ranges(2, fault.clone());
            let read = object.read(1000..250_000);
            let read = read.unwrap_or_else(|e| panic!("{kind} {fault:?}: {}", error_chain(&e)));
            assert!(read == content[1000..250_000], "{kind} {fault:?}");
            assert_eq!(server.requests().len(), 3, "{kind} {fault:?}");
        }
    });
}

#[cfg(feature = "source-object-store")]
#[test]
fn a_bucket_that_is_not_there_is_an_error_at_once() {
    let server = Server::start(Dialect::S3);
    // Tries would go on for much longer than the test.
    let config = SourceConfig { source_retry_ms: 3_600_000, ..config() };
    let source = distant(super::bucket_named("bukket", server.address), &config);
    server.requests();
    let error = source.list(&path("photos")).expect_err("no such bucket");
    let text = error_chain(&error);
    assert!(text.contains("bukket/photos` is not there: check its name"), "{text}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_web_server_that_takes_no_head_is_asked_for_the_first_byte() {
    for status in [403, 405, 501] {
        let server = Server::start(Dialect::Plain);
        let content = bytes(3, 30_000);
        server.put("ds/a.tar", &content);
        let source = distant(web_server(&server), &config());
        server.fail(move |request| (request.method == "HEAD").then_some(Fault::Status(status)));
        let object = source.open(&path("ds/a.tar")).unwrap();
        assert_eq!(object.bytes(), 30_000, "{status}");
        assert!(object.read(1000..25_000).unwrap() == content[1000..25_000], "{status}");
        // Who may read nothing learns that, and what to check.
        server.fail(|_| Some(Fault::Status(403)));
        let text = error_chain(&source.open(&path("ds/a.tar")).unwrap_err());
        assert!(text.contains("403") && text.contains("credentials"), "{text}");
    }
}

#[cfg(feature = "source-object-store")]
#[test]
fn a_page_of_a_listing_that_fails_is_asked_for_again_and_not_all_pages() {
    const FILES: usize = 60;
    let server = Server::start(Dialect::S3);
    (0..FILES).for_each(|number| server.put(&format!("big/{number:04}.tar"), b"x"));
    let source = distant(super::bucket(&server), &config());
    let pages = source.list(&path("big")).unwrap();
    assert_eq!(pages.len(), FILES);
    let calm = server.requests().len();
    // Every fifth request: more than the pages from one failure to the next would ever get through from the start.
    let mut asked = 0;
    server.fail(move |request| {
        asked += usize::from(request.query.contains_key("list-type"));
        (asked % 5 == 0).then_some(Fault::Status(503))
    });
    let found = source.list(&path("big")).unwrap();
    let names = |listed: &[super::super::Listed]| -> Vec<std::path::PathBuf> {
        listed.iter().map(|listed| listed.path.clone()).collect()
    };
    assert_eq!(names(&found), names(&pages));
    let requests = server.requests().len();
    assert!(requests <= calm + calm / 3, "{requests} requests in place of {calm}");
}

#[test]
fn what_does_not_pass_is_an_error_by_name_after_a_limit_in_time() {
    let faults = [Fault::Status(503), Fault::Hangup, Fault::Cut(1000), Fault::TooMany];
    each_source(|server, source, kind| {
        server.put("ds/a.tar", &bytes(3, 300_000));
        let source = source(&impatient());
        for fault in &faults {
            server.fail(|_| None);
            let object = source.open(&path("ds/a.tar")).unwrap();
            server.requests();
            server.fail_ranges(usize::MAX, fault.clone());
            let text = error_chain(&object.read(1000..250_000).unwrap_err());
            assert!(
                text.contains("ds/a.tar") && text.contains("source_retry_ms"),
                "{kind}: {text}"
            );
            assert!((2..20).contains(&server.requests().len()), "{kind} {fault:?}");
        }
    });
}

#[test]
fn a_refusal_is_told_at_once_with_what_to_check() {
    each_source(|server, source, kind| {
        server.put("ds/a.tar", &bytes(3, 300_000));
        let source = source(&config());
        let object = source.open(&path("ds/a.tar")).unwrap();
        server.requests();
        server.fail_ranges(usize::MAX, Fault::Status(403));
        let text = error_chain(&object.read(0..10).unwrap_err());
        assert!(text.contains("403") && text.contains("credentials"), "{kind}: {text}");
        assert_eq!(server.requests().len(), 1, "{kind}");
    });
}

/// The time of its last change has whole seconds.
#[cfg(feature = "source-object-store")]
#[test]
fn a_store_that_tells_no_tag_is_refused() {
    let server = Server::start(Dialect::S3);
    let name = format!("ds/a.tar{}", super::s3::UNTAGGED);
    server.put(&name, &bytes(3, 3000));
    let source = distant(super::bucket(&server), &config());
    let text = error_chain(&source.open(&path(&name)).map(drop).unwrap_err());
    assert!(text.contains(&name) && text.contains("tells no `ETag`"), "{text}");
}

#[test]
fn a_tag_that_changes_on_the_way_is_noticed() {
    each_source(|server, source, kind| {
        server.put("ds/a.tar", &bytes(3, 300_000));
        let object = source(&config()).open(&path("ds/a.tar")).unwrap();
        server.fail_ranges(1, Fault::OtherTag);
        let error = object.read(0..1000).unwrap_err();
        assert!(matches!(error, ObjectError::Changed { .. }), "{kind}: {error:?}");
    });
}

#[test]
fn a_server_that_is_gone_for_a_while_is_waited_for() {
    let mut server = Server::start(Dialect::Plain);
    let content = bytes(3, 100_000);
    server.put("a.tar", &content);
    let object = distant(web_server(&server), &config()).open(&path("a.tar")).unwrap();
    server.stop();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| object.read(0..100_000));
        std::thread::sleep(std::time::Duration::from_millis(300));
        server.start_again();
        assert!(reading.join().unwrap().unwrap() == content[..]);
    });
}

#[test]
fn a_server_that_says_nothing_is_asked_again() {
    let server = Server::start(Dialect::Plain);
    let content = bytes(3, 1000);
    server.put("a.tar", &content);
    let config = SourceConfig { source_timeout_ms: 200, ..config() };
    let object = distant(web_server(&server), &config).open(&path("a.tar")).unwrap();
    server.fail_ranges(1, Fault::Silence);
    assert!(object.read(0..1000).unwrap() == content[..]);
}

#[test]
fn a_server_without_ranges_gives_small_files_and_a_remedy_for_large_ones() {
    let server = Server::start(Dialect::Plain);
    let (small, large) = (bytes(1, 50_000), bytes(2, 9 << 20));
    server.put("small.tar", &small);
    server.put("large.tar", &large);
    server.fail(|request| (request.method == "GET").then_some(Fault::NoRange));
    let source = distant(web_server(&server), &config());
    let object = source.open(&path("small.tar")).unwrap();
    assert!(object.read(100..200).unwrap() == small[100..200]);
    let text = error_chain(&source.open(&path("large.tar")).unwrap().read(100..200).unwrap_err());
    assert!(text.contains("large.tar") && text.contains("`Range`"), "{text}");
}

#[test]
fn redirects_without_end_are_an_error_and_others_are_followed() {
    let server = Server::start(Dialect::Plain);
    server.put("a.tar", b"abc");
    let source = distant(web_server(&server), &config());
    let to = format!("http://{}/a.tar", server.address);
    let away = to.clone();
    server
        .fail(move |request| (request.path == "/moved.tar").then(|| Fault::Redirect(away.clone())));
    assert_eq!(source.open(&path("moved.tar")).unwrap().read(0..3).unwrap(), b"abc"[..]);
    server.fail(move |_| Some(Fault::Redirect(to.clone())));
    let text = error_chain(&source.open(&path("a.tar")).unwrap_err());
    assert!(text.contains("redirected 5 times"), "{text}");
    server.fail(|_| Some(Fault::Redirect("ftp://elsewhere/".to_owned())));
    let text = error_chain(&source.open(&path("a.tar")).unwrap_err());
    assert!(text.contains("not `ftp`"), "{text}");
}

#[test]
fn headers_of_a_large_object_take_few_requests() {
    each_source(|server, source, kind| {
        let content = bytes(5, 24 << 20);
        server.put("ds/a.tar", &content);
        let object = source(&config()).open(&path("ds/a.tar")).unwrap();
        server.requests();
        for at in (0..content.len() as u64).step_by(100 << 10) {
            let read = object.read(at..at + 512).unwrap();
            assert!(read == content[at as usize..at as usize + 512]);
        }
        // 246 headers.
        let requests = server.requests().len();
        assert!(requests <= 12, "{kind}: {requests}");
    });
}
