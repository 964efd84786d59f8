//! Files of plain web servers: `https://host/path`.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::{
    CONTENT_ENCODING, HeaderMap, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::{Method, StatusCode, Uri};

use super::Version;
use super::distant::{ListedPart, PIECE_BYTES_MAX, Refusal, Remote};
use super::url::encoded_url;
use super::web::{
    Asked, Followed, Web, WebError, bounded_body, follow, range_of_answer, size_of_answer,
    tag_of_answer,
};

/// What servers say to `HEAD` that know only `GET`, and those whose URLs are signed for `GET`: the answer to a request for
/// the first byte says the same.
const KNOWS_NO_HEAD: [StatusCode; 3] =
    [StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];

/// Files below one scheme, host and port.
#[derive(Debug)]
pub(crate) struct WebServer {
    web: Arc<Web>,
    /// As `https://host:port`.
    base: String,
}

// === impl WebServer ===

impl WebServer {
    pub(crate) fn new(web: Arc<Web>, base: String) -> Self {
        Self { web, base }
    }

    async fn ask(
        &self,
        method: Method,
        key: &str,
        headers: HeaderMap,
    ) -> Result<Followed, Refusal> {
        let followed = self.answer(method, key, headers).await?;
        good(&followed)?;
        Ok(followed)
    }

    async fn answer(
        &self,
        method: Method,
        key: &str,
        headers: HeaderMap,
    ) -> Result<Followed, Refusal> {
        let uri = parsed(format!("{}/{}", self.base, encoded_url(key)))?;
        let asked = Asked { method, uri, headers, token: None, elsewhere: true };
        Ok(follow(&self.web, asked).await?)
    }
}

#[async_trait]
impl Remote for WebServer {
    fn name(&self, key: &str) -> String {
        format!("{}/{key}", self.base)
    }

    async fn head(&self, key: &str) -> Result<Version, Refusal> {
        let followed = self.answer(Method::HEAD, key, HeaderMap::new()).await?;
        if !KNOWS_NO_HEAD.contains(&followed.answer.status()) {
            good(&followed)?;
            return version_of(followed.answer.headers());
        }
        let followed = self.ask(Method::GET, key, range_header(&(0..1))).await?;
        let headers = followed.answer.headers();
        let version = version_of(headers)?;
        if followed.answer.status() != StatusCode::PARTIAL_CONTENT {
            return Ok(version);
        }
        let untold = WebError::Unusable(
            "the server does not tell the file's size: copy it to another place",
        );
        let (_, bytes) = range_of_answer(headers).ok_or(untold)?;
        Ok(Version { bytes, ..version })
    }

    async fn get(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Bytes, Refusal> {
        let mut headers = range_header(&range);
        let condition = HeaderValue::from_str(&version.tag);
        if let Ok(condition) = condition {
            match version.tag.as_bytes().first() {
                Some(b'"') => headers.insert(IF_MATCH, condition),
                // Weak tags match nothing by the rules of `If-Match`: compared below.
                Some(b'W') if version.tag.starts_with("W/") => None,
                _ => headers.insert(IF_UNMODIFIED_SINCE, condition),
            };
        }
        let followed = self.ask(Method::GET, key, headers).await?;
        if tag_of_answer(followed.answer.headers()).is_some_and(|tag| tag != version.tag) {
            return Err(Refusal::Changed);
        }
        range_body(followed, version, range).await
    }

    fn can_list(&self) -> bool {
        false
    }

    async fn list(&self, _: &str, _: Option<&str>, _: usize) -> Result<ListedPart, Refusal> {
        let why = "a web server does not say what files there are: name each, braces help";
        Err(WebError::Unusable(why).into())
    }
}

/// The header that asks for a range.
pub(crate) fn range_header(range: &Range<u64>) -> HeaderMap {
    let text = format!("bytes={}-{}", range.start, range.end - 1);
    let value = HeaderValue::from_str(&text);
    value.into_iter().map(|value| (RANGE, value)).collect()
}

/// Size and version that an answer without a body speaks of.
pub(crate) fn version_of(headers: &HeaderMap) -> Result<Version, Refusal> {
    let tag = tag_of_answer(headers).ok_or(WebError::Unusable(
        "the server tells neither `ETag` nor `Last-Modified`, so that a change would not be \
         noticed: copy the file to another place",
    ))?;
    let bytes = size_of_answer(headers).ok_or(WebError::Unusable(
        "the server does not tell the file's size (`Content-Length`): copy it to another place",
    ))?;
    Ok(Version { bytes, tag })
}

/// Refuses every answer that is no success.
pub(crate) fn good(followed: &Followed) -> Result<(), WebError> {
    let status = followed.answer.status();
    if status.is_success() {
        return Ok(());
    }
    Err(WebError::Status { status, said: String::new() })
}

/// The bytes of a range out of an answer, of an object of this version, or an error.
pub(crate) async fn range_body(
    followed: Followed,
    version: &Version,
    range: Range<u64>,
) -> Result<Bytes, Refusal> {
    let headers = followed.answer.headers();
    let encoded = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
    if encoded {
        return Err(WebError::Unusable("the server compresses what should be sent as it is").into());
    }
    let wanted = (range.end - range.start) as usize;
    if followed.answer.status() == 206 {
        let unlike = WebError::Unusable("the server sends another range than it is asked for");
        let (sent, size) = range_of_answer(headers).ok_or(unlike)?;
        if size != version.bytes {
            return Err(Refusal::Changed);
        }
        if sent != range {
            let why = "the server sends another range than it is asked for";
            return Err(Refusal::Passing(Box::new(WebError::Unusable(why))));
        }
        let body = bounded_body(followed.answer, wanted).await?;
        return whole(body, wanted);
    }
    // It does not know ranges, and sends the object from its beginning.
    if size_of_answer(headers).is_some_and(|size| size != version.bytes) {
        return Err(Refusal::Changed);
    }
    if version.bytes > PIECE_BYTES_MAX {
        let why = "the server sends whole files only (it does not know `Range`): copy them to \
                   another place";
        return Err(WebError::Unusable(why).into());
    }
    let body = bounded_body(followed.answer, version.bytes as usize).await?;
    let body = whole(body, version.bytes as usize)?;
    Ok(body.slice(range.start as usize..range.end as usize))
}

fn whole(body: Bytes, wanted: usize) -> Result<Bytes, Refusal> {
    if body.len() == wanted {
        return Ok(body);
    }
    Err(WebError::Length { wanted: wanted as u64, got: body.len() as u64 }.into())
}

pub(crate) fn parsed(url: String) -> Result<Uri, WebError> {
    url.parse().map_err(|_| WebError::Url(url))
}
