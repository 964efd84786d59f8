//! A packet socket that can be sent to without waiting, from any thread.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::hello::MAX_PACKET_BYTES;
use crate::link::messages::NOT_TAKEN;
use crate::link::terms::LinkKind;
use crate::metrics;
use crate::packets::{Packet, PacketSocket, is_gone};

/// What has a descriptor that goes with a packet.
pub(crate) trait Attached: std::fmt::Debug + Send + Sync {
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// Keeps the order of posts: what the socket does not take at once waits in a queue, which holds
/// no more than the leases and slots that the receiver has open.
#[derive(Debug)]
pub(crate) struct Channel {
    queue: Mutex<Queue>,
    /// Packets that may wait; one more ends the connection.
    waiting_max: usize,
    changed: Notify,
    socket: PacketSocket,
    made_in: u32,
}

/// What waits, and the gauge that says how much.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Outgoing>,
    gauge: metrics::Share,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    attached: Option<Arc<dyn Attached>>,
}

// === impl Queue ===

impl Queue {
    fn change<T>(&mut self, change: impl FnOnce(&mut VecDeque<Outgoing>) -> T) -> T {
        let changed = change(&mut self.waiting);
        self.gauge.note(self.waiting.len());
        changed
    }
}

/// The bytes of a packet, and what goes with them.
type Queued = (Vec<u8>, Option<Arc<dyn Attached>>);

// === impl Channel ===

impl Channel {
    /// `waiting_max` bounds what waits for the other end to read.
    pub(crate) fn new(kind: LinkKind, socket: PacketSocket, waiting_max: usize) -> Self {
        let gauge = metrics::messages_waiting(kind);
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), gauge });
        let made_in = std::process::id();
        Self { queue, waiting_max, changed: Notify::new(), socket, made_in }
    }

    /// Sends now if that is possible and says so; otherwise it is sent from within
    /// [`Self::receive`]. A dead socket swallows it: its end is seen by the receiving side.
    pub(crate) fn post(&self, bytes: Vec<u8>, attached: Option<Arc<dyn Attached>>) -> bool {
        let mut queue = self.lock();
        if queue.waiting.is_empty() {
            let fd = attached.as_ref().and_then(|attached| attached.descriptor());
            match self.socket.send_now(&bytes, fd) {
                Ok(()) => return true,
                Err(error) if is_gone(&error) => return false,
                Err(_) => {}
            }
        }
        queue.change(|waiting| waiting.push_back(Outgoing { bytes, attached }));
        drop(queue);
        self.changed.notify_waiters();
        false
    }

    /// Resolves when nothing is queued.
    pub(crate) async fn flushed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().waiting.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// The next packet, `None` at the end; sends what is queued meanwhile.
    pub(crate) async fn receive(&self) -> io::Result<Option<Packet>> {
        tokio::select! {
            packet = self.socket.receive(MAX_PACKET_BYTES) => packet,
            error = self.send_queued() => Err(error),
        }
    }

    /// The other end reads what was sent and then the end of the stream.
    pub(crate) fn end_sending(&self) {
        let mut queue = self.lock();
        queue.change(VecDeque::clear);
        self.socket.end_sending();
        drop(queue);
        self.changed.notify_waiters();
    }

    /// Lets go of what is queued, and of whoever waits for it to be sent.
    pub(crate) fn discard_queued(&self) {
        self.lock().change(VecDeque::clear);
        self.changed.notify_waiters();
    }

    /// Ends only when too much waits, or the system does not take a packet.
    async fn send_queued(&self) -> io::Error {
        loop {
            let changed = self.changed.notified();
            if self.lock().waiting.len() > self.waiting_max {
                return io::Error::other(NOT_TAKEN);
            }
            let next = self.front();
            let Some((bytes, attached)) = next else {
                changed.await;
                continue;
            };
            let fd = attached.as_ref().and_then(|attached| attached.descriptor());
            tokio::select! {
                sent = self.socket.send(&bytes, fd) => match sent {
                    Err(error) if !is_gone(&error) => return error,
                    _ => {}
                },
                // Perhaps more than may wait.
                () = changed => continue,
            }
            // No await since the packet left: a cancelled future cannot send it twice.
            self.lock().change(VecDeque::pop_front);
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn front(&self) -> Option<Queued> {
        let queue = self.lock();
        queue.waiting.front().map(|next| (next.bytes.clone(), next.attached.clone()))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // A process that was forked meanwhile has the descriptor too, so closing would not do. It has
        // none of the threads that use the slots. What it drops itself is its parent's.
        if self.made_in == std::process::id() {
            self.socket.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> [PacketSocket; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        <[_; 2]>::from(pair).map(|fd| PacketSocket::from_fd(fd).unwrap())
    }

    /// A packet that is longer than the buffer stands for one for which there is no memory.
    #[tokio::test]
    async fn what_the_system_does_not_take_is_sent_later_and_in_order() {
        let [one, other] = pair();
        set_socket_send_buffer_size(&one, 1).unwrap();
        let channel = Arc::new(Channel::new(LinkKind::Shm, one, 2));
        let long = vec![1; 50_000];
        assert!(!channel.post(long.clone(), None));
        assert!(!channel.post(b"after it".to_vec(), None));
        let sender = Arc::clone(&channel);
        let sends = tokio::spawn(async move { sender.receive().await.map(drop) });
        tokio::time::sleep(5 * Duration::from_millis(20)).await;
        set_socket_send_buffer_size(&channel.socket, 200_000).unwrap();
        for expected in [&long[..], b"after it"] {
            let packet = tokio::time::timeout(Duration::from_secs(5), other.receive(long.len()));
            let packet = packet.await.expect("it is not sent").unwrap();
            assert!(packet.is_some_and(|packet| packet.bytes == expected));
        }
        sends.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_system_does_not_take_ends_a_channel_however_much_is_posted_meanwhile() {
        let [one, _other] = pair();
        set_socket_send_buffer_size(&one, 1).unwrap();
        let channel = Channel::new(LinkKind::Shm, one, 1000);
        assert!(!channel.post(vec![1; 50_000], None));
        let posts = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                channel.post(b"after it".to_vec(), None);
            }
        };
        tokio::select! {
            ended = channel.receive() => assert!(ended.is_err(), "nothing was sent"),
            () = posts => panic!("it is tried for ever"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_other_end_to_read_does_not_count_as_a_shortage() {
        let [one, other] = pair();
        let packet = vec![1; 10_000];
        while one.send_now(&packet, None).is_ok() {}
        let buffer = socket_send_buffer_size(&one).unwrap();
        let reads = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            // Too little for the packet as soon as there is room.
            set_socket_send_buffer_size(&one, 1).unwrap();
            let read = async { while other.receive(packet.len()).await.is_ok() {} };
            let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
            set_socket_send_buffer_size(&one, buffer).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let (sent, ()) = tokio::join!(one.send(&packet, None), reads);
        sent.expect("it was short for a second");
    }

    #[tokio::test]
    async fn a_channel_ends_although_a_forked_process_has_its_descriptor() {
        let [one, other] = pair();
        let _of_the_child = one.as_fd().try_clone_to_owned().unwrap();
        let channel = Channel::new(LinkKind::Shm, one, 1);
        assert!(channel.post(b"last".to_vec(), None));
        drop(channel);
        let last = other.receive(MAX_PACKET_BYTES).await.unwrap();
        assert_eq!(last.map(|packet| packet.bytes), Some(b"last".to_vec()));
        let end = tokio::time::timeout(Duration::from_secs(5), other.receive(1)).await;
        assert!(end.expect("the other end waits on").unwrap().is_none());
    }
}
