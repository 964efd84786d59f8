//! Requests of the `object_store` crate, made by this node's own HTTP client.

use std::error::Error as _;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Error};

use super::super::web::{Web, WebError, bounded_body};

/// The longest error that is read, in bytes.
const SAID_BYTES_MAX: usize = 64 << 10;

/// Hands out the node's client.
#[derive(Debug)]
pub(super) struct Connector {
    web: Arc<Web>,
    /// The variable that allows addresses without encryption.
    allow: &'static str,
}

#[derive(Debug)]
struct Service {
    web: Arc<Web>,
    allow: &'static str,
    plain: bool,
}

// === impl Connector ===

impl Connector {
    pub(super) fn new(web: Arc<Web>, allow: &'static str) -> Self {
        Self { web, allow }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let plain = allowed.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let service = Service { web: self.web.clone(), allow: self.allow, plain };
        Ok(HttpClient::new(service))
    }
}

// === impl Service ===

impl Service {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, WebError> {
        let (parts, body) = request.into_parts();
        if parts.uri.scheme_str() == Some("http") && !self.plain {
            return Err(WebError::Plain(self.allow));
        }
        let lists = parts.uri.query().is_some_and(is_listing);
        // Requests of reading have a body of one piece, or none.
        let body = body.as_bytes().cloned().unwrap_or_default();
        let request = Request::from_parts(parts, Full::<Bytes>::new(body));
        let answer = self.web.send(request).await?;
        let status = answer.status();
        // What has a meaning to the crate, and what is no error. To the crate a missing bucket is nothing.
        let is_missing = status.as_u16() == 404 && !lists;
        if status.is_success() || is_missing || matches!(status.as_u16(), 304 | 412) {
            let (parts, body) = answer.into_parts();
            let body = body.map_err(|error| error_of(WebError::Body(error)));
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        let said = bounded_body(answer, SAID_BYTES_MAX).await.unwrap_or_default();
        Err(WebError::Status { status, said: sentence(&String::from_utf8_lossy(&said)) })
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.answer(request).await.map_err(error_of)
    }
}

fn error_of(error: WebError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, Shared(Arc::new(error)))
}

/// An error that is taken out again of the one that was made of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
struct Shared(Arc<WebError>);

/// What the client met, if that is at the bottom of the crate's error.
pub(super) fn cause(error: &Error) -> Option<CauseError> {
    let mut at = error.source();
    while let Some(error) = at {
        if let Some(shared) = error.downcast_ref::<Shared>() {
            return Some(CauseError(shared.0.clone()));
        }
        at = error.source();
    }
    None
}

/// What the client met.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CauseError(Arc<WebError>);

impl From<CauseError> for super::Refusal {
    fn from(error: CauseError) -> Self {
        let told: Self = match &*error.0 {
            WebError::Status { status, said } => {
                WebError::Status { status: *status, said: said.clone() }.into()
            }
            WebError::Send(_) | WebError::Body(_) => return Self::Passing(Box::new(error)),
            _ => return Self::Final(Box::new(error)),
        };
        told
    }
}

/// Whether a request, by its query, is for the names in a bucket: S3's and Google's, or Azure's.
fn is_listing(query: &str) -> bool {
    query.split('&').any(|pair| pair.starts_with("list-type=") || pair == "comp=list")
}

/// `Code` and `Message` of an error in XML; the rest of it may repeat what was signed.
fn sentence(xml: &str) -> String {
    let between = |tag: &str| {
        let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
        let (text, _) = rest.split_once(&format!("</{tag}>"))?;
        Some(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    let parts = [between("Code"), between("Message")].into_iter().flatten();
    let text = parts.collect::<Vec<_>>().join(", ");
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_error_only_what_it_is_about_is_told() {
        let xml = "<Error><Code>SignatureDoesNotMatch</Code><Message>It differs.\nSee</Message>\
                   <AWSAccessKeyId>AKIASECRET</AWSAccessKeyId></Error>";
        assert_eq!(sentence(xml), "SignatureDoesNotMatch, It differs.");
        assert_eq!(sentence("<html>"), "");
    }
}
