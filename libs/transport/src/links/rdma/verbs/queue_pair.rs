//! Reliable connected queue pairs.
//!
//! Refuses to know what is written, and who may: addresses come from whoever posts, and the memory
//! behind them is kept by whoever posts until the request has completed or the pair is destroyed.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::{self, AhAttr, AlignedGid, GlobalRoute, Qp, QpAttr, QpCap, QpInitAttr};
use super::completion::Completions;
use super::device::{check, made};
use super::memory::ProtectionDomain;
use crate::links::rdma::wire::{Path, QueuePairAddress};

/// 4.096 us * 2^18 = 1.07 s until a packet is sent again.
const ACK_TIMEOUT: u8 = 18;
/// Times a packet is sent again before the pair fails: 8.6 s and more, which outlasts a bond that
/// changes its port (LACP takes 3 s with short timers). Liveness is the control stream's.
const RETRIES: u8 = 7;
/// Without end: a receiver that is slow to post is not gone. Liveness is the control stream's.
const RETRIES_NOT_READY: u8 = 7;
/// 0.64 ms until a message that met no buffer is sent again.
const NOT_READY_TIMER: u8 = 12;
/// Routers a packet may pass.
const HOPS: u8 = 64;

/// One queue pair. Destroyed when dropped, or by [`QueuePair::destroy`]: then the device touches nothing
/// on its behalf.
#[derive(Debug)]
pub(crate) struct QueuePair {
    qp: NonNull<Qp>,
    destroyed: bool,
    domain: Arc<ProtectionDomain>,
    _completions: Arc<Completions>,
}

/// A piece of registered memory of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) len_bytes: u32,
    pub(crate) local_key: u32,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    /// A message into the peer's next buffer.
    Message,
    /// A write to the peer's memory; with a number the peer hears of it.
    Write { address: u64, remote_key: u32, immediate: Option<u32> },
}

/// One request of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting {
    /// What its completion is to carry.
    pub(crate) id: u64,
    pub(crate) request: Request,
    pub(crate) piece: Piece,
    /// Its end is reported, and with it that of all before it.
    pub(crate) signalled: bool,
}

// SAFETY: the pair is a handle of a thread-safe library, not bound to a thread.
unsafe impl Send for QueuePair {}
// SAFETY: libibverbs locks the pair in every call made here.
unsafe impl Sync for QueuePair {}

// === impl QueuePair ===

