//! Workers over gRPC. The only place of this crate that knows it.

use async_trait::async_trait;
use headwater_access::{Access, Caller};
use headwater_proto::augment::{FromWorker, SessionHello, ToWorker};
use headwater_proto::v1::augment_client::AugmentClient;
use headwater_proto::{MESSAGE_MAX_BYTES, WIRE_VERSION};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::sessions::{CONNECT_TIMEOUT, Dial, DialError, Opened};

/// Messages on their way to one worker; leases are bounded by its credits long before.
const OUTBOX_MESSAGES: usize = 4096;

/// Reaches workers as the job's access rules say.
pub(crate) struct Grpc {
    pub(crate) access: Access,
}

// === impl Grpc ===

#[async_trait]
impl Dial for Grpc {
    async fn dial(&self, address: &str, hello: SessionHello) -> Result<Opened, DialError> {
        open(&self.access, address, hello).await
    }
}

async fn open(access: &Access, address: &str, hello: SessionHello) -> Result<Opened, DialError> {
    let passing = |reason: String| DialError { reason, hopeless: false };
    let mut client = AugmentClient::new(connect(access, address).await.map_err(passing)?)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let (outbox, queue) = mpsc::channel::<ToWorker>(OUTBOX_MESSAGES);
    let _ = outbox.try_send(ToWorker::Hello(Box::new(hello)));
    let messages = ReceiverStream::new(queue).map(headwater_proto::v1::ToWorker::from);
    let refused = |status: tonic::Status| DialError {
        reason: status.message().to_owned(),
        hopeless: matches!(
            status.code(),
            Code::FailedPrecondition
                | Code::InvalidArgument
                | Code::PermissionDenied
                | Code::Unauthenticated
        ),
    };
    let mut inbox = client.work(messages).await.map_err(refused)?.into_inner();
    let first = inbox.message().await.map_err(refused)?;
    let first = first.ok_or_else(|| passing("worker closed the stream".into()))?;
    let welcome = match FromWorker::try_from(first) {
        Ok(FromWorker::Welcome(welcome)) => welcome,
        Ok(_) => return Err(passing("worker's first message was no welcome".into())),
        Err(error) => return Err(passing(error.to_string())),
    };
    if welcome.wire_version != WIRE_VERSION {
        let theirs = welcome.wire_version;
        let reason = format!(
            "worker speaks wire version {theirs}, this receiver {WIRE_VERSION}: \
             run the same release in all tiers"
        );
        return Err(DialError { reason, hopeless: true });
    }
    let inbox = inbox.map(|message| match message {
        Ok(message) => {
            FromWorker::try_from(message).map_err(|error| format!("protocol error: {error}"))
        }
        Err(status) => Err(format!("stream broke: {}", status.message())),
    });
    Ok(Opened { outbox, inbox: Box::pin(inbox), welcome })
}

async fn connect(access: &Access, address: &str) -> Result<Caller, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("`{address}` is not host:port: {error}"))?;
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(CONNECT_TIMEOUT);
    access
        .connect(&endpoint)
        .await
        .map_err(|error| format!("cannot reach {address}: {}", root_cause(&error)))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
