//! Requests whose answer may be somewhere else.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, Uri};

use super::answer::text;
use super::{Web, WebError};

/// Beyond these a redirect is taken for a circle.
const REDIRECTS_MAX: usize = 5;
const AGENT: &str = concat!("headwater/", env!("CARGO_PKG_VERSION"));

/// A request without a body.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// Go to every host.
    pub(crate) headers: HeaderMap,
    /// Goes to the first host only.
    pub(crate) token: Option<&'a HeaderValue>,
    /// Whether a redirect to another host is followed, or is the answer.
    pub(crate) elsewhere: bool,
}

/// An answer, and how it was come by.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) answer: Response<Incoming>,
    /// Where it came from.
    pub(crate) uri: Uri,
    /// Headers of the last answer of the first host, if the answer is of another one.
    pub(crate) first_host: Option<HeaderMap>,
}

/// Makes a request, and the ones that it is redirected to.
///
/// # Errors
/// No answer, or redirects without end. An answer of any status is none.
pub(crate) async fn follow(web: &Web, asked: Asked<'_>) -> Result<Followed, WebError> {
    let mut uri = asked.uri.clone();
    let mut first_host = None;
    for _ in 0..=REDIRECTS_MAX {
        let mut request = Request::new(Full::<Bytes>::default());
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = asked.headers.clone();
        let headers = request.headers_mut();
        // Ranges are of the bytes as they are.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(token) = asked.token
            && same_host(&uri, &asked.uri)
        {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let answer = web.send(request).await?;
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(Followed { answer, uri, first_host });
        }
        let to = text(answer.headers(), LOCATION).ok_or(WebError::Redirect)?;
        let next = joined(&uri, &to)?;
        if same_host(&uri, &asked.uri) && !same_host(&next, &asked.uri) {
            if !asked.elsewhere {
                return Ok(Followed { answer, uri, first_host });
            }
            first_host = Some(answer.headers().clone());
        }
        uri = next;
    }
    Err(WebError::Redirects(REDIRECTS_MAX))
}

/// Whether two URLs have the same scheme, host and port.
pub(crate) fn same_host(a: &Uri, b: &Uri) -> bool {
    a.scheme() == b.scheme() && a.authority() == b.authority()
}

/// What a redirect leads to: a URL, or a path of the same host.
fn joined(from: &Uri, to: &str) -> Result<Uri, WebError> {
    let scheme = from.scheme_str().unwrap_or_default();
    let text = if to.contains("://") {
        to.to_owned()
    } else if to.starts_with("//") {
        format!("{scheme}:{to}")
    } else {
        let authority = from.authority().map_or("", |authority| authority.as_str());
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let between = if to.starts_with('/') { "" } else { "/" };
        let folder = if to.starts_with('/') { "" } else { folder };
        format!("{scheme}://{authority}{folder}{between}{to}")
    };
    let next: Uri = text.parse().map_err(|_| WebError::Redirect)?;
    let safe = scheme != "https" || next.scheme_str() == Some("https");
    if safe { Ok(next) } else { Err(WebError::Redirect) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_they_say_and_never_from_https_to_http() {
        let from: Uri =
            "https://hub.test/datasets/a/resolve/main/x.tar?download=1".parse().unwrap();
        let to = |to| joined(&from, to).map(|uri| uri.to_string()).ok();
        assert_eq!(to("https://cdn.test/y?sig=1").as_deref(), Some("https://cdn.test/y?sig=1"));
        assert_eq!(to("//cdn.test/y").as_deref(), Some("https://cdn.test/y"));
        assert_eq!(to("/api/y").as_deref(), Some("https://hub.test/api/y"));
        let beside = Some("https://hub.test/datasets/a/resolve/main/y");
        assert_eq!(to("y").as_deref(), beside);
        assert_eq!(to("http://cdn.test/y"), None);
        assert_eq!(to("https://"), None);
    }
}
