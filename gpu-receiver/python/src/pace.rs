//! Where the next iteration begins, and which one is under way.
//!
//! The rules are PyTorch's: a new iteration is a new pass with an order of its own, unless a state was loaded since, and
//! it begins with its first batch. There is one at a time: a new one ends the one before, which some callers keep when
//! they are done with it (Lightning while it makes the next, a notebook in the traceback of an error).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_receiver::Position;

/// The iterations over one loader.
#[derive(Default)]
pub(crate) struct Pace {
    /// Where the next iteration begins, if that was said.
    next: Option<Start>,
    /// Where the last one has begun, until it has taken a batch.
    begun: Option<Start>,
    /// An epoch before that of a loaded state, which a framework has set: an iteration may not begin now.
    refused: Option<u32>,
    running: Arc<Running>,
    issued: u64,
}

/// Where an iteration begins.
#[derive(Clone, Copy)]
struct Start {
    place: Position,
    /// A state says so.
    is_resumed: bool,
}

/// One iteration, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The ticket of an iteration that may not have begun.
#[derive(Default)]
pub(crate) struct LateTicket(AtomicU64);

/// The number of the iteration under way; 0: none is. No lock: Python may drop an iteration anywhere.
#[derive(Default)]
pub(crate) struct Running(AtomicU64);

// === impl LateTicket ===

impl LateTicket {
    pub(crate) fn get(&self) -> Option<Ticket> {
        Some(self.0.load(Ordering::Acquire)).filter(|&issued| issued > 0).map(Ticket)
    }

    pub(crate) fn set(&self, Ticket(issued): Ticket) {
        self.0.store(issued, Ordering::Release);
    }
}

// === impl Running ===

impl Running {
    /// Ends an iteration, unless another one has begun since.
    pub(crate) fn end(&self, Ticket(ticket): Ticket) {
        let _ = self.0.compare_exchange(ticket, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

// === impl Pace ===

impl Pace {
    /// The iteration under way.
    pub(crate) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running)
    }

    pub(crate) fn runs(&self, ticket: Ticket) -> bool {
        self.running.0.load(Ordering::Acquire) == ticket.0
    }

    /// Where the next iteration begins, as far as that was said and nothing was taken since.
    fn pending(&self) -> Option<Start> {
        self.next.or(self.begun)
    }

    /// Position of the first batch of an iteration that begins now: the given one, or else the start of an epoch. That is
    /// the next one where the current one was left, or runs.
    pub(crate) fn start(&self, here: Position) -> Position {
        let begun = u32::from(here.step > 0);
        let next = Position { epoch: here.epoch.saturating_add(begun), step: 0 };
        self.pending().map_or(next, |start| start.place)
    }

    /// Whether a state or a call has set the position of the next iteration.
    pub(crate) fn was_moved(&self) -> bool {
        self.pending().is_some()
    }

    /// The epoch that a framework has set though a state of a later place was loaded, and that place.
    pub(crate) fn refused(&self) -> Option<(u32, Position)> {
        self.refused.zip(self.pending().map(|start| start.place))
    }

    /// Begins the iteration at the position that [`Pace::start`] gave.
    pub(crate) fn begin(&mut self, place: Position) -> Ticket {
        let is_resumed = self.pending().is_some_and(|start| start.is_resumed);
        (self.next, self.begun) = (None, Some(Start { place, is_resumed }));
        self.issued += 1;
        self.running.0.store(self.issued, Ordering::Release);
        Ticket(self.issued)
    }

    /// The iteration under way has taken a batch.
    pub(crate) fn on_batch(&mut self) {
        self.begun = None;
    }

    /// The stream was moved: the next iteration begins here, and none is running.
    pub(crate) fn moved_to(&mut self, place: Position) {
        self.go_to(Start { place, is_resumed: false });
        self.running.0.store(0, Ordering::Release);
    }

    /// As [`Pace::moved_to`], by a state.
    pub(crate) fn resumed_at(&mut self, place: Position) {
        self.moved_to(place);
        self.go_to(Start { place, is_resumed: true });
    }

    fn go_to(&mut self, start: Start) {
        (self.next, self.begun, self.refused) = (Some(start), None, None);
    }

    /// The next iteration is over this epoch: whole, or from the place in it that the stream was
    /// moved to and not iterated yet. Returns where to go at once, so that batches are made ahead.
    ///
    /// # Errors
    /// The place of a state that was loaded and lies behind it: that epoch would be trained on once more.
    pub(crate) fn set_epoch(&mut self, epoch: u32) -> Result<Option<Position>, Position> {
        match self.pending() {
            Some(Start { place, .. }) if place.epoch == epoch => {
                self.refused = None;
                return Ok(None);
            }
            Some(Start { place, is_resumed: true }) if epoch < place.epoch => return Err(place),
            _ => {}
        }
        let place = Position { epoch, step: 0 };
        (self.next, self.refused) = (Some(Start { place, is_resumed: false }), None);
        Ok(self.running.is_none().then_some(place))
    }

    /// The same for a framework, which may count an epoch that it takes no batch of: only an iteration is refused then.
    pub(crate) fn follow_epoch(&mut self, epoch: u32) -> Option<Position> {
        self.set_epoch(epoch).unwrap_or_else(|_| {
            self.refused = Some(epoch);
            None
        })
    }
}
