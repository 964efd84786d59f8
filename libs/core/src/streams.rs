//! Receivers of equal streams at one worker: how far each is, and from which step on the worker takes part.
//!
//! Plain state without a clock. Steps are those of the whole job, so that they grow from epoch to epoch.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::Digest;

/// What a worker knows of the receivers of each stream.
#[derive(Debug, Default)]
pub struct Streams {
    streams: HashMap<Digest, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    /// By session.
    members: BTreeMap<u64, Progress>,
    takes_from: Option<u64>,
    /// When the first step was heard.
    since: Option<Duration>,
}

/// How far a receiver is: the steps that it said first and last.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    steps: Option<(u64, u64)>,
    /// With how many workers it would hold sessions.
    width: u32,
}

/// What a receiver learns about its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamNews {
    /// The step of the slowest of the other receivers; `None` if there is no other.
    pub slowest: Option<u64>,
    /// The first step whose parts the worker takes. Receivers that were there before it had the steps
    /// before made elsewhere. `None` as long as it is not known.
    pub takes_from: Option<u64>,
    /// The largest number of workers with which a receiver of the stream would hold sessions.
    pub width: u32,
}

// === impl Streams ===

impl Streams {
    /// A session of a receiver begins.
    pub fn enter(&mut self, stream: Digest, session: u64) {
        self.streams.entry(stream).or_default().members.insert(session, Progress::default());
    }

    /// A session is over. A stream without any is forgotten.
    pub fn leave(&mut self, stream: Digest, session: u64) {
        let Some(of_stream) = self.streams.get_mut(&stream) else { return };
        of_stream.members.remove(&session);
        if of_stream.members.is_empty() {
            self.streams.remove(&stream);
        }
    }

    /// The sessions of a stream.
    pub fn sessions(&self, stream: Digest) -> impl Iterator<Item = u64> {
        let members = self.streams.get(&stream).map(|of_stream| of_stream.members.keys());
        members.into_iter().flatten().copied()
    }

    /// A receiver reports the step that it orders next, and with how many workers it would hold sessions. It does so
    /// with every `heartbeat`.
    pub fn heard(
        &mut self,
        stream: Digest,
        session: u64,
        (step, width): (u64, u32),
        heartbeat: Duration,
        now: Duration,
    ) -> StreamNews {
        let Some(of_stream) = self.streams.get_mut(&stream) else { return StreamNews::default() };
        let Some(progress) = of_stream.members.get_mut(&session) else {
            return StreamNews::default();
        };
        let first = progress.steps.map_or(step, |(first, _)| first);
        *progress = Progress { steps: Some((first, step)), width };
        let since = *of_stream.since.get_or_insert(now);
        if of_stream.takes_from.is_none() && now.saturating_sub(since) >= heartbeat * 2 {
            of_stream.takes_from = Some(of_stream.beyond_all());
        }
        let others = of_stream.members.iter().filter(|(other, _)| **other != session);
        let slowest = others.filter_map(|(_, progress)| Some(progress.steps?.1)).min();
        let width = of_stream.members.values().map(|progress| progress.width).max().unwrap_or(0);
        StreamNews { slowest, takes_from: of_stream.takes_from, width }
    }
}

// === impl Stream ===

impl Stream {
    /// A step that no receiver has ordered yet when all of them know it. It is ahead of the
    /// foremost receiver by twice the steps that receivers have made since the first report.
    fn beyond_all(&self) -> u64 {
        let steps = || self.members.values().filter_map(|progress| progress.steps);
        let front = steps().map(|(_, last)| last).max().unwrap_or(0);
        let advance = steps().map(|(first, last)| last.saturating_sub(first)).max().unwrap_or(0);
        front + 2 * advance + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_secs(1);
    const STREAM: Digest = Digest(1);

    fn at(beats: u32) -> Duration {
        BEAT * beats
    }

    #[test]
    fn each_receiver_hears_of_the_slowest_other_one_of_its_stream() {
        let mut streams = Streams::default();
        for session in [1, 2, 3] {
            streams.enter(STREAM, session);
        }
        streams.enter(Digest(2), 4);
        let mut slowest =
            |session, step| streams.heard(STREAM, session, (step, 0), BEAT, at(0)).slowest;
        assert_eq!(slowest(1, 10), None, "nobody else has said a word");
        assert_eq!(slowest(2, 4), Some(10));
        assert_eq!(slowest(3, 7), Some(4));
        assert_eq!(slowest(2, 5), Some(7));
        assert_eq!(streams.heard(Digest(2), 4, (99, 0), BEAT, at(0)).slowest, None);
        streams.leave(STREAM, 2);
        assert_eq!(streams.heard(STREAM, 1, (12, 0), BEAT, at(0)).slowest, Some(7));
        streams.leave(STREAM, 3);
        assert_eq!(streams.heard(STREAM, 1, (13, 0), BEAT, at(0)).slowest, None);
        assert_eq!(streams.sessions(STREAM).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_worker_takes_part_from_a_step_on_that_nobody_has_ordered() {
        let mut streams = Streams::default();
        streams.enter(STREAM, 1);
        streams.enter(STREAM, 2);
        let mut from = |session, step, beats| {
            streams.heard(STREAM, session, (step, 0), BEAT, at(beats)).takes_from
        };
        assert_eq!(from(1, 10, 5), None);
        assert_eq!(from(2, 300, 5), None);
        assert_eq!(from(1, 12, 6), None);
        assert_eq!(from(2, 303, 6), None);
        // The foremost was at 303 one beat ago. It makes 6 steps in two beats, and learns the
        // number within one.
        assert_eq!(from(1, 14, 7), Some(303 + 2 * 4 + 1));
        assert_eq!(from(2, 306, 7), Some(312), "the same for all");
        streams.leave(STREAM, 2);
        streams.enter(STREAM, 3);
        assert_eq!(
            streams.heard(STREAM, 3, (0, 0), BEAT, at(9)).takes_from,
            Some(312),
            "also later"
        );
        streams.leave(STREAM, 1);
        streams.leave(STREAM, 3);
        streams.enter(STREAM, 4);
        assert_eq!(streams.heard(STREAM, 4, (0, 0), BEAT, at(10)).takes_from, None);
    }

    #[test]
    fn receivers_of_a_stream_hear_of_the_widest_of_them() {
        let mut streams = Streams::default();
        [1, 2].into_iter().for_each(|session| streams.enter(STREAM, session));
        let mut width =
            |session, width| streams.heard(STREAM, session, (0, width), BEAT, at(0)).width;
        assert_eq!((width(1, 16), width(2, 32), width(1, 16)), (16, 32, 32));
        streams.leave(STREAM, 2);
        assert_eq!(streams.heard(STREAM, 1, (0, 16), BEAT, at(0)).width, 16);
    }
}
