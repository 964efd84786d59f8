//! What receivers of the same stream hear of each other, and who waits for whom.

use headwater_proto::augment::StreamNews;
use headwater_transport::PeerId;
use tokio::time::Instant;

use super::Driver;
use super::host::Host;
use crate::position::Position;

impl Driver {
    /// A worker says how far others are that want the same parts.
    pub(super) fn on_news(&mut self, peer: PeerId, news: StreamNews) {
        let Some(session) = self.state.sessions.get_mut(&peer) else { return };
        session.slowest = news.slowest;
        self.ledger.on_takes_from(peer, news.takes_from);
    }

    /// Whether the next batch has to wait: this receiver is `receiver.max_lead` steps before the slowest one
    /// that its workers know. Sessions that end are forgotten by both sides, so nobody waits for a receiver
    /// that has gone.
    pub(super) fn is_too_far_ahead(&mut self) -> bool {
        let ahead = self.max_lead.is_some_and(|max_lead| {
            let slowest = self.state.sessions.values().filter_map(|session| session.slowest).min();
            let Position { epoch, step } = self.place();
            let next = self.order.job_step(epoch, step);
            slowest.is_some_and(|slowest| next >= slowest.saturating_add(max_lead.get().into()))
        });
        if ahead && !self.state.paced {
            self.stats.on_pace_wait();
        }
        self.state.paced = ahead;
        ahead
    }

    /// Whether the trainer has taken the last batch that there is.
    pub(super) fn has_ended(&self) -> bool {
        let Position { epoch, step } = self.mailbox.position();
        let is_at_end = step >= self.order.steps_per_epoch(epoch);
        self.epochs > 0 && epoch.saturating_add(is_at_end.into()) >= self.epochs
    }

    /// Leaves the workers while no batch is wanted of them, and comes back. A receiver that stands still there would
    /// hold back all others of its stream.
    pub(super) fn look_for_rest(&mut self) {
        let shares = self.host.as_ref().is_some_and(Host::gives_all);
        // Where nobody waits for others, its sessions are there when it goes back to an earlier epoch.
        let has_ended = self.max_lead.is_some() && self.has_ended();
        let rests = shares || has_ended || self.state.idle;
        if rests != self.state.rests {
            self.state.rests = rests;
            // Meanwhile nobody is missed.
            self.state.alone_since = (!rests).then(Instant::now);
            self.meet_workers();
        }
    }
}
