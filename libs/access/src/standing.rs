//! What a connection has shown of itself: nothing yet, or a request that was let in.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use headwater_lobby::Place;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// A connection's right to go on. Requests carry it: the first one that is let in gives it a seat.
#[derive(Clone, Debug)]
pub struct Standing {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    /// One for each connection that there may be.
    seats: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// In the lobby, for so long.
    Stranger {
        place: Place,
        patience: Pin<Box<Sleep>>,
    },
    Seated {
        _seat: OwnedSemaphorePermit,
    },
    /// The connection is gone.
    Left,
}

// === impl Standing ===

impl Standing {
    pub(crate) fn new(
        peer: SocketAddr,
        seats: Arc<Semaphore>,
        place: Place,
        patience: Duration,
    ) -> Self {
        let state = Mutex::new(State::Stranger { place, patience: Box::pin(sleep(patience)) });
        Self { inner: Arc::new(Inner { peer, seats, state }) }
    }

    /// The caller's end.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.inner.peer
    }

    /// Notes that a request of this caller was let in; whether there is a seat for it among
    /// `connections_max`. Without one it stays a stranger.
    pub fn let_in(&self) -> bool {
        let mut state = self.lock();
        match *state {
            State::Seated { .. } => true,
            State::Left => false,
            State::Stranger { .. } => {
                let seat = Arc::clone(&self.inner.seats).try_acquire_owned().ok();
                let seated = seat.map(|seat| *state = State::Seated { _seat: seat });
                seated.is_some()
            }
        }
    }

    /// Whether the connection has a seat; an error when it may not wait for one any longer.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut state = self.lock();
        let State::Stranger { place, patience } = &mut *state else {
            return Ok(true);
        };
        if Pin::new(place).poll(context).is_ready() {
            let reason = "another caller took its place before a request of it was let in";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
        if patience.as_mut().poll(context) == Poll::Ready(()) {
            let reason = "no request of it was let in within security.first_request_timeout_ms";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        Ok(false)
    }

    /// Gives place and seat back, whoever still knows of this.
    pub(crate) fn leave(&self) {
        *self.lock() = State::Left;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
