//! What receivers of the same stream hear of each other, and who waits for whom.

use headwater_proto::augment::StreamNews;
use headwater_transport::PeerId;

use super::Driver;
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
}
