//! Places for callers that have not shown yet who they are.
//!
//! Whoever reaches a port can hold a connection and say nothing. So every server has a [`Lobby`]: few
//! places, kept until a caller has shown its key or its first request was let in. Where none is free
//! the newcomer still gets one: of the host with the most callers here, the first to come is turned
//! out. Somebody who keeps a thousand connections open turns out their own.
//!
//! Deliberately absent: sockets, clocks, what a caller has to show. How long a caller may stay is
//! watched by whoever holds its [`Place`].
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use metrics::{counter, gauge};
use tokio::sync::oneshot;

const WAITING: &str = "headwater_unauthenticated_callers";
const WAITING_MAX: &str = "headwater_unauthenticated_callers_limit";
const TURNED_OUT: &str = "headwater_unauthenticated_callers_dropped_total";

/// The callers of one server that have shown nothing yet. Clones share it.
#[derive(Clone, Debug)]
pub struct Lobby {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    door: &'static str,
    places: usize,
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    entered: u64,
    /// In the order in which they came.
    inside: BTreeMap<u64, Caller>,
}

#[derive(Debug)]
struct Caller {
    host: Option<IpAddr>,
    turn_out: oneshot::Sender<()>,
}

/// A caller's place, given back when dropped. Resolves when the caller is turned out: its place is
/// another's already, and its connection must be closed.
#[derive(Debug)]
pub struct Place {
    lobby: Arc<Inner>,
    number: u64,
    turned_out: oneshot::Receiver<()>,
}

// === impl Lobby ===

impl Lobby {
    /// A lobby of `places` places, one at least. `door` names the server in metrics.
    #[must_use]
    pub fn new(door: &'static str, places: usize) -> Self {
        describe_metrics();
        let places = places.max(1);
        gauge!(WAITING_MAX, "listener" => door).set(places as f64);
        Self { inner: Arc::new(Inner { door, places, callers: Mutex::default() }) }
    }

    /// A place for a caller from `host`; `None`: hosts are not told apart here.
    #[must_use]
    pub fn enter(&self, host: Option<IpAddr>) -> Place {
        let (turn_out, turned_out) = oneshot::channel();
        let mut callers = self.inner.lock();
        if callers.inside.len() >= self.inner.places {
            callers.turn_one_out();
            counter!(TURNED_OUT, "listener" => self.inner.door).increment(1);
        }
        let number = callers.entered;
        callers.entered += 1;
        callers.inside.insert(number, Caller { host, turn_out });
        self.inner.report(&callers);
        drop(callers);
        Place { lobby: Arc::clone(&self.inner), number, turned_out }
    }
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    metrics::describe_gauge!(
        WAITING,
        "Callers that have not identified themselves yet, by listener"
    );
    metrics::describe_gauge!(WAITING_MAX, "Limit of such callers, by listener");
    metrics::describe_counter!(
        TURNED_OUT,
        "Callers without identification that were dropped for the next caller, by listener"
    );
}

// === impl Inner ===

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, callers: &Callers) {
        gauge!(WAITING, "listener" => self.door).set(callers.inside.len() as f64);
    }
}

// === impl Callers ===

impl Callers {
    /// The first to come of the host with the most callers.
    fn turn_one_out(&mut self) {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        for caller in self.inside.values() {
            *counts.entry(caller.host).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let mut inside = self.inside.iter();
        let first = inside.find(|(_, caller)| counts[&caller.host] == most);
        if let Some(caller) = first.map(|(&number, _)| number).and_then(|n| self.inside.remove(&n))
        {
            // Gone meanwhile: then its place is free as well.
            let _ = caller.turn_out.send(());
        }
    }
}

// === impl Place ===

impl Future for Place {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.turned_out).poll(context).map(drop)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut callers = self.lobby.lock();
        callers.inside.remove(&self.number);
        self.lobby.report(&callers);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn host(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    fn is_turned_out(place: &mut Place) -> bool {
        place.now_or_never().is_some()
    }

    #[test]
    fn whoever_came_first_makes_room() {
        let lobby = Lobby::new("test", 2);
        let [mut first, mut second] = [lobby.enter(None), lobby.enter(None)];
        assert!(!is_turned_out(&mut first) && !is_turned_out(&mut second));
        let third = lobby.enter(None);
        assert!(is_turned_out(&mut first) && !is_turned_out(&mut second));
        // Not the first to come: its place would be the next one's, given back or not.
        drop(third);
        let mut fourth = lobby.enter(None);
        assert!(!is_turned_out(&mut second) && !is_turned_out(&mut fourth), "a place was free");
    }

    #[test]
    fn a_host_with_many_callers_turns_out_its_own() {
        let lobby = Lobby::new("test", 4);
        let mut honest = lobby.enter(host(1));
        let mut greedy: Vec<Place> = (0..100).map(|_| lobby.enter(host(2))).collect();
        assert!(!is_turned_out(&mut honest));
        let stay = greedy.iter_mut().filter_map(|place| (!is_turned_out(place)).then_some(()));
        assert_eq!(stay.count(), 3);
        let mut another = lobby.enter(host(3));
        assert!(!is_turned_out(&mut honest) && !is_turned_out(&mut another));
    }

    #[test]
    fn a_place_that_was_turned_out_takes_no_others_with_it() {
        let lobby = Lobby::new("test", 1);
        let first = lobby.enter(None);
        let mut second = lobby.enter(None);
        drop(first);
        assert!(!is_turned_out(&mut second));
        let mut third = lobby.enter(None);
        assert!(is_turned_out(&mut second) && !is_turned_out(&mut third));
    }
}
