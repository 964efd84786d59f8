//! What is recorded of a span.

use std::sync::Arc;
use std::time::Instant;

use crate::Context;

/// The tier whose work a span is: its category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Reading of samples, at storage nodes and by their clients.
    Storage,
    /// A worker's making of parts.
    Augment,
    /// A training rank's side.
    Receiver,
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct Event {
    /// What was done; short, for people.
    pub name: &'static str,
    /// Whose work.
    pub tier: Tier,
    /// Number of the lane it is drawn on, see [`crate::Lane`].
    pub lane: u32,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// The span itself.
    pub context: Context,
    /// The span that it is part of.
    pub parent: Option<Context>,
    /// It is done for one lease, which its context names.
    pub is_of_lease: bool,
    /// The leases whose flows pass through it.
    pub flows: Vec<Context>,
    /// Where in those flows it stands.
    pub step: FlowStep,
    /// What else there is to know; units are in the names.
    pub args: Vec<(&'static str, Arg)>,
}

/// Where a span stands in the flow of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStep {
    /// The flow begins here.
    First,
    /// It passes through.
    Between,
    /// It ends here.
    Last,
}

/// A value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Text that is known when the program is built.
    Word(&'static str),
    /// Any text.
    Text(Arc<str>),
}

// === impl Tier ===

impl Tier {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Augment => "augment",
            Self::Receiver => "receiver",
        }
    }
}

// === impl Arg ===

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Arg {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Arg {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<bool> for Arg {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&'static str> for Arg {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Arc<str>> for Arg {
    fn from(text: Arc<str>) -> Self {
        Self::Text(text)
    }
}
