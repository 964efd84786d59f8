//! Which batches of a host are kept, who wants which, and what to make next. Knows no process, no
//! clock and no memory.

use std::collections::{BTreeMap, VecDeque};

use headwater_core::part::PartKey;

use crate::position::Position;

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientId(pub(super) u64);

/// A batch that a trial asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Want {
    /// Number of the question.
    pub(super) ask: u64,
    /// Grows when the trial goes elsewhere: what it asked for before is void.
    pub(super) generation: u64,
    /// Its number, counted over epochs without a gap.
    pub(super) number: u64,
    /// Its place.
    pub(super) at: Position,
    /// What its content follows from.
    pub(super) key: PartKey,
}

/// What is said to a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply<B> {
    Batch {
        ask: u64,
        batch: B,
    },
    /// It goes on without the service.
    Gone {
        ask: u64,
        reason: String,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Demand {
    /// Nobody waits.
    Nothing,
    /// The next batch.
    Next,
    /// The batch of another place, with its number.
    Seek(Position, u64),
}

/// Batches one after another, as many as are kept, and those who want them.
#[derive(Debug)]
pub(super) struct BatchCache<B> {
    /// By their numbers.
    kept: BTreeMap<u64, (PartKey, B)>,
    /// Number of the batch that is made next; those that are kept are the ones before it.
    next: u64,
    /// Batches that are kept; a trial that asks for an older one is too late.
    keep: usize,
    /// How far beyond what is kept a trial may ask.
    reach: u64,
    /// How far a trial may be ahead of the slowest one; 0: as far as it likes.
    lead: u64,
    clients: BTreeMap<ClientId, Client>,
    /// Why no batch is made any more.
    failed: Option<String>,
}

#[derive(Debug, Default)]
struct Client {
    wants: VecDeque<Want>,
    /// Number of the batch after the last that it was given; nothing yet: it has no place.
    at: Option<u64>,
    /// Why it cannot have what it waits for.
    refused: Option<String>,
}

// === impl BatchCache ===

impl<B: Clone> BatchCache<B> {
    /// `keep`: batches that are kept, at least 1. `reach`: how many batches ahead of what is made a trial
    /// may ask. `lead`: how far it may be ahead of the slowest one; 0: as far as it likes.
    pub(super) fn new(keep: usize, reach: u64, lead: u64) -> Self {
        let (kept, clients) = (BTreeMap::new(), BTreeMap::new());
        Self { kept, next: 0, keep: keep.max(1), reach, lead, clients, failed: None }
    }

    pub(super) fn enter(&mut self, client: ClientId) {
        self.clients.insert(client, Client::default());
    }

    pub(super) fn leave(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// A trial goes on without the service: nobody waits for it.
    pub(super) fn send_away(&mut self, client: ClientId) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.detach();
        }
    }

    /// Notes what a trial asks for, after what it asked for before in the same generation.
    pub(super) fn want(&mut self, client: ClientId, want: Want) {
        if let Some(client) = self.clients.get_mut(&client) {
            if client.wants.iter().any(|before| before.generation != want.generation) {
                // It has gone elsewhere.
                client.wants.clear();
                client.refused = None;
            }
            client.wants.push_back(want);
        }
    }

    /// Questions of a trial that are not answered.
    pub(super) fn open_wants(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |client| client.wants.len())
    }

    /// Takes the batch of a number, which was made next.
    pub(super) fn put(&mut self, number: u64, key: PartKey, batch: B) {
        self.kept.insert(number, (key, batch));
        self.next = number + 1;
        while self.kept.len() > self.keep {
            self.kept.pop_first();
        }
    }

    /// Batches are made from another number on.
    pub(super) fn moved_to(&mut self, number: u64) {
        self.kept.clear();
        self.next = number;
    }

    /// What is wanted cannot be made: whoever waits for it goes on without the service.
    pub(super) fn fail(&mut self, reason: &str) {
        let kept = &self.kept;
        for client in self.clients.values_mut() {
            if client.wants.front().is_some_and(|want| !kept.contains_key(&want.number)) {
                client.refused = Some(reason.to_owned());
            }
        }
    }

    /// Nothing will be made any more.
    pub(super) fn end(&mut self, reason: &str) {
        self.failed = Some(reason.to_owned());
    }

    /// What can be said to a trial now.
    pub(super) fn replies(&mut self, id: ClientId) -> Vec<Reply<B>> {
        let mut replies = Vec::new();
        while let Some(reply) = self.reply(id) {
            replies.push(reply);
        }
        replies
    }

    fn reply(&mut self, id: ClientId) -> Option<Reply<B>> {
        let want = self.clients.get(&id)?.wants.front()?.clone();
        let reason = match self.look_for(id, &want) {
            Found::Batch(batch) => {
                let client = self.clients.get_mut(&id)?;
                client.wants.pop_front();
                client.at = Some(want.number + 1);
                return Some(Reply::Batch { ask: want.ask, batch });
            }
            Found::NotYet => return None,
            Found::Never(reason) => reason,
        };
        self.clients.get_mut(&id)?.detach();
        Some(Reply::Gone { ask: want.ask, reason })
    }

    fn look_for(&self, id: ClientId, want: &Want) -> Found<B> {
        let refused = self.clients.get(&id).and_then(|client| client.refused.as_ref());
        if let Some(reason) = self.failed.as_ref().or(refused) {
            return Found::Never(reason.clone());
        }
        if let Some((key, batch)) = self.kept.get(&want.number) {
            return match *key == want.key {
                true => Found::Batch(batch.clone()),
                false => Found::Never("its samples differ from those of the others".into()),
            };
        }
        if self.is_near(want.number) || self.is_alone(id) {
            return Found::NotYet;
        }
        let apart = want.number.abs_diff(self.next);
        Found::Never(format!("it is {apart} batches away from what the others are given"))
    }

    /// Whether a batch that is not kept comes soon.
    fn is_near(&self, number: u64) -> bool {
        (self.next..self.next + self.reach).contains(&number)
    }

    /// Whether the slowest trial is too far behind for this batch to be made.
    fn is_too_early(&self, number: u64) -> bool {
        let slowest = self.clients.values().filter_map(Client::place).min();
        self.lead > 0 && slowest.is_some_and(|slowest| number >= slowest + self.lead)
    }

    /// Whether no other trial follows what is made here.
    fn is_alone(&self, id: ClientId) -> bool {
        let first = self.kept.keys().next().copied().unwrap_or(self.next);
        let follows = |client: &Client| {
            let place = client.place();
            place.is_some_and(|place| (first..self.next + self.reach).contains(&place))
        };
        !self.clients.iter().any(|(&other, client)| other != id && follows(client))
    }

    /// Whether any trial is given batches here.
    pub(super) fn is_followed(&self) -> bool {
        self.clients.values().any(|client| client.place().is_some())
    }

    /// What to make for those who wait.
    pub(super) fn demand(&self) -> Demand {
        let mut elsewhere = None;
        for (&id, client) in &self.clients {
            let Some(want) = client.wants.front() else { continue };
            if self.is_near(want.number) {
                if self.is_too_early(want.number) {
                    continue;
                }
                return Demand::Next;
            }
            // A trial that lags while others follow will soon hear that it must go on without the
            // service.
            if !self.kept.contains_key(&want.number) && self.is_alone(id) {
                elsewhere.get_or_insert((want.at, want.number));
            }
        }
        elsewhere.map_or(Demand::Nothing, |(at, number)| Demand::Seek(at, number))
    }
}

