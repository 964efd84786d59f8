//! Why the trainer waits. Each wait is split by cause, and the parts add up to the wait.
//!
//! Two causes are known at once: there is no worker, or the trainer holds every slot. The rest is known
//! when the batch is there. It was late by its last part, so the wait is held against that part's
//! history from its end backwards: while the trainer waited, that is where the part was.

use std::time::Duration;

use headwater_proto::augment::WorkTimes;
use tokio::time::Instant;

/// What the trainer waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Storage nodes read samples.
    Read,
    /// Storage nodes waited for a distant source, or for a copy into their host's cache.
    Fetch,
    /// The part had no lease, as workers had no room, or waited for a thread of its worker.
    Queue,
    /// Images were decoded.
    Decode,
    /// Views were made of them; on GPUs decoding is in it.
    Augment,
    /// The part was on its way to the receiver, or waited for memory to be sent from.
    Deliver,
    /// The batch was copied to a GPU.
    Device,
    /// No worker was there.
    Nobody,
    /// An attempt at the part failed: its worker was lost, or could not make it.
    Retry,
    /// The trainer held every slot.
    Held,
    /// Slower receivers of the stream, see `receiver.max_lead`.
    Pace,
    /// The service of this host that trials share.
    Host,
    /// A wait that goes on: its cause is known when its batch is there.
    Pending,
}

/// Time waited, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls([Duration; Cause::ALL.len()]);

/// The last part of a batch, as the ledger saw it. Times are since the ledger's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastPart {
    /// When the lease that brought it was given.
    pub given: Duration,
    /// When it was there.
    pub arrived: Duration,
    /// Leases before that one failed.
    pub tried: bool,
    /// What its worker says.
    pub times: WorkTimes,
}

/// Where a batch was in the time before it was ready, first to last.
#[derive(Clone, Debug)]
pub(crate) struct History {
    steps: Vec<(Cause, Duration)>,
    /// Of it all in one: decoding and augmenting, which go on side by side.
    rendering: Rendering,
    deliver: Duration,
    device: Duration,
    ready: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rendering {
    wall: Duration,
    decode_share: f64,
}

/// What keeps batches from being made, and since when. Counts whether or not anybody waits.
#[derive(Debug)]
pub(crate) struct Obstacles {
    now: Option<Cause>,
    since: Instant,
    before: Stalls,
}

// === impl Cause ===

impl Cause {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::Fetch,
        Self::Queue,
        Self::Decode,
        Self::Augment,
        Self::Deliver,
        Self::Device,
        Self::Nobody,
        Self::Retry,
        Self::Held,
        Self::Pace,
        Self::Host,
        Self::Pending,
    ];

    /// Name in metrics: `queue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Fetch => "fetch",
            Self::Queue => "queue",
            Self::Decode => "decode",
            Self::Augment => "augment",
            Self::Deliver => "deliver",
            Self::Device => "device",
            Self::Nobody => "nobody",
            Self::Retry => "retry",
            Self::Held => "held",
            Self::Pace => "pace",
            Self::Host => "host",
            Self::Pending => "pending",
        }
    }
}

// === impl Stalls ===

impl Stalls {
    /// Time waited for this cause.
    #[must_use]
    pub fn get(&self, cause: Cause) -> Duration {
        self.0[cause as usize]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// Each cause with its time, those without any left out.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, Duration)> {
        Cause::ALL.into_iter().zip(self.0).filter(|(_, time)| !time.is_zero())
    }

    pub(crate) fn add(&mut self, cause: Cause, time: Duration) {
        self.0[cause as usize] += time;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(cause, time)| self.add(cause, time));
    }

    /// Takes all of one cause away.
    pub(crate) fn take(&mut self, cause: Cause) -> Duration {
        std::mem::take(&mut self.0[cause as usize])
    }

    /// What is more here than in an older one.
    fn since(&self, older: &Self) -> Self {
        let mut more = Self::default();
        for (cause, time) in self.iter() {
            more.add(cause, time.saturating_sub(older.get(cause)));
        }
        more
    }
}

// === impl History ===

impl History {
    /// Of a batch of workers whose last part came so; `device` is the time to send it on its way to the GPU.
    /// `started` is the ledger's start.
    pub(crate) fn of(last: &LastPart, device: Duration, started: Instant) -> Self {
        let micros = Duration::from_micros;
        let LastPart { given, arrived, tried, times } = *last;
        let at_worker = micros(times.whole_us);
        let on_the_way = arrived.saturating_sub(given).saturating_sub(at_worker);
        let ready = Instant::now();
        // From the last part's coming to here: bytes were compared, earlier batches waited for.
        let kept = ready.saturating_duration_since(started + arrived).saturating_sub(device);
        let before = if tried { Cause::Retry } else { Cause::Queue };
        let steps = vec![
            (before, Duration::MAX),
            (Cause::Fetch, micros(times.fetch_us)),
            (Cause::Read, micros(times.read_us.saturating_sub(times.fetch_us))),
            (Cause::Queue, micros(times.queue_us())),
        ];
        let decode_share = times.decode_us as f64 / times.render_us.max(1) as f64;
        let rendering =
            Rendering { wall: micros(times.rendering_us), decode_share: decode_share.min(1.0) };
        let deliver = micros(times.room_us + times.deliver_us) + on_the_way + kept;
        Self { steps, rendering, deliver, device, ready }
    }

