//! How fast links are, between two processes of this host, beside what the host can do: a copy in
//! memory and a bare socket loop.
//!
//! The program starts itself again as the worker: `receiver` makes one line of text that the
//! other process gives to `worker`; orders and figures go over its standard input and output.
//! Each round takes every way in turn, so that a noisy machine is unfair to all alike.

mod orders;
mod raw;
mod receiver;
mod report;
mod worker;

use headwater_core::{Dtype, Layout, Recipe, Region};

use crate::tcp::{ConnectTls, ListenTls};

pub use receiver::receiver;
pub use report::{Figures, Report};
pub use worker::worker;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Samples of a batch of the `dinov2` recipe in bf16; 32 make 33 MB.
    pub batch_samples: u32,
    /// Samples of a part.
    pub part_samples: u32,
    /// Batches of one measurement.
    pub batches: u32,
    /// Measurements of each way; the report gives the median.
    pub rounds: u32,
    /// Slots of the receiver.
    pub slots: u32,
    /// Size of the tcp sockets' buffers; `None` leaves it to the kernel.
    pub socket_buffer_bytes: Option<usize>,
    /// Both ends of an encrypted tcp link; `None`: it is not measured.
    pub tls: Option<(ListenTls, ConnectTls)>,
}

/// One way of moving batches, or a yardstick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Copies a batch within one process.
    Memcpy,
    /// Writes and reads whole batches over a bare TCP socket, into a reused buffer.
    RawSocket,
    /// The tcp link; nothing is rendered.
    Tcp,
    /// The same, encrypted.
    TcpTls,
    /// The shm link; nothing is rendered: pure overhead.
    ShmEmpty,
    /// The shm link; each part is filled by memset in the slot.
    ShmFill,
    /// The same memset into memory of the worker alone, without a link.
    PrivateFill,
}

// === impl Plan ===

impl Default for Plan {
    fn default() -> Self {
        Self {
            batch_samples: 32,
            part_samples: 8,
            batches: 40,
            rounds: 7,
            slots: 4,
            socket_buffer_bytes: None,
            tls: None,
        }
    }
}

impl Plan {
    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        self.layout().len_bytes()
    }

    /// Regions of each part of a batch.
    #[must_use]
    pub fn parts(&self) -> Vec<Vec<Region>> {
        let layout = self.layout();
        (0..self.batch_samples)
            .step_by(self.part_samples as usize)
            .map(|first| {
                let count = self.part_samples.min(self.batch_samples - first);
                layout.part_regions(first, count)
            })
            .collect()
    }

    fn layout(&self) -> Layout {
        let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        Layout::new(&recipe, self.batch_samples)
    }
}

// === impl Way ===

impl Way {
    /// All, in the order of a round.
    pub const ALL: [Self; 7] = [
        Self::Memcpy,
        Self::RawSocket,
        Self::Tcp,
        Self::TcpTls,
        Self::ShmEmpty,
        Self::ShmFill,
        Self::PrivateFill,
    ];

    /// Name in reports and orders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::RawSocket => "raw-socket",
            Self::Tcp => "tcp",
            Self::TcpTls => "tcp-tls",
            Self::ShmEmpty => "shm-empty",
            Self::ShmFill => "shm-fill",
            Self::PrivateFill => "private-fill",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}
