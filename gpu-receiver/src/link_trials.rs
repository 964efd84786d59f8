//! Links that stand and deliver nothing: left out of what a worker is offered, for a while.
//!
//! A path may take small messages and lose large ones, or break with the first part. Each session over it
//! stands, costs its parts a worker, and ends. After some of these in a row the worker is offered the other
//! links only. Refuses to know why a link delivers nothing, and who offers it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_transport::{LinkKind, ReceiverLink};
use tokio::time::Instant;

use crate::metrics;

/// Sessions of one worker in a row that had parts to deliver over a link and delivered none, after which
/// that worker is not offered it.
pub(crate) const IN_VAIN_MAX: u32 = 3;
/// The same over all workers, after which no worker is offered it: a part is given up when it was lost
/// with some more of them.
pub(crate) const IN_VAIN_ALL_MAX: u32 = 8;
/// How long a link is left out at first; doubles each time, up to the longest.
pub(crate) const LEFT_OUT_FIRST: Duration = Duration::from_secs(60);
const LEFT_OUT_LONGEST: Duration = Duration::from_secs(3600);

/// How links fared with the workers of one receiver.
#[derive(Default)]
pub(crate) struct LinkTrials(Mutex<State>);

#[derive(Default)]
struct State {
    of_worker: HashMap<(String, LinkKind), Trial>,
    of_all: HashMap<LinkKind, Trial>,
}

/// Sessions over one link.
#[derive(Default)]
struct Trial {
    in_vain: u32,
    times_left_out: u32,
    until: Option<Instant>,
}

// === impl LinkTrials ===

impl LinkTrials {
    /// Those of `links` to offer now to the worker at `address`, in their order; all of them where
    /// nothing would be left.
    pub(crate) fn offered(
        &self,
        address: &str,
        links: &[Arc<dyn ReceiverLink>],
        now: Instant,
    ) -> Vec<Arc<dyn ReceiverLink>> {
        let state = self.lock();
        let is_offered = |link: &&Arc<dyn ReceiverLink>| {
            let kind = link.kind();
            let worker = state.of_worker.get(&(address.to_owned(), kind));
            let all = state.of_all.get(&kind);
            !worker.into_iter().chain(all).any(|trial| trial.until.is_some_and(|until| now < until))
        };
        let offered: Vec<_> = links.iter().filter(is_offered).cloned().collect();
        if offered.is_empty() { links.to_vec() } else { offered }
    }

    /// A session over the link has ended, which delivered a part or had some to deliver and did not.
    pub(crate) fn on_end(&self, address: &str, kind: LinkKind, delivered: bool, now: Instant) {
        if kind.facts().is_fallback {
            return;
        }
        let mut state = self.lock();
        let key = (address.to_owned(), kind);
        if delivered {
            state.of_worker.remove(&key);
            state.of_all.remove(&kind);
            return;
        }
        let of_worker = state.of_worker.entry(key).or_default().fail(IN_VAIN_MAX, now);
        let of_all = state.of_all.entry(kind).or_default().fail(IN_VAIN_ALL_MAX, now);
        drop(state);
        let who = [(of_worker, address, IN_VAIN_MAX), (of_all, "all", IN_VAIN_ALL_MAX)];
        for (left_out, worker, sessions) in who {
            let Some(pause) = left_out else { continue };
            metrics::link_left_out(kind.name());
            tracing::warn!(
                worker,
                link = %kind,
                sessions,
                again_after_s = pause.as_secs(),
                "sessions over this link delivered no part: it is left out for now; the lines before say why, \
                 docs/rdma.md what to do about RDMA cards"
            );
        }
    }

    /// No session came about. What was left out may be all that the worker takes: it is offered again.
    pub(crate) fn on_refusal(&self, address: &str) {
        let mut state = self.lock();
        let of_worker = state.of_worker.iter_mut().filter(|((worker, _), _)| worker == address);
        let trials: Vec<&mut Trial> = of_worker.map(|(_, trial)| trial).collect();
        trials.into_iter().for_each(|trial| trial.until = None);
        state.of_all.values_mut().for_each(|trial| trial.until = None);
    }

    /// The worker at `address` is not one of this receiver's any more.
    pub(crate) fn forget(&self, address: &str) {
        self.lock().of_worker.retain(|(worker, _), _| worker != address);
    }

