//! The ways of moving batches that are measured, and the yardsticks beside them.

use headwater_transport::LinkKind;

/// One way of moving batches, or a yardstick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
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
    /// perftest's `ib_write_bw` over the same port, with one small buffer, as it is usually run.
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
    /// The same memset into the worker's own memory, without a link.
    PrivateFill,
}

/// A link that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Shm,
    Tcp,
    TcpTls,
    Rdma,
    Ucx,
}

// === impl Way ===

impl Way {
    /// All, in the order of a round.
    pub(crate) const ALL: [Self; 12] = [
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
    pub(crate) const fn name(self) -> &'static str {
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

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// The link that it goes over.
    pub(super) const fn route(self) -> Option<Route> {
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
    pub(super) const ALL: [Self; 5] = [Self::Shm, Self::Tcp, Self::TcpTls, Self::Rdma, Self::Ucx];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::TcpTls => "tcp-tls",
            Self::Rdma => "rdma",
            Self::Ucx => "ucx",
        }
    }

    pub(super) const fn kind(self) -> LinkKind {
        match self {
            Self::Shm => LinkKind::Shm,
            Self::Tcp | Self::TcpTls => LinkKind::Tcp,
            Self::Rdma => LinkKind::Rdma,
            Self::Ucx => LinkKind::Ucx,
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.name() == name)
    }
}
