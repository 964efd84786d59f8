//! What the server of the page answers, and to whom.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;
use crate::monitor::report::Rank;

const TOKEN: &str = "a token of this test alone";

struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    write!(stream, "{method} {path} HTTP/1.1\r\n{host}{headers}\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head[9..12].parse().expect("a status");
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn get(page: &Page, path: &str, headers: &str) -> Answer {
    ask(page.address(), "GET", path, headers)
}

/// A page with a report of one rank.
fn page(rank: &str, security: &AccessConfig) -> Page {
    let page = Page::open(":0", security).expect("a page");
    let rank =
        Rank { address: rank.to_owned(), name: "job rank 0".into(), up: true, ..Rank::default() };
    page.show(&Report { ranks: vec![rank], ..Report::default() }).expect("a report");
    page
}

fn open_page() -> Page {
    page("127.0.0.1:9", &AccessConfig::default())
}

/// A page behind the token, whose file is in the folder.
fn locked_page(rank: &str) -> (Page, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, TOKEN).expect("a file");
    (page(rank, &AccessConfig { token_file, ..AccessConfig::default() }), folder)
}

#[test]
fn the_page_is_this_hosts_alone_and_brings_all_it_needs() {
    let page = open_page();
    assert!(page.address().ip().is_loopback() && !page.is_open_to_all());
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/report.json", "application/json"),
    ] {
        let answer = get(&page, path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        for header in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: no `{header}` in\n{}", answer.head);
        }
        let outside = ["http://", "https://"].iter().any(|scheme| {
            // The name of a language is no address.
            answer.body.replace("http://www.w3.org/2000/svg", "").contains(scheme)
        });
        assert!(!outside, "{path} names another place");
    }
    assert_eq!(get(&page, "/nothing", "").status, 404);
}

#[test]
fn before_the_first_report_there_is_none() {
    let page = Page::open(":0", &AccessConfig::default()).expect("a page");
    let answer = get(&page, "/report.json", "");
    assert_eq!((answer.status, answer.body.trim()), (503, "there is no report yet"));
}

#[test]
fn only_questions_are_answered() {
    let page = open_page();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/", "/report.json", "/batch.json", "/session"] {
            let answer = ask(page.address(), method, path, "");
            assert_eq!(answer.status, 405, "{method} {path}");
            assert!(answer.head.contains("allow: get,head"), "{}", answer.head);
        }
    }
    let head = ask(page.address(), "HEAD", "/report.json", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn a_name_that_is_not_this_servers_gets_nothing() {
    let page = open_page();
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "", "a@b"] {
        for path in ["/", "/report.json"] {
            let answer = get(&page, path, &format!("Host: {host}\r\n"));
            assert!([400, 421].contains(&answer.status), "{host}: {}", answer.status);
            assert!(!answer.body.contains("ranks"), "{host}: {}", answer.body);
        }
    }
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for host in ["localhost", "LOCALHOST:8080", "10.1.2.3:80", "[::1]:8080", "127.0.0.1", &own] {
        assert_eq!(get(&page, "/report.json", &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    let named = Page::open("localhost:0", &AccessConfig::default()).expect("a page");
    assert_eq!(get(&named, "/", "Host: evil.example\r\n").status, 421);
}

#[test]
fn other_sites_cannot_have_it_asked() {
    let page = open_page();
    for site in ["cross-site", "same-site"] {
        let answer = get(&page, "/batch.json", &format!("Sec-Fetch-Site: {site}\r\n"));
        assert_eq!(answer.status, 403, "{site}");
    }
    assert_eq!(get(&page, "/report.json", "Sec-Fetch-Site: same-origin\r\n").status, 200);
    assert_eq!(get(&page, "/", "Sec-Fetch-Site: cross-site\r\n").status, 200, "a link to the page");
}

#[test]
fn data_is_for_holders_of_the_token() {
    let (page, _folder) = locked_page("127.0.0.1:9");
    assert_eq!(get(&page, "/", "").status, 200, "the page asks for the token");
    for path in ["/report.json", "/batch.json?rank=127.0.0.1:9", "/batch.png?rank=127.0.0.1:9"] {
        for wrong in ["", "Authorization: Bearer a token of another test\r\n", "Cookie: a=b\r\n"] {
            let answer = get(&page, path, wrong);
            assert_eq!(answer.status, 401, "{path} {wrong}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        }
    }
    assert_eq!(get(&page, "/session", "").status, 401);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(get(&page, "/report.json", &bearer).status, 200);

    let session = get(&page, "/session", &bearer);
    assert_eq!(session.status, 204);
    let cookie = session.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("; httponly") && cookie.contains("; samesite=strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(get(&page, "/report.json", &format!("Cookie: a=b; {pair}\r\n")).status, 200);
    let (name, value) = pair.split_once('=').unwrap();
    let other = format!("Cookie: {name}={}\r\n", value.replace(&value[..8], "00000000"));
    assert_eq!(get(&page, "/report.json", &other).status, 401);
    let elsewhere = format!("Cookie: headwater_1={value}\r\n");
    assert_eq!(get(&page, "/report.json", &elsewhere).status, 401, "another monitor's cookie");
}

#[test]
fn ranks_of_the_report_are_asked_for_batches_and_nobody_else() {
    let rank = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = rank.local_addr().unwrap().to_string();
    let (page, _folder) = locked_page(&address);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let other = stranger.local_addr().unwrap();
    for wrong in [format!("?rank={other}"), String::new(), "?rank=".to_owned()] {
        assert_eq!(get(&page, &format!("/batch.json{wrong}"), &bearer).status, 404, "{wrong}");
    }
    assert!(stranger.accept().is_err(), "somebody else was asked");

    let asked = std::thread::spawn(move || {
        let (mut stream, _) = rank.accept().unwrap();
        let mut request = Vec::new();
        let mut some = [0; 1024];
        while !request.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..read]);
        }
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=utf-8\r\n\
                      content-length: 9\r\nset-cookie: a=b\r\n\r\nnot kept\n";
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let answer = get(&page, &format!("/batch.png?rank={address}&id=0-17&x=1"), &bearer);
    assert_eq!((answer.status, answer.body.as_str()), (404, "not kept\n"));
    assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
    let request = asked.join().unwrap();
    assert!(request.starts_with("GET /batch.png?id=0-17 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_ascii_lowercase().contains("authorization: bearer "), "{request}");
    assert!(!request.contains(TOKEN), "the token itself stays here: {request}");

    let gone = get(&page, &format!("/batch.json?rank={address}"), &bearer);
    assert!(gone.status == 502 && gone.body.contains(&address), "{}", gone.body);
}

#[test]
fn a_rank_that_another_user_may_have_named_is_not_shown_the_pass() {
    let rank = TcpListener::bind("127.0.0.1:0").unwrap();
    rank.set_nonblocking(true).unwrap();
    let address = rank.local_addr().unwrap().to_string();
    let (page, _folder) = locked_page(&address);
    let foreign = Rank { address: address.clone(), is_foreign: true, ..Rank::default() };
    page.show(&Report { ranks: vec![foreign], ..Report::default() }).unwrap();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = get(&page, &format!("/batch.json?rank={address}"), &bearer);
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.body.contains(&address) && answer.body.contains("monitor.targets"));
    assert!(rank.accept().is_err(), "it was asked");
}
