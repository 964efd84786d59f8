//! Dials workers over gRPC: this tier is their client. The only file of this crate that names tonic.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_access::{Access, Reached};
use headwater_core::innermost;
use headwater_proto::augment::{
    FromWorker, LinkAnswer, LinkOffer, LinkRequest, SessionHello, ToWorker, full,
};
use headwater_proto::identity::{self, Identity, Tier};
use headwater_proto::v1::augment_client::AugmentClient;
use headwater_proto::{MESSAGE_MAX_BYTES, WIRE_VERSION, v1};
use headwater_transport::ReceiverLink;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::sessions::{CONNECT_TIMEOUT, Dial, DialError, Opened, Refusal};

/// Messages on their way to one worker; leases are bounded by its credits long before.
const OUTBOX_MESSAGES: usize = 4096;

/// Reaches workers as the job's access rules say.
pub(crate) struct GrpcDial {
    pub(crate) access: Access,
}

// === impl GrpcDial ===

#[async_trait]
impl Dial for GrpcDial {
    async fn dial(
        &self,
        address: &str,
        hello: SessionHello,
        links: &[Arc<dyn ReceiverLink>],
    ) -> Result<Opened, DialError> {
        open(self, address, hello, links).await
    }
}

async fn open(
    dial: &GrpcDial,
    address: &str,
    mut hello: SessionHello,
    links: &[Arc<dyn ReceiverLink>],
) -> Result<Opened, DialError> {
    let failed = |reason: String, hopeless| DialError { reason, hopeless, refusal: Refusal::Other };
    let passing = |reason: String| failed(reason, false);
    let Reached { caller, local } = connect(&dial.access, address).await.map_err(passing)?;
    // Before the session, whose request a storage node would hear out to its end first.
    let identity = identity::who(caller.clone()).await.ok().and_then(|identity| identity.tier);
    if identity.is_some_and(|tier| tier != Tier::Augment) {
        return Err(failed(Tier::Augment.mistaken_for(identity), true));
    }
    hello.links = links.iter().map(|link| offer(link.offer(local))).collect();
    let mut client = AugmentClient::new(caller.clone())
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let (outbox, queue) = mpsc::channel::<ToWorker>(OUTBOX_MESSAGES);
    let _ = outbox.try_send(ToWorker::Hello(Box::new(hello)));
    let messages = ReceiverStream::new(queue).map(v1::ToWorker::from);
    let refused = |status: tonic::Status| DialError {
        reason: status.message().to_owned(),
        hopeless: matches!(
            status.code(),
            Code::FailedPrecondition
                | Code::InvalidArgument
                | Code::PermissionDenied
                | Code::Unauthenticated
        ),
        refusal: match full::mark(&status) {
            Some(true) => Refusal::Place,
            Some(false) => Refusal::Full,
            None => Refusal::Other,
        },
    };
    let mut inbox = match client.work(messages).await {
        Ok(inbox) => inbox.into_inner(),
        Err(status) => {
            let instead = identity::instead(caller, Tier::Augment, &status).await;
            return Err(instead.map_or_else(|| refused(status), |reason| failed(reason, true)));
        }
    };
    let welcome = loop {
        let message = inbox.message().await.map_err(refused)?;
        let message = message.ok_or_else(|| passing("worker closed the stream".into()))?;
        // Before anything else of it is looked at: another version may mean something else by it.
        if let Some(v1::from_worker::Message::Welcome(welcome)) = &message.message
            && welcome.wire_version != WIRE_VERSION
        {
            let theirs = welcome.wire_version;
            let reason = format!(
                "worker speaks wire version {theirs}, this receiver {WIRE_VERSION}: \
                 run the same release in all tiers"
            );
            return Err(failed(reason, true));
        }
        match FromWorker::try_from(message) {
            Ok(FromWorker::Welcome(welcome)) => break welcome,
            Ok(FromWorker::LinkRequest(request)) => {
                let answer = answer(links, request).await.map_err(passing)?;
                let _ = outbox.try_send(ToWorker::LinkAnswer(answer));
            }
            Ok(_) => return Err(passing("worker's first message was no welcome".into())),
            Err(error) => return Err(passing(error.to_string())),
        }
    };
    let inbox = inbox.map(|message| match message {
        Ok(message) => {
            FromWorker::try_from(message).map_err(|error| format!("protocol error: {error}"))
        }
        Err(status) => Err(format!("stream broke: {}", status.message())),
    });
    Ok(Opened { outbox, inbox: Box::pin(inbox), welcome })
}

