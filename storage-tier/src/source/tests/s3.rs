//! What of S3's protocol reading needs: objects below `/bucket/`, and ListObjectsV2 in short pages.

use super::server::{Answer, Request, State, decoded};

const PAGE: usize = 2;
/// What the names of objects without an `ETag` end with.
pub(super) const UNTAGGED: &str = ".untagged";

pub(super) fn answer(state: &State, request: &Request) -> Answer {
    if !request.headers.get("authorization").is_some_and(|a| a.starts_with("AWS4-HMAC-SHA256 ")) {
        return Answer { status: 403, ..Answer::default() };
    }
    let path = decoded(request.path.trim_start_matches('/'));
    match path.split_once('/').unwrap_or((&path, "")) {
        ("bucket", "") => list(state, request),
        ("bucket", key) => {
            let mut answer = state.file(request, key);
            if key.ends_with(UNTAGGED) {
                answer.headers.retain(|(name, _)| name != "ETag");
            }
            answer
        }
        _ => Answer { status: 404, ..Answer::default() },
    }
}

fn list(state: &State, request: &Request) -> Answer {
    assert_eq!(request.query.get("list-type").map(String::as_str), Some("2"));
    let none = String::new();
    let prefix = request.query.get("prefix").unwrap_or(&none);
    let behind = |key: &str| request.query.get(key).unwrap_or(&none);
    let after = behind("continuation-token").max(behind("start-after"));
    let files = state.files();
    let mut found = files.iter().filter(|(name, _)| name.starts_with(prefix) && *name > after);
    let mut xml = "<?xml version=\"1.0\"?><ListBucketResult>".to_owned();
    let mut last = None;
    for (name, (bytes, version)) in found.by_ref().take(PAGE) {
        xml.push_str(&format!(
            "<Contents><Key>{name}</Key><Size>{}</Size><ETag>&quot;v{version}&quot;</ETag>\
             <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
            bytes.len()
        ));
        last = Some(name);
    }
    if let (Some(last), Some(_)) = (last, found.next()) {
        xml.push_str(&format!("<NextContinuationToken>{last}</NextContinuationToken>"));
    }
    xml.push_str("</ListBucketResult>");
    Answer { status: 200, headers: Vec::new(), body: xml.into_bytes() }
}
