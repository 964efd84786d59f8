//! Pods that are followed: a thread has the API server tell of each change, and a look shows what it has heard.
//!
//! So a look costs no request, and thousands of receivers that look every few seconds are as many quiet connections.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use headwater_kubernetes::{ApiServer, KubernetesError, Listing, Slices};

/// Pauses after a failure, the second twice as long and so on.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A watch that ends earlier without a word was none.
const STANDS: Duration = Duration::from_secs(2);
/// The server's word for a right that an account does not have.
const FORBIDDEN: u16 = 403;

/// What is known of a Service's pods, as long as this lives.
#[derive(Clone, Debug)]
pub(crate) struct Followed(Arc<Mutex<Known>>);

/// The pods, or why they are not known now.
#[derive(Debug)]
enum Known {
    Pods(Vec<String>),
    Not(String),
    /// The account may list slices and not watch them.
    NotWatched,
}

// === impl Followed ===

impl Followed {
    /// Begins with a list, and follows it.
    ///
    /// # Errors
    /// There is no list.
    pub(crate) fn begin(slices: &Slices) -> Result<Self, KubernetesError> {
        let server = ApiServer::of_this_pod()?;
        let listing = slices.list(&server)?;
        let known = Arc::new(Mutex::new(Known::Pods(listing.addresses())));
        let (slices, told) = (slices.clone(), Arc::downgrade(&known));
        let follow = move || follow(&slices, &server, listing, &told);
        let thread = thread::Builder::new().name("slices".to_owned()).spawn(follow);
        if thread.is_err() {
            *lock(&known) = Known::NotWatched;
        }
        Ok(Self(known))
    }

    /// The pods that are ready, as was heard last; `None`: they are not followed.
    pub(crate) fn pods(&self) -> Option<Result<Vec<String>, String>> {
        match &*lock(&self.0) {
            Known::Pods(pods) => Some(Ok(pods.clone())),
            Known::Not(reason) => Some(Err(reason.clone())),
            Known::NotWatched => None,
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows until nobody wants to know.
fn follow(slices: &Slices, server: &ApiServer, mut listing: Listing, told: &Weak<Mutex<Known>>) {
    let tell = |known: Known| match told.upgrade() {
        Some(of) => {
            *lock(&of) = known;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let mut failures = 0;
    loop {
        let (begun, mut heard) = (Instant::now(), false);
        let followed = slices.follow(server, &mut listing, |listing| {
            heard = true;
            tell(Known::Pods(listing.addresses()))
        });
        if tell(Known::Pods(listing.addresses())).is_break() {
            return;
        }
        let has_stood = heard || begun.elapsed() >= STANDS;
        if has_stood {
            failures = 0;
        }
        match followed {
            Err(error) if error.status() == Some(FORBIDDEN) => {
                let _ = tell(Known::NotWatched);
                return;
            }
            // The server ends each watch after a while, or a connection breaks that it spoke over: it goes on where it
            // was. One that says nothing may be gone, and a list shows that.
            Ok(()) if has_stood => {
                thread::sleep(pause(0));
                continue;
            }
            Err(KubernetesError::Connection { .. }) if heard => {
                thread::sleep(pause(0));
                continue;
            }
            _ => {}
        }
        loop {
            thread::sleep(pause(failures));
            failures += 1;
            match slices.list(server) {
                Ok(new) => {
                    listing = new;
                    break;
                }
                Err(error) => {
                    if tell(Known::Not(error.to_string())).is_break() {
                        return;
                    }
                }
            }
        }
    }
}

/// Differs from process to process: all hear of a server that comes back at once. As `Backoff` of headwater-core, which
/// this crate does not know.
fn pause(failures: u32) -> Duration {
    let longest = PAUSE.saturating_mul(1 << failures.min(6)).min(PAUSE_MAX);
    let share = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    longest.mul_f64(0.5 + 0.5 * share)
}
