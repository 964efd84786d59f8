//! Whether another process is still there.
//!
//! The end of a connection does not say so: a process that was forked from the other end holds it too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use headwater_transport::peer::PeerProcess;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open, test_kill_process};

/// How often is looked where the kernel (before 5.3) does not tell of itself.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
pub(crate) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A process that was there when this was made.
#[derive(Debug)]
pub(crate) enum Life {
    /// Readable when it has ended.
    Descriptor(OwnedFd),
    /// To be looked at.
    Number(Pid),
}

// === impl Life ===

impl Life {
    /// The process of a number; `None` where there is none.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(Self::Descriptor(descriptor)),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Self::Number(pid)),
        }
    }

    /// The process at the other end of a socket, if it is this user's. Asked before that hears a word: it is
    /// there while it waits for one, so a number is its own.
    ///
    /// # Errors
    /// It is another user's; it cannot be watched; it has ended.
    pub(crate) fn of_peer(socket: &impl AsFd) -> io::Result<Self> {
        let refused = |reason: String| io::Error::new(io::ErrorKind::PermissionDenied, reason);
        let PeerProcess { uid, pid } = PeerProcess::of(socket)?;
        if uid != geteuid().as_raw() {
            return Err(refused(format!("it is user {uid}'s")));
        }
        if let Ok(descriptor) = PeerProcess::descriptor(socket) {
            return Ok(Self::Descriptor(descriptor));
        }
        // Linux before 6.5.
        let pid =
            pid.ok_or_else(|| refused("it is out of sight, in another PID namespace".into()))?;
        Self::of(pid).ok_or_else(|| Errno::SRCH.into())
    }

    /// What to wait for with `poll`, and for how long at most before [`Life::is_over`] is asked.
    pub(crate) fn wait_for(&self) -> (Option<BorrowedFd<'_>>, Option<&'static Timespec>) {
        match self {
            Self::Descriptor(descriptor) => (Some(descriptor.as_fd()), None),
            Self::Number(_) => (None, Some(&LOOK)),
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Descriptor(descriptor) => {
                let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
                poll(&mut polled, Some(&NOW)).is_ok_and(|ready| ready > 0)
            }
            Self::Number(pid) => test_kill_process(*pid) == Err(Errno::SRCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_over_when_it_has_ended_even_before_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let life = Life::of(Pid::from_child(&child)).unwrap();
        assert!(!life.is_over());
        drop(child.stdin.take());
        let (descriptor, limit) = life.wait_for();
        if let Some(descriptor) = descriptor {
            let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
            poll(&mut polled, limit).unwrap();
            assert!(life.is_over());
        }
        child.wait().unwrap();
        assert!(life.is_over());
    }

    #[test]
    fn the_process_at_the_other_end_of_a_socket_is_watched() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!Life::of_peer(&socket).unwrap().is_over(), "it is this process");
        assert!(Life::of_peer(&tempfile::tempfile().unwrap()).is_err(), "no socket");
    }
}