fn offer(offer: headwater_transport::LinkOffer) -> LinkOffer {
    LinkOffer { kind: offer.kind.name().into(), address: offer.address }
}

/// What the receiver's end of a link says to the worker's.
async fn answer(links: &[Arc<dyn ReceiverLink>], asked: LinkRequest) -> Result<LinkAnswer, String> {
    let LinkRequest { kind, request } = asked;
    let link = links.iter().find(|link| link.kind().name() == kind);
    let unknown = || format!("worker asks for link `{kind}`, which is not offered");
    let link = Arc::clone(link.ok_or_else(unknown)?);
    // It opens a path: calls into the kernel that may take milliseconds.
    let answering = move || Some(link.answers_requests()?.answer(&request));
    let answered = tokio::task::spawn_blocking(answering).await;
    let answer = answered.map_err(|error| error.to_string())?.ok_or_else(unknown)?;
    Ok(LinkAnswer { answer })
}

/// What answers at `host:port`, of whichever tier.
///
/// # Errors
/// A sentence: nobody answers there, or not to this caller.
pub async fn who(access: &Access, address: &str) -> Result<Identity, String> {
    let asked = async {
        let Reached { caller, .. } = connect(access, address).await?;
        identity::who(caller).await.map_err(|status| match status.code() {
            Code::Unimplemented => "another program, or an earlier release, answers there".into(),
            _ if identity::is_no_grpc(&status) => {
                "another program answers there, or one with TLS that this process has not: see [security]".into()
            }
            _ => status.message().to_owned(),
        })
    };
    let late = |_| format!("{address} does not answer within {} s", CONNECT_TIMEOUT.as_secs());
    tokio::time::timeout(CONNECT_TIMEOUT, asked).await.map_err(late)?
}

async fn connect(access: &Access, address: &str) -> Result<Reached, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("`{address}` is not host:port: {error}"))?;
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(CONNECT_TIMEOUT);
    access
        .connect(&endpoint)
        .await
        .map_err(|error| format!("cannot reach {address}: {}", innermost(&error)))
}

#[cfg(test)]
mod tests {
    use headwater_core::Dtype;
    use headwater_core::recipe::Recipe;
    use headwater_proto::v1::augment_server::{Augment, AugmentServer};
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Request, Response, Status, Streaming};

    use super::*;
    use crate::config::ReceiverConfig;

    /// A worker of another release: its welcome has its own number, and nothing that this one knows.
    struct Other;

    #[tonic::async_trait]
    impl Augment for Other {
        type WorkStream = ReceiverStream<Result<v1::FromWorker, Status>>;

        async fn work(
            &self,
            _: Request<Streaming<v1::ToWorker>>,
        ) -> Result<Response<Self::WorkStream>, Status> {
            let welcome = v1::Welcome { wire_version: WIRE_VERSION + 1, ..v1::Welcome::default() };
            let message = Some(v1::from_worker::Message::Welcome(welcome));
            let (outbox, queue) = mpsc::channel(1);
            outbox
                .try_send(Ok(v1::FromWorker { message }))
                .map_err(|_| Status::internal("full"))?;
            Ok(Response::new(ReceiverStream::new(queue)))
        }
    }

    #[tokio::test]
    async fn a_worker_of_another_version_is_refused_by_name_before_its_welcome_is_read() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tonic::transport::Server::builder().add_service(AugmentServer::new(Other));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let recipe = Recipe::preset("dinov2", Dtype::Bf16).unwrap();
        let hello = crate::setup::hello(&ReceiverConfig::default(), &recipe, &[]);
        let dial = GrpcDial { access: Access::default() };
        let error = dial.dial(&address, hello, &[]).await.err().expect("another version");
        let (theirs, ours) = (WIRE_VERSION + 1, WIRE_VERSION);
        let said = format!("worker speaks wire version {theirs}, this receiver {ours}: run the");
        assert!(error.reason.starts_with(&said), "{}", error.reason);
        assert!(error.hopeless, "another try is of no use");
    }
}
