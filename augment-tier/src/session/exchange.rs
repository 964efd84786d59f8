//! A connecting link's words with the receiver's end of it, over the control stream.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use headwater_proto::augment::{FromWorker, LinkRequest};
use headwater_transport::{Exchange, LinkError, LinkKind};
use tokio::sync::{Mutex, mpsc};

use super::wire::Outbox;

/// The worker's half. Answers carry no number: one request is under way at a time, and after one
/// whose answer was not awaited there is no other.
pub(super) struct ControlStream {
    outbox: Outbox,
    answers: Mutex<mpsc::Receiver<Vec<u8>>>,
    asked: AtomicBool,
}

/// Requests go to `outbox`; the answers that come are to be put into the channel.
pub(super) fn channel(outbox: Outbox) -> (ControlStream, mpsc::Sender<Vec<u8>>) {
    let (sender, answers) = mpsc::channel(1);
    let asked = AtomicBool::new(false);
    (ControlStream { outbox, answers: Mutex::new(answers), asked }, sender)
}

#[async_trait]
impl Exchange for ControlStream {
    async fn exchange(&self, kind: LinkKind, request: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let closed = |reason: String| LinkError::Closed { kind, reason };
        if self.asked.swap(true, Ordering::Relaxed) {
            return Err(closed("an earlier request was not answered".into()));
        }
        let mut answers = self.answers.lock().await;
        let request = LinkRequest { kind: kind.name().to_owned(), request };
        let sent = self.outbox.send(FromWorker::LinkRequest(request));
        sent.map_err(|error| closed(error.to_string()))?;
        let answer = answers.recv().await;
        self.asked.store(false, Ordering::Relaxed);
        answer.ok_or_else(|| closed("the session has ended".into()))
    }
}