    /// Of a batch of this host's service.
    pub(crate) fn of_host() -> Self {
        Self {
            steps: vec![(Cause::Host, Duration::MAX)],
            rendering: Rendering::default(),
            deliver: Duration::ZERO,
            device: Duration::ZERO,
            ready: Instant::now(),
        }
    }

    /// A wait that ends now, by what the batch was in meanwhile.
    pub(crate) fn split(&self, waited: Duration) -> Stalls {
        let mut stalls = Stalls::default();
        let mut left = waited;
        let mut take = |most: Duration| {
            let taken = left.min(most);
            left -= taken;
            taken
        };
        stalls.add(Cause::Deliver, take(self.ready.elapsed()));
        stalls.add(Cause::Device, take(self.device));
        stalls.add(Cause::Deliver, take(self.deliver));
        let rendering = take(self.rendering.wall);
        let decode = rendering.mul_f64(self.rendering.decode_share).min(rendering);
        stalls.add(Cause::Decode, decode);
        stalls.add(Cause::Augment, rendering - decode);
        for (cause, time) in self.steps.iter().rev() {
            stalls.add(*cause, take(*time));
        }
        stalls
    }
}

// === impl Obstacles ===

impl Obstacles {
    /// Since the start.
    pub(crate) fn new(now: Option<Cause>) -> Self {
        Self { now, since: Instant::now(), before: Stalls::default() }
    }

    /// From now on it is this, or nothing.
    pub(crate) fn set(&mut self, now: Option<Cause>) {
        if self.now != now {
            let at = Instant::now();
            self.before = self.so_far(at);
            (self.now, self.since) = (now, at);
        }
    }

    /// How long it has been what, until `at`.
    pub(crate) fn so_far(&self, at: Instant) -> Stalls {
        let mut so_far = self.before;
        if let Some(cause) = self.now {
            so_far.add(cause, at.saturating_duration_since(self.since));
        }
        so_far
    }

    /// What of the `time` between an earlier look and one that found `so_far` was what; the rest is
    /// [`Cause::Pending`]. Adds up to it.
    pub(crate) fn split(so_far: &Stalls, earlier: &Stalls, time: Duration) -> Stalls {
        let (mut split, mut left) = (Stalls::default(), time);
        for (cause, most) in so_far.since(earlier).iter() {
            let taken = left.min(most);
            split.add(cause, taken);
            left -= taken;
        }
        split.add(Cause::Pending, left);
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn last_part() -> LastPart {
        let times = WorkTimes {
            read_us: 50_000,
            fetch_us: 20_000,
            render_us: 80_000,
            decode_us: 60_000,
            rendering_us: 40_000,
            room_us: 3_000,
            deliver_us: 7_000,
            whole_us: 130_000,
            encoded_bytes: 0,
        };
        LastPart { given: ms(1_000), arrived: ms(1_135), tried: false, times }
    }

    fn split(last: &LastPart, waited: Duration) -> Vec<(&'static str, u128)> {
        let started = Instant::now().checked_sub(last.arrived).unwrap();
        let stalls = History::of(last, Duration::ZERO, started).split(waited);
        assert_eq!(stalls.total(), waited);
        stalls.iter().map(|(cause, time)| (cause.name(), time.as_millis())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_held_against_the_last_part_from_its_end_backwards() {
        tokio::time::advance(ms(10_000)).await;
        let part = last_part();
        assert_eq!(split(&part, ms(15)), [("deliver", 15)], "5 on the way, 7 sent, 3 without room");
        assert_eq!(split(&part, ms(35)), [("decode", 15), ("augment", 5), ("deliver", 15)]);
        let whole = [
            ("read", 30),
            ("fetch", 20),
            ("queue", 30),
            ("decode", 30),
            ("augment", 10),
            ("deliver", 15),
        ];
        assert_eq!(split(&part, ms(135)), whole);
        let longer = split(&part, ms(235));
        assert_eq!(longer[2], ("queue", 130), "before its lease it waited for room at a worker");
        let tried = split(&LastPart { tried: true, ..part }, ms(235));
        assert_eq!(tried.last(), Some(&("retry", 100)));
    }

    #[tokio::test(start_paused = true)]
    async fn copying_to_a_gpu_is_told_apart_from_handing_on() {
        tokio::time::advance(ms(10_000)).await;
        let part = last_part();
        let started = Instant::now().checked_sub(part.arrived + ms(20)).unwrap();
        let history = History::of(&part, ms(20), started);
        tokio::time::advance(ms(4)).await;
        let stalls = history.split(ms(30));
        assert_eq!((stalls.get(Cause::Device), stalls.get(Cause::Deliver)), (ms(20), ms(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn obstacles_are_counted_while_they_last() {
        let mut obstacles = Obstacles::new(Some(Cause::Nobody));
        tokio::time::advance(ms(300)).await;
        let seen = obstacles.so_far(Instant::now());
        tokio::time::advance(ms(100)).await;
        obstacles.set(None);
        tokio::time::advance(ms(50)).await;
        obstacles.set(Some(Cause::Held));
        tokio::time::advance(ms(25)).await;
        let now = obstacles.so_far(Instant::now());
        let split = Obstacles::split(&now, &seen, ms(175));
        let expected = [(Cause::Nobody, ms(100)), (Cause::Held, ms(25)), (Cause::Pending, ms(50))];
        assert_eq!(split.iter().collect::<Vec<_>>(), expected);
        assert_eq!(
            Obstacles::split(&now, &seen, ms(90)).total(),
            ms(90),
            "no more than was waited"
        );
    }
}
