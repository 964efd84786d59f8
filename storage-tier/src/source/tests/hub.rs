//! What of the hub's protocol reading needs: a revision's commit, trees in short pages, files that lie
//! here or elsewhere.

use std::net::SocketAddr;

use super::server::{Answer, Request, State, decoded};

pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const PAGE: usize = 2;

pub(super) fn answer(state: &State, request: &Request, elsewhere: SocketAddr) -> Answer {
    let missing = Answer { status: 404, ..Answer::default() };
    if request.headers.get("authorization").map(String::as_str) != Some("Bearer hf_secret") {
        return Answer { status: 401, ..Answer::default() };
    }
    let path = &request.path;
    if path == "/api/datasets/u/n/revision/main" {
        let body = format!("{{\"sha\":\"{COMMIT}\",\"id\":\"u/n\"}}").into_bytes();
        return Answer { status: 200, headers: Vec::new(), body };
    }
    if let Some(rest) = path.strip_prefix(&format!("/api/datasets/u/n/tree/{COMMIT}")) {
        return tree(state, request, &decoded(rest.trim_start_matches('/')));
    }
    let Some(name) = path.strip_prefix(&format!("/datasets/u/n/resolve/{COMMIT}/")) else {
        return missing;
    };
    let name = decoded(name);
    let Some((bytes, version)) = state.files().get(&name).cloned() else { return missing };
    if !name.ends_with(".tar") {
        return state.file(request, &name);
    }
    let header = |name: &str, value: String| (name.to_owned(), value);
    let headers = vec![
        header("Location", format!("http://{elsewhere}/{}?sig=signed", request.path)),
        header("X-Linked-Size", bytes.len().to_string()),
        header("X-Linked-Etag", format!("\"v{version}\"")),
        header("X-Repo-Commit", COMMIT.to_owned()),
    ];
    Answer { status: 302, headers, body: Vec::new() }
}

fn tree(state: &State, request: &Request, folder: &str) -> Answer {
    assert_eq!(request.query.get("recursive").map(String::as_str), Some("true"));
    let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let from: usize = request.query.get("cursor").map_or(0, |text| text.parse().unwrap());
    let files = state.files();
    let found: Vec<_> = files.iter().filter(|(name, _)| name.starts_with(&below)).collect();
    if found.is_empty() {
        return Answer { status: 404, ..Answer::default() };
    }
    let entry = |(name, (bytes, version)): &(&String, &super::server::File)| {
        let (size, oid) = (bytes.len(), format!("v{version}"));
        // A large file's own object is a pointer.
        if name.ends_with(".tar") {
            format!(
                "{{\"type\":\"file\",\"oid\":\"pointer\",\"size\":{size},\"path\":\"{name}\",\
                 \"lfs\":{{\"oid\":\"{oid}\",\"size\":{size},\"pointerSize\":1}}}}"
            )
        } else {
            format!("{{\"type\":\"file\",\"oid\":\"{oid}\",\"size\":{size},\"path\":\"{name}\"}}")
        }
    };
    let mut entries: Vec<String> = found.iter().skip(from).take(PAGE).map(entry).collect();
    entries.push("{\"type\":\"directory\",\"oid\":\"t\",\"size\":0,\"path\":\"d\"}".to_owned());
    let mut headers = Vec::new();
    if from + PAGE < found.len() {
        let host = &request.headers["host"];
        let next = format!("http://{host}{}?recursive=true&cursor={}", request.path, from + PAGE);
        headers.push(("Link".to_owned(), format!("<{next}>; rel=\"next\"")));
    }
    Answer { status: 200, headers, body: format!("[{}]", entries.join(",")).into_bytes() }
}