    /// Workers over whose links sessions failed, once for each link.
    #[cfg(test)]
    pub(crate) fn in_vain(&self) -> usize {
        self.lock().of_worker.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Trial ===

impl Trial {
    /// One more failed session. How long the link is left out for it; `None`: it is not.
    fn fail(&mut self, most: u32, now: Instant) -> Option<Duration> {
        self.in_vain += 1;
        let is_left_out = self.until.is_some_and(|until| now < until);
        if self.in_vain < most || is_left_out {
            return None;
        }
        let pause = LEFT_OUT_FIRST.saturating_mul(1 << self.times_left_out.min(16));
        let pause = pause.min(LEFT_OUT_LONGEST);
        self.times_left_out += 1;
        self.until = Some(now + pause);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use headwater_transport::links::tcp::{self, TcpListen};
    use tokio::sync::mpsc;

    use super::*;
    use crate::simulation::idle_link;

    async fn links() -> Vec<Arc<dyn ReceiverLink>> {
        let listen = TcpListen { bind: "127.0.0.1:0".parse().unwrap(), ..Default::default() };
        let tcp = tcp::listen(&listen, mpsc::unbounded_channel().0).await.unwrap();
        vec![idle_link(LinkKind::Rdma), tcp]
    }

    struct Scene {
        trials: LinkTrials,
        links: Vec<Arc<dyn ReceiverLink>>,
        start: Instant,
    }

    impl Scene {
        async fn new() -> Self {
            let start = Instant::now();
            Self { trials: LinkTrials::default(), links: links().await, start }
        }

        fn fails(&self, worker: &str, second: u64) {
            self.ends(worker, false, second);
        }

        fn ends(&self, worker: &str, delivered: bool, second: u64) {
            self.trials.on_end(worker, LinkKind::Rdma, delivered, self.at(second));
        }

        fn offers(&self, worker: &str, second: u64) -> Vec<LinkKind> {
            let offered = self.trials.offered(worker, &self.links, self.at(second));
            offered.iter().map(|link| link.kind()).collect()
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }
    }

    const BOTH: [LinkKind; 2] = [LinkKind::Rdma, LinkKind::Tcp];

    #[tokio::test]
    async fn a_link_that_delivers_nothing_is_left_out_for_that_worker_and_tried_again() {
        let scene = Scene::new().await;
        (0..2).for_each(|second| scene.fails("one", second));
        assert_eq!(scene.offers("one", 2), BOTH, "two may be chance");
        scene.fails("one", 2);
        assert_eq!(scene.offers("one", 3), [LinkKind::Tcp]);
        assert_eq!(scene.offers("other", 3), BOTH);
        assert_eq!(scene.offers("one", 61), [LinkKind::Tcp]);
        assert_eq!(scene.offers("one", 62), BOTH, "tried again");
        scene.fails("one", 63);
        assert_eq!(scene.offers("one", 63 + 119), [LinkKind::Tcp], "for twice as long");
        assert_eq!(scene.offers("one", 63 + 120), BOTH);
        scene.ends("one", true, 200);
        scene.fails("one", 201);
        assert_eq!(scene.offers("one", 202), BOTH, "it has delivered since");
    }

    #[tokio::test]
    async fn a_link_that_delivers_nothing_to_many_workers_is_left_out_for_all() {
        let scene = Scene::new().await;
        (0..7).for_each(|worker| scene.fails(&format!("worker-{worker}"), 1));
        assert_eq!(scene.offers("new", 2), BOTH);
        scene.fails("worker-7", 2);
        assert_eq!(scene.offers("new", 3), [LinkKind::Tcp]);
        assert_eq!(scene.offers("new", 62), BOTH);
    }

    #[tokio::test]
    async fn what_is_all_that_a_worker_takes_is_offered_again() {
        let scene = Scene::new().await;
        (0..3).for_each(|second| scene.fails("one", second));
        assert_eq!(scene.offers("one", 3), [LinkKind::Tcp]);
        scene.trials.on_refusal("one");
        assert_eq!(scene.offers("one", 3), BOTH);
        scene.fails("one", 4);
        let only = [Arc::clone(&scene.links[0])];
        assert_eq!(scene.offers("one", 5), [LinkKind::Tcp]);
        assert_eq!(scene.trials.offered("one", &only, scene.at(5)).len(), 1, "a forced link stays");
    }
}