impl QueuePair {
    /// A new pair that can neither send nor receive yet.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<Completions>,
        sends: u32,
        receives: u32,
    ) -> io::Result<Self> {
        let queue = completions.queue.as_ptr();
        let mut attr = QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: queue,
            recv_cq: queue,
            srq: ptr::null_mut(),
            cap: QpCap {
                max_send_wr: sends,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: abi::QPT_RC,
            sq_sig_all: 0,
        };
        let create = domain.device.library.create_qp;
        // SAFETY: domain and queue are alive and kept by this value until the pair is destroyed.
        let qp = made(unsafe { create(domain.pd.as_ptr(), &raw mut attr) })?;
        let (domain, _completions) = (Arc::clone(domain), Arc::clone(completions));
        Ok(Self { qp, destroyed: false, domain, _completions })
    }

    /// Number that the peer addresses.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the pair lives until this value is dropped.
        unsafe { self.qp.as_ref() }.qp_num
    }

    /// From here on buffers can be posted. `pkey`: index of its partition; `writable`: a peer may write.
    pub(crate) fn initialise(&self, port: u8, pkey: u16, writable: bool) -> io::Result<()> {
        let access = if writable { abi::ACCESS_REMOTE_WRITE } else { 0 };
        let attr = QpAttr {
            qp_state: abi::QPS_INIT,
            port_num: port,
            pkey_index: pkey,
            qp_access_flags: (access | abi::ACCESS_LOCAL_WRITE).cast_unsigned(),
            ..QpAttr::default()
        };
        let mask = abi::QP_STATE | abi::QP_PKEY_INDEX | abi::QP_PORT | abi::QP_ACCESS_FLAGS;
        self.modify(attr, mask)
    }

    /// Connects to the peer's pair: ready to receive and to send.
    pub(crate) fn connect(
        &self,
        own: &Path,
        own_packet: u32,
        peer: &Path,
        pair: QueuePairAddress,
    ) -> io::Result<()> {
        let route = GlobalRoute {
            dgid: AlignedGid(peer.gid),
            sgid_index: own.gid_index,
            hop_limit: HOPS,
            traffic_class: own.traffic_class,
            ..GlobalRoute::default()
        };
        let ah_attr = AhAttr {
            grh: route,
            dlid: peer.lid,
            sl: own.service_level,
            is_global: u8::from(own.has_global_route(peer)),
            port_num: own.port,
            ..AhAttr::default()
        };
        let ready_to_receive = QpAttr {
            qp_state: abi::QPS_RTR,
            path_mtu: own.mtu.min(peer.mtu).into(),
            dest_qp_num: pair.number,
            rq_psn: pair.first_packet,
            max_dest_rd_atomic: 1,
            min_rnr_timer: NOT_READY_TIMER,
            ah_attr,
            ..QpAttr::default()
        };
        let mask = abi::QP_STATE
            | abi::QP_AV
            | abi::QP_PATH_MTU
            | abi::QP_DEST_QPN
            | abi::QP_RQ_PSN
            | abi::QP_MAX_DEST_RD_ATOMIC
            | abi::QP_MIN_RNR_TIMER;
        self.modify(ready_to_receive, mask)?;
        let ready_to_send = QpAttr {
            qp_state: abi::QPS_RTS,
            timeout: ACK_TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_NOT_READY,
            sq_psn: own_packet,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let mask = abi::QP_STATE
            | abi::QP_TIMEOUT
            | abi::QP_RETRY_CNT
            | abi::QP_RNR_RETRY
            | abi::QP_SQ_PSN
            | abi::QP_MAX_QP_RD_ATOMIC;
        self.modify(ready_to_send, mask)
    }

    /// Stops the pair: everything posted completes as flushed, and nothing of the peer's gets in.
    pub(crate) fn fail(&self) -> io::Result<()> {
        self.modify(QpAttr { qp_state: abi::QPS_ERR, ..QpAttr::default() }, abi::QP_STATE)
    }

    /// Destroys the pair.
    ///
    /// # Errors
    /// The device may still act on the pair's behalf: nothing that it reaches may go.
    pub(crate) fn destroy(&mut self) -> io::Result<()> {
        // SAFETY: made once, and destroyed once: afterwards this value does not use it any more.
        check(unsafe { (self.domain.device.library.destroy_qp)(self.qp.as_ptr()) })?;
        self.destroyed = true;
        Ok(())
    }

    /// Gives the device a buffer for a message.
    ///
    /// # Safety
    /// The piece is registered memory that stays so, and that nobody else uses, until the request
    /// has completed or the pair is destroyed.
    pub(crate) unsafe fn post_receive(&self, id: u64, piece: Piece) -> io::Result<()> {
        let mut list = piece.entry();
        let mut request =
            abi::RecvWr { wr_id: id, next: ptr::null_mut(), sg_list: &raw mut list, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the pair and its context are alive; the request is copied by the call. The
        // caller vouches for the memory.
        check(unsafe {
            let post = (*self.qp.as_ref().context).ops.post_recv;
            post.ok_or(io::ErrorKind::Unsupported)?(
                self.qp.as_ptr(),
                &raw mut request,
                &raw mut bad,
            )
        })
    }

    /// Hands the device a list of things to send, and rings for it once. The number of those that
    /// it took, from the first on; all of them where there is no error.
    ///
    /// # Safety
    /// Each piece is registered memory that stays so, and that nobody writes, until its request
    /// or a later one has completed, or the pair is destroyed.
    pub(crate) unsafe fn post_sends(&self, list: &[Posting]) -> (usize, io::Result<()>) {
        let mut pieces: Vec<abi::Sge> = list.iter().map(|posting| posting.piece.entry()).collect();
        let mut requests: Vec<abi::SendWr> = list
            .iter()
            .zip(&mut pieces)
            .map(|(posting, piece)| posting.entry(&raw mut *piece))
            .collect();
        // SAFETY: the pair and its context are alive.
        let Some(post) = (unsafe { (*self.qp.as_ref().context).ops.post_send }) else {
            return (0, Err(io::ErrorKind::Unsupported.into()));
        };
        if requests.is_empty() {
            return (0, Ok(()));
        }
        let (first, mut bad) = (requests.as_mut_ptr(), ptr::null_mut());
        // SAFETY: every `i` and the one before it are requests of the list, which is not empty; it
        // and its pieces live until after the call, which copies them. The pair is alive, and the
        // caller vouches for the memory.
        let outcome = check(unsafe {
            for i in 1..list.len() {
                (*first.add(i - 1)).next = first.add(i);
            }
            post(self.qp.as_ptr(), first, &raw mut bad)
        });
        let taken = match &outcome {
            Ok(()) => list.len(),
            Err(_) => (0..list.len()).find(|&i| first.wrapping_add(i) == bad).unwrap_or(0),
        };
        (taken, outcome)
    }

    fn modify(&self, mut attr: QpAttr, mask: i32) -> io::Result<()> {
        // SAFETY: the pair is alive, and `attr` is the structure that the function reads.
        check(unsafe {
            (self.domain.device.library.modify_qp)(self.qp.as_ptr(), &raw mut attr, mask)
        })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.destroyed
            && let Err(error) = self.destroy()
        {
            tracing::error!(%error, "a queue pair cannot be destroyed");
        }
    }
}

// === impl Piece ===

impl Piece {
    fn entry(self) -> abi::Sge {
        abi::Sge { addr: self.address, length: self.len_bytes, lkey: self.local_key }
    }
}

// === impl Posting ===

impl Posting {
    fn entry(&self, piece: *mut abi::Sge) -> abi::SendWr {
        let (opcode, remote_addr, rkey, immediate) = match self.request {
            Request::Message => (abi::WR_SEND, 0, 0, 0),
            Request::Write { address, remote_key, immediate: None } => {
                (abi::WR_RDMA_WRITE, address, remote_key, 0)
            }
            Request::Write { address, remote_key, immediate: Some(number) } => {
                (abi::WR_RDMA_WRITE_WITH_IMM, address, remote_key, number)
            }
        };
        abi::SendWr {
            wr_id: self.id,
            next: ptr::null_mut(),
            sg_list: piece,
            num_sge: i32::from(self.piece.len_bytes > 0),
            opcode,
            send_flags: if self.signalled { abi::SEND_SIGNALED } else { 0 },
            imm_data: immediate.to_be(),
            remote_addr,
            rkey,
            room: [0; 9],
        }
    }
}
