//! How fast links are, between two processes of this host, beside what the host can do: a copy in
//! memory, a bare socket loop, and the programs by which networks are measured (`ib_write_bw`,
//! `ucx_perftest`) where they are installed.
//!
//! The program starts itself again as the worker: `receiver` makes one line of text that the
//! other process gives to `worker`; orders and figures go over its standard input and output.
//! Each round takes every way in turn, so that a noisy machine is unfair to all alike.

mod ends;
mod orders;
mod raw;
mod receiver;
mod report;
mod talk;
mod tools;
mod worker;

use headwater_core::{Dtype, Layout, Recipe, Region};

use crate::contract::LinkKind;
use crate::rdma::RdmaPort;
use crate::tcp::{ConnectTls, ListenTls};

pub use receiver::receiver;
pub use report::{Figures, Report};
pub use worker::worker;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Links to measure, each with its yardsticks; a link that this machine cannot have is left out.
    pub links: Vec<LinkKind>,
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
    /// The receiver's end of an encrypted tcp link; `None`: it is not measured.
    pub tls: Option<ListenTls>,
    /// The receiver's RDMA port.
    pub rdma_port: RdmaPort,
}

/// What the worker's process has of its own.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// Its end of an encrypted tcp link.
    pub tls: Option<ConnectTls>,
    /// Its RDMA port.
    pub rdma_port: RdmaPort,
    /// Queue pairs of the rdma link; as many has `ib_write_bw`.
    pub rdma_queue_pairs: u32,
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
    /// The rdma link; nothing is rendered.
    Rdma,
    /// perftest's `ib_write_bw`, over the same port, as it is mostly run: out of one small buffer.
    IbWrite,
    /// The same with the link's messages, out of and into as much memory as the link uses.
    IbWriteAsLink,
    /// The ucx link over whatever UCX finds; nothing is rendered.
    Ucx,
    /// UCX's own `ucx_perftest`, puts, under the same environment.
    UcxPut,
    /// The shm link; nothing is rendered: pure overhead.
    ShmEmpty,
    /// The shm link; each part is filled by memset in the slot.
    ShmFill,
    /// The same memset into memory of the worker alone, without a link.
    PrivateFill,
}

/// A link that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Shm,
    Tcp,
    TcpTls,
    Rdma,
    Ucx,
}

// === impl Plan ===

impl Default for Plan {
    fn default() -> Self {
        Self {
            links: LinkKind::ALL.to_vec(),
            batch_samples: 32,
            part_samples: 8,
            batches: 40,
            rounds: 7,
            slots: 4,
            socket_buffer_bytes: None,
            tls: None,
            rdma_port: RdmaPort::default(),
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
    pub const ALL: [Self; 12] = [
        Self::Memcpy,
        Self::RawSocket,
        Self::Tcp,
        Self::TcpTls,
        Self::Rdma,
        Self::IbWrite,
        Self::IbWriteAsLink,
        Self::Ucx,
        Self::UcxPut,
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
            Self::Rdma => "rdma",
            Self::IbWrite => "ib_write_bw",
            Self::IbWriteAsLink => "ib_write_bw-as-link",
            Self::Ucx => "ucx",
            Self::UcxPut => "ucx_perftest",
            Self::ShmEmpty => "shm-empty",
            Self::ShmFill => "shm-fill",
            Self::PrivateFill => "private-fill",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// The link that it goes over.
    const fn route(self) -> Option<Route> {
        match self {
            Self::Tcp => Some(Route::Tcp),
            Self::TcpTls => Some(Route::TcpTls),
            Self::Rdma => Some(Route::Rdma),
            Self::Ucx => Some(Route::Ucx),
            Self::ShmEmpty | Self::ShmFill => Some(Route::Shm),
            Self::Memcpy
            | Self::RawSocket
            | Self::PrivateFill
            | Self::IbWrite
            | Self::IbWriteAsLink
            | Self::UcxPut => None,
        }
    }
}

// === impl Route ===

impl Route {
    const ALL: [Self; 5] = [Self::Shm, Self::Tcp, Self::TcpTls, Self::Rdma, Self::Ucx];

    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::TcpTls => "tcp-tls",
            Self::Rdma => "rdma",
            Self::Ucx => "ucx",
        }
    }

    const fn kind(self) -> LinkKind {
        match self {
            Self::Shm => LinkKind::Shm,
            Self::Tcp | Self::TcpTls => LinkKind::Tcp,
            Self::Rdma => LinkKind::Rdma,
            Self::Ucx => LinkKind::Ucx,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.name() == name)
    }
}