enum Found<B> {
    Batch(B),
    NotYet,
    Never(String),
}

// === impl Client ===

impl Client {
    /// Number of the batch that it takes next, if it is given any here.
    fn place(&self) -> Option<u64> {
        self.wants.front().map(|want| want.number).or(self.at)
    }

    /// It goes on without the service: what it has asked for is void, and it holds up nobody.
    fn detach(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::Digest;

    use super::*;

    const KEEP: usize = 4;
    const REACH: u64 = 2;
    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn key(number: u64) -> PartKey {
        PartKey(Digest(number.into()))
    }

    fn want(number: u64) -> Want {
        let at = Position { epoch: 0, step: number };
        Want { ask: number, generation: 0, number, at, key: key(number) }
    }

    fn batch(number: u64) -> Reply<u64> {
        Reply::Batch { ask: number, batch: number }
    }

    fn stock(clients: &[ClientId]) -> BatchCache<u64> {
        let mut stock = BatchCache::new(KEEP, REACH, 0);
        clients.iter().for_each(|&client| stock.enter(client));
        stock
    }

    /// Makes what is wanted until nobody waits.
    fn make(stock: &mut BatchCache<u64>) {
        loop {
            match stock.demand() {
                Demand::Nothing => return,
                Demand::Next => stock.put(stock.next, key(stock.next), stock.next),
                Demand::Seek(at, number) => {
                    assert_eq!(at.step, number);
                    stock.moved_to(number);
                }
            }
        }
    }

    fn ask(stock: &mut BatchCache<u64>, client: ClientId, number: u64) -> Vec<Reply<u64>> {
        stock.want(client, want(number));
        // Who is refused at once is not made for.
        let mut replies = stock.replies(client);
        if replies.is_empty() {
            make(stock);
            replies = stock.replies(client);
        }
        replies
    }

    fn is_gone(replies: &[Reply<u64>]) -> bool {
        matches!(replies, [Reply::Gone { .. }])
    }

    #[test]
    fn each_batch_is_made_once_for_all_who_are_near() {
        let mut stock = stock(&[A, B]);
        for number in 0..20 {
            assert_eq!(ask(&mut stock, A, number), [batch(number)]);
            if number >= 3 {
                assert_eq!(ask(&mut stock, B, number - 3), [batch(number - 3)]);
            }
        }
        assert_eq!(stock.next, 20);
    }

    #[test]
    fn nothing_is_made_that_nobody_waits_for() {
        let mut stock = stock(&[A, B]);
        assert_eq!(stock.demand(), Demand::Nothing);
        ask(&mut stock, A, 0);
        assert_eq!((stock.demand(), stock.next), (Demand::Nothing, 1));
    }

    #[test]
    fn who_lags_beyond_what_is_kept_goes_on_alone_and_holds_up_nobody() {
        let mut stock = stock(&[A, B]);
        assert_eq!(ask(&mut stock, B, 0), [batch(0)]);
        for number in 0..10 {
            assert_eq!(ask(&mut stock, A, number), [batch(number)]);
        }
        assert!(is_gone(&ask(&mut stock, B, 1)));
        // As if it were not there: the other may go where it wants.
        assert_eq!(ask(&mut stock, A, 500), [batch(500)]);
        // It may come back.
        assert_eq!(ask(&mut stock, B, 500), [batch(500)]);
    }

    /// Whoever looks first: the one who makes batches, or the one who answers.
    #[test]
    fn who_lags_does_not_take_the_batches_away_from_those_who_follow() {
        let mut stock = stock(&[A, B]);
        for number in 0..12 {
            ask(&mut stock, A, number);
        }
        stock.want(B, want(1));
        assert_eq!(stock.demand(), Demand::Nothing);
        assert!(is_gone(&stock.replies(B)));
        stock.want(B, want(1));
        stock.leave(A);
        assert!(matches!(stock.demand(), Demand::Seek(_, 1)));
    }

    #[test]
    fn who_is_alone_goes_anywhere_and_who_is_not_goes_on_alone() {
        let mut stock = stock(&[A, B]);
        assert_eq!(ask(&mut stock, A, 1000), [batch(1000)]);
        assert_eq!(ask(&mut stock, A, 7), [batch(7)]);
        assert!(is_gone(&ask(&mut stock, B, 1000)));
        assert_eq!(ask(&mut stock, A, 8), [batch(8)]);
        stock.leave(A);
        assert_eq!(ask(&mut stock, B, 1000), [batch(1000)]);
    }

    #[test]
    fn with_a_limit_who_is_ahead_waits_for_the_slowest_that_is_given_batches() {
        let mut stock = BatchCache::new(KEEP, REACH, 3);
        [A, B].into_iter().for_each(|client| stock.enter(client));
        assert_eq!(ask(&mut stock, B, 0), [batch(0)]);
        for number in 0..4 {
            assert_eq!(ask(&mut stock, A, number), [batch(number)]);
        }
        assert_eq!(ask(&mut stock, A, 4), []);
        assert_eq!(ask(&mut stock, B, 1), [batch(1)]);
        make(&mut stock);
        assert_eq!(stock.replies(A), [batch(4)]);
        assert_eq!(ask(&mut stock, A, 5), []);
        stock.leave(B);
        make(&mut stock);
        assert_eq!(stock.replies(A), [batch(5)]);
    }

    #[test]
    fn nobody_follows_once_each_is_alone_or_gone() {
        let mut stock = stock(&[A, B]);
        assert!(!stock.is_followed(), "none has asked");
        for client in [A, B] {
            ask(&mut stock, client, 0);
        }
        stock.send_away(A);
        assert!(stock.is_followed());
        stock.leave(B);
        assert!(!stock.is_followed());
        stock.want(A, want(1));
        assert!(stock.is_followed(), "it asks again");
    }

    #[test]
    fn another_order_of_samples_is_not_mistaken_for_this_one() {
        let mut stock = stock(&[A, B]);
        assert_eq!(ask(&mut stock, A, 0), [batch(0)]);
        stock.want(B, Want { key: key(77), ..want(0) });
        assert!(is_gone(&stock.replies(B)));
    }

    #[test]
    fn who_goes_elsewhere_is_answered_there_and_not_where_it_was() {
        let mut stock = stock(&[A, B]);
        assert_eq!(ask(&mut stock, A, 100), [batch(100)]);
        stock.want(B, want(7));
        stock.want(B, want(8));
        stock.want(B, Want { generation: 1, ..want(100) });
        assert_eq!(stock.replies(B), [batch(100)]);
    }

    #[test]
    fn a_failure_is_nothing_to_a_trial_that_has_gone_elsewhere() {
        let mut stock = stock(&[A]);
        stock.want(A, want(0));
        stock.fail("no worker");
        stock.want(A, Want { generation: 1, ..want(100) });
        assert_eq!(stock.replies(A), []);
        assert_ne!(stock.demand(), Demand::Nothing);
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_later_to_all_who_ask() {
        let mut stock = stock(&[A, B]);
        stock.want(A, want(0));
        stock.want(A, want(1));
        stock.fail("no worker");
        assert_eq!(stock.replies(A), [Reply::Gone { ask: 0, reason: "no worker".into() }]);
        assert_eq!((stock.demand(), stock.replies(A)), (Demand::Nothing, vec![]));
        assert_eq!(ask(&mut stock, B, 0), [batch(0)]);
        stock.end("broken");
        assert!(is_gone(&ask(&mut stock, B, 0)));
        assert!(is_gone(&ask(&mut stock, A, 1)));
    }
}
