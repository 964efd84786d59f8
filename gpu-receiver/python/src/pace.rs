//! Where the next iteration begins, and whether one is under way.
//!
//! The rules are PyTorch's: a new iteration is a new pass, unless a state was loaded since.

use headwater_receiver::Position;

/// The iterations over one loader, of which there is one at a time.
#[derive(Default)]
pub(crate) struct Pace {
    /// Where the next iteration begins, if that was said.
    next: Option<Position>,
    /// The iteration under way.
    running: Option<Ticket>,
    issued: u64,
}

/// One iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

// === impl Pace ===

impl Pace {
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn runs(&self, ticket: Ticket) -> bool {
        self.running == Some(ticket)
    }

    /// Where an iteration that begins now has its first batch: where it was told to, else at the
    /// start of the epoch that the stream stands in, or of the next one if it stands at the end.
    pub(crate) fn start(&self, here: Position, steps: u64) -> Position {
        self.next.unwrap_or(match here.step < steps {
            true => Position { epoch: here.epoch, step: 0 },
            false => Position { epoch: here.epoch + 1, step: 0 },
        })
    }

    /// Begins the iteration that [`Pace::start`] gave the place of.
    pub(crate) fn begin(&mut self) -> Ticket {
        self.next = None;
        self.issued += 1;
        let ticket = Ticket(self.issued);
        self.running = Some(ticket);
        ticket
    }

    /// Ends an iteration, unless another one has begun since.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        if self.runs(ticket) {
            self.running = None;
        }
    }

    /// Ends whatever iteration is under way.
    pub(crate) fn abandon(&mut self) {
        self.running = None;
    }

    /// The next iteration begins at this place.
    pub(crate) fn resume_at(&mut self, place: Position) {
        self.next = Some(place);
    }

    /// The next iteration is over this epoch: whole, or from the place in it that was resumed
    /// and not iterated yet. Returns where to go at once, so that batches are made ahead.
    pub(crate) fn set_epoch(&mut self, epoch: u32) -> Option<Position> {
        if self.next.is_some_and(|next| next.epoch == epoch) {
            return None;
        }
        let start = Position { epoch, step: 0 };
        self.next = Some(start);
        (!self.is_running()).then_some(start)
    }
}
