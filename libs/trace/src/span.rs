//! A piece of work while it is done.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Context;
use crate::event::{Arg, Event, FlowStep, Tier};
use crate::lanes::{self, Lane};
use crate::recorder::{self, is_on};

/// A piece of work, from its making to its drop. Where nothing is recorded it is empty, and everything
/// done to it is nothing.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    event: Event,
    lane: Option<Lane>,
    /// On a thread's lane: the span that the thread was in before.
    outer: Option<Within>,
    forgotten: bool,
}

/// What the spans of a thread are part of.
#[derive(Clone, Copy, Debug)]
struct Within {
    context: Context,
    is_of_lease: bool,
}

thread_local! {
    static WITHIN: Cell<Option<Within>> = const { Cell::new(None) };
}

// === impl Span ===

impl Span {
    /// Work of the calling thread, which must end it too, after what it begins meanwhile: that is part of it.
    pub fn on_thread(tier: Tier, name: &'static str) -> Self {
        if !is_on() { Self::none() } else { Self::begin(tier, name, None) }
    }

    /// Work that may go from thread to thread, on the first free lane of a kind.
    pub fn on_lane(tier: Tier, name: &'static str, kind: &'static str) -> Self {
        if !is_on() { Self::none() } else { Self::begin(tier, name, Some(Lane::take(kind))) }
    }

    /// Work that is part of this one, on the same lane; empty where this one is. The two share the lease.
    pub fn child(&self, name: &'static str) -> Self {
        let Some(open) = &self.open else { return Self::none() };
        let Event { tier, context, is_of_lease, .. } = open.event;
        let mut child = Self::begin(tier, name, open.lane.clone());
        if let Some(of_child) = &mut child.open {
            of_child.event.context = context.with_span(of_child.event.context.span());
            of_child.event.parent = Some(context);
            of_child.event.is_of_lease = is_of_lease;
        }
        child
    }

    /// No work.
    pub const fn none() -> Self {
        Self { open: None }
    }

    fn begin(tier: Tier, name: &'static str, lane: Option<Lane>) -> Self {
        let now = Instant::now();
        let event = Event {
            name,
            tier,
            lane: lane.as_ref().map_or_else(lanes::of_this_thread, Lane::id),
            start: now,
            end: now,
            context: Context::alone(next_span()),
            parent: None,
            is_of_lease: false,
            flows: Vec::new(),
            step: FlowStep::Between,
            args: Vec::new(),
        };
        let mut open = Open { event, lane, outer: None, forgotten: false };
        if open.lane.is_none() {
            open.outer = WITHIN.get();
            if let Some(outer) = open.outer {
                open.event.context = outer.context.with_span(open.event.context.span());
                open.event.parent = Some(outer.context);
                open.event.is_of_lease = outer.is_of_lease;
            }
            open.enter();
        }
        Self { open: Some(Box::new(open)) }
    }

    /// Makes it a part of a lease's span; the lease's flow passes through it.
    pub fn within(mut self, parent: Option<Context>) -> Self {
        if let (Some(open), Some(parent)) = (&mut self.open, parent) {
            open.event.context = parent.with_span(open.event.context.span());
            open.event.parent = Some(parent);
            open.event.is_of_lease = true;
            open.event.flows = vec![parent];
            open.enter();
        }
        self
    }

    /// Makes it the span that `lease` names, which other tiers know too; `step` is its place in the flow.
    pub fn of(mut self, lease: Context, parent: Option<Context>, step: FlowStep) -> Self {
        if let Some(open) = &mut self.open {
            open.event.context = lease;
            open.event.parent = parent;
            open.event.is_of_lease = true;
            open.event.flows = vec![lease];
            open.event.step = step;
            open.enter();
        }
        self
    }

    /// The flows of these leases end here.
    pub fn end_of(&mut self, leases: impl IntoIterator<Item = Context>) {
        if let Some(open) = &mut self.open {
            open.event.flows.extend(leases);
            open.event.step = FlowStep::Last;
        }
    }

    /// Adds what else there is to know. The unit belongs in the name.
    pub fn arg(&mut self, name: &'static str, value: impl Into<Arg>) {
        if let Some(open) = &mut self.open {
            open.event.args.push((name, value.into()));
        }
    }

    /// As [`Span::arg`] for what has to be computed, which is done only where it is recorded.
    pub fn arg_with<T: Into<Arg>>(&mut self, name: &'static str, value: impl FnOnce() -> T) {
        if self.open.is_some() {
            self.arg(name, value());
        }
    }

    /// As [`Span::arg`], in a row.
    pub fn with(mut self, name: &'static str, value: impl Into<Arg>) -> Self {
        self.arg(name, value);
        self
    }

    /// Lets it begin earlier than it was made.
    pub fn since(mut self, start: Instant) -> Self {
        if let Some(open) = &mut self.open {
            open.event.start = start.min(open.event.start);
        }
        self
    }

    /// What others may be part of; `None` where nothing is recorded.
    #[must_use]
    pub fn context(&self) -> Option<Context> {
        self.open.as_ref().map(|open| open.event.context)
    }

    /// When it began; `None` where nothing is recorded.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.event.start)
    }

    /// Forgets it: nothing was done.
    pub fn forget(mut self) {
        if let Some(open) = &mut self.open {
            open.forgotten = true;
        }
    }

    /// Ends it now.
    pub fn end(self) {}
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Open { mut event, lane, outer, forgotten } = *open;
        if lane.is_none() {
            WITHIN.set(outer);
        }
        if !forgotten {
            event.end = Instant::now();
            recorder::record(event);
        }
        // After its end: whoever has the lane next begins later.
        drop(lane);
    }
}

// === impl Open ===

impl Open {
    /// Spans that the thread begins from now on are part of this one.
    fn enter(&self) {
        if self.lane.is_none() {
            let Event { context, is_of_lease, .. } = self.event;
            WITHIN.set(Some(Within { context, is_of_lease }));
        }
    }
}

/// A number that no other span has, of this process or another.
fn next_span() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    static FIRST: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Random by the system's own keys for hash tables.
    let first = *FIRST.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let number = first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
    xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes()).max(1)
}
