//! Signs of life, and what receivers of a stream hear of each other by them.

use headwater_core::streams::StreamNews;

use crate::v1;

/// A receiver's sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Number of the sign.
    pub sequence: u64,
    /// The step that the receiver orders next, counted over epochs.
    pub step: u64,
    /// Sessions that it holds, this one included; `None`: it does not say.
    pub sessions_held: Option<u32>,
    /// With how many workers it would hold sessions; 0: it does not say.
    pub width: u32,
}

/// A worker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// Number of the sign that is answered.
    pub sequence: u64,
    /// What the worker knows of the receiver's stream.
    pub news: StreamNews,
}

impl From<v1::Heartbeat> for Heartbeat {
    fn from(v1::Heartbeat { sequence, step, sessions_held, width }: v1::Heartbeat) -> Self {
        Self { sequence, step, sessions_held, width }
    }
}

impl From<Heartbeat> for v1::Heartbeat {
    fn from(Heartbeat { sequence, step, sessions_held, width }: Heartbeat) -> Self {
        Self { sequence, step, sessions_held, width }
    }
}

impl From<v1::HeartbeatAnswer> for HeartbeatAnswer {
    fn from(answer: v1::HeartbeatAnswer) -> Self {
        let v1::HeartbeatAnswer { sequence, slowest, takes_from, width } = answer;
        Self { sequence, news: StreamNews { slowest, takes_from, width } }
    }
}

impl From<HeartbeatAnswer> for v1::HeartbeatAnswer {
    fn from(HeartbeatAnswer { sequence, news }: HeartbeatAnswer) -> Self {
        let StreamNews { slowest, takes_from, width } = news;
        Self { sequence, slowest, takes_from, width }
    }
}
