//! Completions of work requests, awaited by event.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::abi::{CompChannel, Cq, WC_RECV, WC_RECV_RDMA_WITH_IMM, WC_SUCCESS, Wc};
use super::device::{Device, check, made};

/// Completions taken off the queue at a time.
pub(crate) const POLL_MAX: usize = 32;

/// A completion queue and the channel that tells of it.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(super) queue: NonNull<Cq>,
    channel: AsyncFd<Channel>,
}

/// Destroyed after its queue.
#[derive(Debug)]
struct Channel {
    channel: NonNull<CompChannel>,
    device: Arc<Device>,
}

/// How a work request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The number it was given.
    pub(crate) id: u64,
    pub(crate) outcome: Outcome,
}

/// What ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something was sent or written, and the peer's device has it.
    Sent,
    /// A message of `bytes` bytes is in the buffer.
    Received { bytes: u32 },
    /// A peer's writes are in their place; its number.
    Written { immediate: u32 },
    /// It failed, or was flushed; in the library's words.
    Failed { reason: String },
}

// SAFETY: the queue is a handle of a thread-safe library, not bound to a thread.
unsafe impl Send for Completions {}
// SAFETY: libibverbs locks the queue in every call made here.
unsafe impl Sync for Completions {}
// SAFETY: as for the queue.
unsafe impl Send for Channel {}
// SAFETY: as for the queue.
unsafe impl Sync for Channel {}

// === impl Completions ===

impl Completions {
    /// Room for `entries` completions.
    pub(crate) fn new(device: &Arc<Device>, entries: u32) -> io::Result<Self> {
        let library = &device.library;
        // SAFETY: the context is open, and the channel keeps it so.
        let channel = made(unsafe { (library.create_comp_channel)(device.context.as_ptr()) })?;
        let channel = Channel { channel, device: Arc::clone(device) };
        let flags = fcntl_getfl(&channel)? | OFlags::NONBLOCK;
        fcntl_setfl(&channel, flags)?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let (context, events) = (device.context.as_ptr(), channel.channel.as_ptr());
        let vector = device.next_vector();
        // SAFETY: context and channel are alive; the queue is destroyed before the channel.
        let queue = made(unsafe {
            (library.create_cq)(context, entries, ptr::null_mut(), events, vector)
        })?;
        // SAFETY: the descriptor is the channel's, which the AsyncFd owns and closes by dropping
        // it; it names the same file all that time.
        let channel = match unsafe { AsyncFd::register_with_interest(channel, Interest::READABLE) }
        {
            Ok(channel) => channel,
            Err(error) => {
                // SAFETY: made above, and nobody else has it.
                unsafe { (library.destroy_cq)(queue.as_ptr()) };
                return Err(error.into());
            }
        };
        Ok(Self { queue, channel })
    }

    /// Asks for an event at the next completion. What completed before must be polled for.
    pub(crate) fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue and its context are alive.
        unsafe {
            let notify = (*self.queue.as_ref().context).ops.req_notify_cq;
            check(notify.ok_or(io::ErrorKind::Unsupported)?(self.queue.as_ptr(), 0))
        }
    }

    /// Takes at most [`POLL_MAX`] completions off the queue.
    pub(crate) fn poll(&self) -> io::Result<Vec<Completion>> {
        let mut taken = [Wc::default(); POLL_MAX];
        // SAFETY: the queue and its context are alive, and `taken` has POLL_MAX entries.
        let count = unsafe {
            let poll = (*self.queue.as_ref().context).ops.poll_cq;
            let poll = poll.ok_or(io::ErrorKind::Unsupported)?;
            poll(self.queue.as_ptr(), POLL_MAX as i32, taken.as_mut_ptr())
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok(taken[..count].iter().map(|wc| self.read(wc)).collect())
    }

    /// Waits for an event. Cancel-safe.
    pub(crate) async fn event(&self) -> io::Result<()> {
        self.channel.async_io(Interest::READABLE, Channel::take_event).await
    }

    fn read(&self, wc: &Wc) -> Completion {
        let outcome = match wc.opcode {
            _ if wc.status != WC_SUCCESS => {
                Outcome::Failed { reason: self.device().library.status(wc.status) }
            }
            WC_RECV => Outcome::Received { bytes: wc.byte_len },
            WC_RECV_RDMA_WITH_IMM => Outcome::Written { immediate: u32::from_be(wc.imm_data) },
            _ => Outcome::Sent,
        };
        Completion { id: wc.wr_id, outcome }
    }

    fn device(&self) -> &Device {
        &self.channel.get_ref().device
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold this value, so none uses the queue; every event taken was
        // acknowledged at once, so this does not wait.
        unsafe { (self.device().library.destroy_cq)(self.queue.as_ptr()) };
    }
}

// === impl Channel ===

impl Channel {
    fn take_event(&self) -> io::Result<()> {
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        let library = &self.device.library;
        // SAFETY: the channel is alive; the event's queue is alive, because only that queue uses
        // this channel and it is destroyed first.
        unsafe {
            check((library.get_cq_event)(self.channel.as_ptr(), &raw mut queue, &raw mut context))?;
            (library.ack_cq_events)(queue, 1);
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open until the channel is destroyed, which takes `&mut self`.
        unsafe { BorrowedFd::borrow_raw(self.channel.as_ref().fd) }
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its queue was destroyed before (or never made).
        unsafe { (self.device.library.destroy_comp_channel)(self.channel.as_ptr()) };
    }
}
