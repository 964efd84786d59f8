//! The strict models of the augment protocol: what a receiver and a worker say to each other.

mod done;
pub mod full;
mod heartbeat;
mod hello;
mod lease;

pub use done::{Failure, FailureKind, PartDone, PartOrigin, Provenance, Substitution, WorkTimes};
pub use headwater_core::BadSamplePolicy;
pub use headwater_core::streams::StreamNews;
pub use heartbeat::{Heartbeat, HeartbeatAnswer};
pub use hello::{
    DatasetRef, HEARTBEAT_MS_MAX, LinkAnswer, LinkOffer, LinkRequest, SessionHello, SessionWelcome,
};
pub use lease::{LEASE_SAMPLES_MAX, PartLease};

use crate::v1;

/// A message that does not keep to the protocol; names the field.
#[derive(Debug, thiserror::Error)]
#[error("message field `{field}` {fault}")]
pub struct MessageError {
    /// The field, as in the .proto file.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: String,
}

/// What a receiver says to a worker.
#[derive(Clone, Debug)]
pub enum ToWorker {
    /// Opens the session; first and only once.
    Hello(Box<SessionHello>),
    /// A part to be made.
    Lease(PartLease),
    /// Leases that are no longer wanted.
    Withdraw(Vec<u64>),
    /// Sign of life, and how far the receiver is.
    Heartbeat(Heartbeat),
    /// Answers a link's request.
    LinkAnswer(LinkAnswer),
}

/// What a worker says to a receiver.
#[derive(Clone, Debug)]
pub enum FromWorker {
    /// Answers the hello.
    Welcome(SessionWelcome),
    /// A part was delivered.
    Done(PartDone),
    /// A part was not delivered.
    Failed(Failure),
    /// Sign of life, and how far others are.
    Heartbeat(HeartbeatAnswer),
    /// How many leases may be open from now on; `draining`: the worker is about to leave.
    Credits {
        /// Leases that may be open.
        credits: u32,
        /// About to leave.
        draining: bool,
    },
    /// What a link's end asks before the welcome.
    LinkRequest(LinkRequest),
}

pub(crate) fn fault(field: &'static str, fault: impl Into<String>) -> MessageError {
    MessageError { field, fault: fault.into() }
}

/// Maximum bytes of a name: of a receiver, a worker, a dataset, a field, a link. They stand in log lines.
pub const NAME_MAX_BYTES: usize = 1024;
/// Maximum bytes of a sentence for the log; of a longer one the beginning is kept.
pub const SENTENCE_MAX_BYTES: usize = 4096;

/// A name that is not longer than names are.
pub(crate) fn name(field: &'static str, name: String) -> Result<String, MessageError> {
    match name.len() {
        0..=NAME_MAX_BYTES => Ok(name),
        len => Err(fault(field, format!("has {len} bytes, more than {NAME_MAX_BYTES}"))),
    }
}

/// A sentence, or its beginning.
pub(crate) fn sentence(mut sentence: String) -> String {
    if sentence.len() > SENTENCE_MAX_BYTES {
        sentence.truncate(sentence.floor_char_boundary(SENTENCE_MAX_BYTES));
        sentence.push_str("..");
    }
    sentence
}

pub(crate) fn digest(
    field: &'static str,
    bytes: &[u8],
) -> Result<headwater_core::Digest, MessageError> {
    let bytes: [u8; 16] = bytes
        .try_into()
        .map_err(|_| fault(field, format!("has {} bytes instead of 16", bytes.len())))?;
    Ok(headwater_core::Digest::from_bytes(bytes))
}

// === impl ToWorker ===

impl TryFrom<v1::ToWorker> for ToWorker {
    type Error = MessageError;

    fn try_from(message: v1::ToWorker) -> Result<Self, MessageError> {
        use v1::to_worker::Message;
        match message.message.ok_or_else(|| fault("message", "is missing"))? {
            Message::Hello(hello) => Ok(Self::Hello(Box::new(hello.try_into()?))),
            Message::Lease(lease) => Ok(Self::Lease(lease.try_into()?)),
            Message::Withdraw(withdraw) => Ok(Self::Withdraw(withdraw.leases)),
            Message::Heartbeat(beat) => Ok(Self::Heartbeat(beat.into())),
            Message::LinkAnswer(answer) => Ok(Self::LinkAnswer(answer.try_into()?)),
        }
    }
}

impl From<ToWorker> for v1::ToWorker {
    fn from(message: ToWorker) -> Self {
        use v1::to_worker::Message;
        let message = match message {
            ToWorker::Hello(hello) => Message::Hello((*hello).into()),
            ToWorker::Lease(lease) => Message::Lease(lease.into()),
            ToWorker::Withdraw(leases) => Message::Withdraw(v1::Withdraw { leases }),
            ToWorker::Heartbeat(beat) => Message::Heartbeat(beat.into()),
            ToWorker::LinkAnswer(answer) => Message::LinkAnswer(answer.into()),
        };
        Self { message: Some(message) }
    }
}

// === impl FromWorker ===

impl TryFrom<v1::FromWorker> for FromWorker {
    type Error = MessageError;

    fn try_from(message: v1::FromWorker) -> Result<Self, MessageError> {
        use v1::from_worker::Message;
        match message.message.ok_or_else(|| fault("message", "is missing"))? {
            Message::Welcome(welcome) => Ok(Self::Welcome(welcome.try_into()?)),
            Message::Done(done) => Ok(Self::Done(done.try_into()?)),
            Message::Failed(failed) => Ok(Self::Failed(failed.try_into()?)),
            Message::Heartbeat(beat) => Ok(Self::Heartbeat(beat.into())),
            Message::Credits(v1::Credits { credits, draining }) => {
                Ok(Self::Credits { credits, draining })
            }
            Message::LinkRequest(request) => Ok(Self::LinkRequest(request.try_into()?)),
        }
    }
}

impl From<FromWorker> for v1::FromWorker {
    fn from(message: FromWorker) -> Self {
        use v1::from_worker::Message;
        let message = match message {
            FromWorker::Welcome(welcome) => Message::Welcome(welcome.into()),
            FromWorker::Done(done) => Message::Done(done.into()),
            FromWorker::Failed(failed) => Message::Failed(failed.into()),
            FromWorker::Heartbeat(answer) => Message::Heartbeat(answer.into()),
            FromWorker::Credits { credits, draining } => {
                Message::Credits(v1::Credits { credits, draining })
            }
            FromWorker::LinkRequest(request) => Message::LinkRequest(request.into()),
        };
        Self { message: Some(message) }
    }
}
