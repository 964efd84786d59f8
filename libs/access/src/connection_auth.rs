//! What a connection has shown of itself: nothing yet, or a request that was let in.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use headwater_lobby::Place;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// A connection's right to go on. Requests carry it: the first one that is let in gives it a seat.
#[derive(Clone, Debug)]
pub struct ConnectionAuth {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    /// One for each connection that there may be.
    seats: Arc<Semaphore>,
    state: Mutex<State>,
    /// Of the connection's task, to hear that it has to end.
    waker: Mutex<Option<Waker>>,
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
    /// The connection is to end, or is gone.
    Out(&'static str),
}

// === impl ConnectionAuth ===

impl ConnectionAuth {
    pub(crate) fn new(
        peer: SocketAddr,
        seats: Arc<Semaphore>,
        place: Place,
        patience: Duration,
    ) -> Self {
        let state = Mutex::new(State::Stranger { place, patience: Box::pin(sleep(patience)) });
        Self { inner: Arc::new(Inner { peer, seats, state, waker: Mutex::default() }) }
    }

    /// The caller's end.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.inner.peer
    }

    /// Notes that a request of this caller was let in; whether there is a seat for it among
    /// `connections_max`. Without one it stays an unauthenticated peer.
    pub fn let_in(&self) -> bool {
        let mut state = self.lock();
        match *state {
            State::Seated { .. } => true,
            State::Out(_) => false,
            State::Stranger { .. } => {
                let seat = Arc::clone(&self.inner.seats).try_acquire_owned().ok();
                let seated = seat.map(|seat| *state = State::Seated { _seat: seat });
                seated.is_some()
            }
        }
    }

    /// Whether the connection may go on; an error when it may not, or may not wait for a seat any
    /// longer.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut state = self.lock();
        let (place, patience) = match &mut *state {
            State::Stranger { place, patience } => (place, patience),
            State::Out(reason) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, *reason));
            }
            State::Seated { .. } => {
                let mut waker = self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner);
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    *waker = Some(context.waker().clone());
                }
                return Ok(());
            }
        };
        if Pin::new(place).poll(context).is_ready() {
            let reason = "another caller took its place before a request of it was let in";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
        if patience.as_mut().poll(context) == Poll::Ready(()) {
            let reason = "no request of it was let in within security.first_request_timeout_ms";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        Ok(())
    }

    /// Ends the connection, seated or not; whether it had not ended yet.
    pub(crate) fn expel(&self, reason: &'static str) -> bool {
        let was = std::mem::replace(&mut *self.lock(), State::Out(reason));
        let mut waker = self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner);
        waker.take().into_iter().for_each(Waker::wake);
        !matches!(was, State::Out(_))
    }

    /// Gives place and seat back, whoever still knows of this.
    pub(crate) fn leave(&self) {
        *self.lock() = State::Out("it is gone");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
