//! The gRPC face of the tier: the only place here that knows tonic.

mod server;

use std::sync::Arc;

use headwater_access::ConnectionAuth;
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{ToWorker, full};
use headwater_proto::v1;
use headwater_proto::v1::augment_server;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};

pub use server::{Augment, bind};

use crate::error::{SessionError, SessionErrorKind};
use crate::metrics;
use crate::session::{self, Messages, Outbox};
use crate::worker::{UnauthenticatedPeer, Worker};

/// Answers of one session, as they go out.
type Outgoing = std::pin::Pin<
    Box<dyn tokio_stream::Stream<Item = Result<v1::FromWorker, Status>> + Send + 'static>,
>;

/// Opens sessions. Each one is a task of its own, which outlives the call that began it until
/// nothing writes for it any more.
pub(crate) struct AugmentService {
    worker: Arc<Worker>,
    sessions: TaskTracker,
}

// === impl AugmentService ===

#[tonic::async_trait]
impl augment_server::Augment for AugmentService {
    type WorkStream = Outgoing;

    /// Answers at once and says what is wrong in the stream, so that a receiver may wait for the
    /// answer before it says hello.
    async fn work(
        &self,
        request: Request<Streaming<v1::ToWorker>>,
    ) -> Result<Response<Outgoing>, Status> {
        let worker = Arc::clone(&self.worker);
        if worker.drain.is_cancelled() {
            return Err(status(&SessionError::Closing));
        }
        let standing = request.extensions().get::<ConnectionAuth>().cloned();
        let place = worker.strangers.enter(standing.as_ref().map(|peer| peer.peer().ip()));
        let (id, stranger) = (worker.number_session(), UnauthenticatedPeer { place, standing });
        let messages: Messages = Box::pin(request.into_inner().map(receive));
        let (outbox, answers) = session::answers(worker.config.credits());
        self.sessions.spawn(async move {
            serve(worker, id, messages, outbox, stranger).await;
        });
        let answers = ReceiverStream::new(answers).map(|answer| match answer {
            Ok(answer) => Ok(v1::FromWorker::from(answer)),
            Err(error) => Err(status(&error)),
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

async fn serve(
    worker: Arc<Worker>,
    id: u64,
    messages: Messages,
    outbox: Outbox,
    stranger: UnauthenticatedPeer,
) {
    match session::serve(worker, id, messages, outbox.clone(), stranger).await {
        Ok(()) => {
            metrics::session_ended("closed");
            tracing::info!(session = id, "session ends");
        }
        Err(error) => {
            metrics::session_ended(error.kind().name());
            tracing::warn!(session = id, %error, "session ends");
            outbox.fail(error);
        }
    }
}

/// The version is compared before anything else of the hello is looked at: another version may
/// mean something else by it.
fn receive(message: Result<v1::ToWorker, Status>) -> Result<ToWorker, SessionError> {
    let message = message.map_err(|status| SessionError::Stream {
        reason: format!("{:?}: {}", status.code(), status.message()),
    })?;
    if let Some(v1::to_worker::Message::Hello(hello)) = &message.message {
        let (theirs, ours) = (hello.wire_version, WIRE_VERSION);
        if theirs != ours {
            return Err(SessionError::Version { theirs, ours });
        }
    }
    Ok(message.try_into()?)
}

fn status(error: &SessionError) -> Status {
    let status = Status::new(error.kind().code(), error.to_string());
    match error {
        SessionError::Full { is_kept, .. } => full::marked(status, *is_kept),
        _ => status,
    }
}

// === impl SessionErrorKind ===

impl SessionErrorKind {
    /// The one map from kinds to gRPC codes.
    fn code(self) -> Code {
        match self {
            Self::Protocol => Code::InvalidArgument,
            Self::Mismatch => Code::FailedPrecondition,
            Self::Full => Code::ResourceExhausted,
            Self::Late => Code::DeadlineExceeded,
            Self::Away => Code::Unavailable,
            Self::Internal => Code::Internal,
        }
    }
}
