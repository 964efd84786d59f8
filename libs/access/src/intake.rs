//! Requests that are still arriving: few of them, small, and not for long.
//!
//! A request that has begun and is never finished would keep its place among those that are being
//! answered, and its bytes. So a request is taken in whole before it counts.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use headwater_lobby::Lobby;
use http_body_util::{BodyExt as _, Full, Limited};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::ConnectionAuth;

/// Bounds on requests that are arriving; the layer in front of a service whose requests are one message
/// each. Not for streams from callers, which never end.
#[derive(Clone, Debug)]
pub struct Intake {
    lobby: Lobby,
    patience: Duration,
    message_max_bytes: usize,
}

/// What [`Intake`] makes of a service.
#[derive(Clone, Debug)]
pub struct TakenIn<S> {
    intake: Intake,
    inner: S,
}

// === impl Intake ===

impl Intake {
    /// At most `arriving_max` requests at a time, each of at most `message_max_bytes` and whole within
    /// `patience`. Beyond that the oldest request of the host with the most of them is refused.
    #[must_use]
    pub fn new(
        door: &'static str,
        arriving_max: usize,
        patience: Duration,
        message_max_bytes: usize,
    ) -> Self {
        Self { lobby: Lobby::new(door, arriving_max), patience, message_max_bytes }
    }

    async fn take(&self, body: Body, host: Option<IpAddr>) -> Result<Body, Status> {
        // A message has five bytes ahead of it. One byte more shows the service that it is too large.
        let limit = self.message_max_bytes + 6;
        let whole = async { Limited::new(body, limit).collect().await };
        let collected = tokio::select! {
            collected = tokio::time::timeout(self.patience, whole) => collected,
            () = self.lobby.enter(host) => {
                return Err(Status::resource_exhausted("more requests have begun than may: try again"));
            }
        };
        let milliseconds = self.patience.as_millis();
        let late = |_| Status::deadline_exceeded(format!("no whole request in {milliseconds} ms"));
        let collected = collected.map_err(late)?.map_err(|error| refused(error, limit))?;
        Ok(Body::new(Full::new(collected.to_bytes())))
    }
}

fn refused(error: BoxError, limit: usize) -> Status {
    if error.is::<http_body_util::LengthLimitError>() {
        return Status::out_of_range(format!(
            "message too large: a request has {limit} bytes at most"
        ));
    }
    Status::from_error(error)
}

impl<S> Layer<S> for Intake {
    type Service = TakenIn<S>;

    fn layer(&self, inner: S) -> TakenIn<S> {
        TakenIn { intake: self.clone(), inner }
    }
}

// === impl TakenIn ===

impl<S, B> Service<Request<Body>> for TakenIn<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // The service is asked once the request is here.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (intake, inner) = (self.intake.clone(), self.inner.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let host =
                parts.extensions.get::<ConnectionAuth>().map(|standing| standing.peer().ip());
            match intake.take(body, host).await {
                Ok(body) => inner.oneshot(Request::from_parts(parts, body)).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}
