//! Calls of gRPC whose answers are sent and taken as they are in memory: in chunks that the two ends
//! make and read themselves, where tonic would copy each message into a buffer of its own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use tonic::{Code, Status};
use tower::{Service as _, ServiceExt as _};

use crate::Caller;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TE: HeaderName = HeaderName::from_static("te");
/// Nobody here sends it, and tonic does not survive one that is not base64.
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// W3C's Trace Context: the span that a call is part of.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// The bytes of a request that is here in whole.
///
/// # Errors
/// It is not.
pub async fn whole_request(request: Request<Body>) -> Result<Bytes, Status> {
    Ok(request.into_body().collect().await?.to_bytes())
}

/// An answer: the chunks of each item are sent one after the other, until the end or an error.
pub fn answer_in_chunks<S>(items: S) -> Response<Body>
where
    S: Stream<Item = Result<Vec<Bytes>, Status>> + Send + Unpin + 'static,
{
    let body = Sent { items: Some(items), chunks: VecDeque::new() };
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

/// An answer that is sent.
struct Sent<S> {
    /// `None` when the last has been sent.
    items: Option<S>,
    /// Of the item that is being sent.
    chunks: VecDeque<Bytes>,
}

// === impl Sent ===

impl<S: Stream<Item = Result<Vec<Bytes>, Status>> + Unpin> HttpBody for Sent<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            let Some(items) = &mut self.items else { return Poll::Ready(None) };
            let status = match ready!(Pin::new(items).poll_next(context)) {
                Some(Ok(chunks)) => {
                    self.chunks = chunks.into();
                    continue;
                }
                Some(Err(status)) => status,
                None => Status::ok(""),
            };
            self.items = None;
            let mut trailers = HeaderMap::new();
            let added = status.add_header(&mut trailers).map(|()| Frame::trailers(trailers));
            return Poll::Ready(Some(added));
        }
    }

    /// What is in memory and was not asked for yet: [`Answers`](crate::Answers) counts it.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.chunks.iter().map(|chunk| chunk.len() as u64).sum());
        hint
    }
}

/// An answer that is taken.
#[derive(Debug)]
pub struct Taken {
    body: Body,
    /// What the other side said ahead, if it did: then nothing follows the bytes.
    status: Option<Status>,
}

/// Asks for an answer in chunks. `path` is `/package.Service/Method`, `request` the message with what
/// gRPC has ahead of it.
///
/// # Errors
/// The other side is away, refuses, or does not speak gRPC.
pub async fn call_for_chunks(
    caller: &mut Caller,
    path: &'static str,
    request: Bytes,
    traceparent: Option<String>,
) -> Result<Taken, Status> {
    let mut request = Request::new(Body::new(Full::new(request)));
    if let Some(value) = traceparent.and_then(|text| HeaderValue::try_from(text).ok()) {
        request.headers_mut().insert(TRACEPARENT, value);
    }
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = Uri::from_static(path);
    request.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    request.headers_mut().insert(TE, TRAILERS);
    let failed = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    let response = caller.ready().await.map_err(failed)?.call(request).await.map_err(failed)?;
    let (mut head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let text = format!("something else answers there: HTTP {}", head.status);
        return Err(Status::unavailable(text));
    }
    let status = status_of(&mut head.headers);
    match status {
        Some(status) if status.code() != Code::Ok => Err(status),
        status => Ok(Taken { body: Body::new(body), status }),
    }
}

fn status_of(headers: &mut HeaderMap) -> Option<Status> {
    headers.remove(DETAILS);
    Status::from_header_map(headers)
}

// === impl Taken ===

impl Taken {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// The other side ends its answer with an error, without a word, or is gone.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        while let Some(frame) = self.body.frame().await.transpose()? {
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    self.status = trailers.and_then(|mut trailers| status_of(&mut trailers));
                }
            }
        }
        match self.status.take() {
            Some(status) if status.code() == Code::Ok => Ok(None),
            Some(status) => Err(status),
            None => Err(Status::unavailable("the answer ends without a status")),
        }
    }
}
