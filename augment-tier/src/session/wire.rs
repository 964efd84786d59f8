//! A session's two ends of the control stream, as strict models.

use std::pin::Pin;
use std::time::Duration;

use headwater_proto::augment::{
    FromWorker, Heartbeat, HeartbeatAnswer, SessionHello, StreamNews, ToWorker,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, timeout_at};
use tokio_stream::{Stream, StreamExt};

use crate::error::SessionError;

/// Messages of a receiver, checked.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<ToWorker, SessionError>> + Send>>;
/// Messages to a receiver; an error is the last of them.
pub(crate) type Answers = mpsc::Sender<Result<FromWorker, SessionError>>;

/// Room for echoes of heartbeats, welcome, credits and the last word.
const ANSWERS_BESIDE_LEASES: usize = 16;
/// Of that, what echoes leave free.
const KEPT_FROM_ECHOES: usize = 4;

/// What the receiver says, and since when it has said nothing.
pub(crate) struct Inbox {
    messages: Messages,
    patience: Duration,
    /// Where it is set, the receiver owes a message by then.
    deadline: Option<Instant>,
}

/// The answers to the receiver. Never waits: a receiver that keeps to its credits and reads at all
/// leaves room.
#[derive(Clone)]
pub(crate) struct Outbox {
    answers: Answers,
    credits: usize,
}

/// A channel for the answers of a session with `credits` credits.
pub(crate) fn answers(credits: u32) -> (Outbox, mpsc::Receiver<Result<FromWorker, SessionError>>) {
    // An end of a lease is unread or its lease is open in the receiver's eyes: ends that wait
    // are at most the credits.
    let credits = credits as usize;
    let (answers, receiver) = mpsc::channel(credits + ANSWERS_BESIDE_LEASES);
    (Outbox { answers, credits }, receiver)
}

// === impl Inbox ===

impl Inbox {
    /// Waits for the hello. Until [`Inbox::expect_heartbeats`] silence is no fault.
    pub(crate) async fn open(
        mut messages: Messages,
        within: Duration,
        missed_max: u32,
    ) -> Result<(Self, Box<SessionHello>), SessionError> {
        let late = |_| SessionError::HelloLate { waited_ms: within.as_millis() as u64 };
        let first = timeout_at(Instant::now() + within, messages.next()).await.map_err(late)?;
        let hello = match first {
            Some(Ok(ToWorker::Hello(hello))) => hello,
            Some(Ok(_)) => return Err(SessionError::HelloOrder { what: "no hello came" }),
            Some(Err(error)) => return Err(error),
            None => return Err(SessionError::HelloOrder { what: "the stream ended" }),
        };
        let patience = Duration::from_millis(hello.heartbeat_ms.into()) * missed_max;
        Ok((Self { messages, patience, deadline: None }, hello))
    }

    /// From now on the receiver owes heartbeats.
    pub(crate) fn expect_heartbeats(&mut self) {
        self.deadline = Some(Instant::now() + self.patience);
    }

    /// The next message; `None` when the receiver has closed the stream. Cancel-safe.
    ///
    /// # Errors
    /// The receiver breaks the protocol, its connection broke, or it was silent for too long:
    /// any message is a sign of life.
    pub(crate) async fn next(&mut self) -> Result<Option<ToWorker>, SessionError> {
        let Some(deadline) = self.deadline else {
            return self.messages.next().await.transpose();
        };
        let silent_ms = self.patience.as_millis() as u64;
        let next = timeout_at(deadline, self.messages.next()).await;
        let message = next.map_err(|_| SessionError::Silent { silent_ms })?;
        self.expect_heartbeats();
        message.transpose()
    }
}

// === impl Outbox ===

impl Outbox {
    /// Sends an answer.
    ///
    /// # Errors
    /// The receiver has left too many answers unread, so that there is no room; or it is gone.
    pub(crate) fn send(&self, answer: FromWorker) -> Result<(), SessionError> {
        self.put(Ok(answer))
    }

    /// Sends the last word.
    pub(crate) fn fail(&self, error: SessionError) {
        // Nobody reads it: then nobody needs it.
        let _ = self.put(Err(error));
    }

    /// Answers a heartbeat, unless the receiver has stopped reading.
    pub(crate) fn echo(&self, beat: Heartbeat, news: StreamNews) {
        if self.answers.capacity() > self.credits + KEPT_FROM_ECHOES {
            let answer = HeartbeatAnswer { sequence: beat.sequence, news };
            let _ = self.put(Ok(FromWorker::Heartbeat(answer)));
        }
    }

    /// Resolves when the receiver has let go of the stream.
    pub(crate) async fn closed(&self) {
        self.answers.closed().await;
    }

    fn put(&self, answer: Result<FromWorker, SessionError>) -> Result<(), SessionError> {
        self.answers.try_send(answer).map_err(|error| match error {
            TrySendError::Full(_) => SessionError::NotReading,
            TrySendError::Closed(_) => {
                SessionError::Stream { reason: "the receiver has let go of it".into() }
            }
        })
    }
}
