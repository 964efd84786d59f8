//! Which process is at the other end of a Unix socket, as the kernel has it.
//!
//! Read raw: the kernel gives a process of a PID namespace that this one cannot see into the number 0,
//! which `rustix::process::Pid` cannot hold. Containers, pods and `unshare --pid` have such namespaces.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::process::Pid;

/// The process that connected or, seen from there, the one that listens; as it was at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// Its user.
    pub uid: u32,
    /// Its number here; `None`: it is in a PID namespace that this process cannot see into.
    pub pid: Option<Pid>,
}

// === impl PeerProcess ===

impl PeerProcess {
    /// The process at the other end of a connected socket.
    ///
    /// # Errors
    /// It is not a connected Unix socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        // SAFETY: `ucred` is three integers, and the option SO_PEERCRED writes one at most.
        unsafe { option(socket, libc::SO_PEERCRED, &mut found) }?;
        Ok(Self { uid: found.uid, pid: Pid::from_raw(found.pid) })
    }

    /// A descriptor of the process at the other end, which can be read when that has ended. It is of
    /// that process, and of no later one with its number; and there is one across PID namespaces.
    ///
    /// # Errors
    /// The kernel (before 6.5) has none to give, or the process has ended and been waited for.
    pub fn descriptor(socket: impl AsFd) -> io::Result<OwnedFd> {
        let mut found = -1;
        // SAFETY: the option SO_PEERPIDFD writes an integer.
        unsafe { option(socket, libc::SO_PEERPIDFD, &mut found) }?;
        // SAFETY: the kernel has opened it for this call only.
        Ok(unsafe { OwnedFd::from_raw_fd(found) })
    }
}

/// Reads an option of a socket.
///
/// # Safety
/// Any bytes are a `T`, and the option has no more bytes than that.
unsafe fn option<T>(socket: impl AsFd, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes `bytes` bytes at most, which `value` has; the socket is open.
    let got = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, name, (&raw mut *value).cast(), &raw mut bytes)
    };
    match (got, bytes as usize == size_of::<T>()) {
        (0, true) => Ok(()),
        (0, false) => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn this_process_is_its_own_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let (uid, pid) = (rustix::process::geteuid().as_raw(), rustix::process::getpid());
        assert_eq!(PeerProcess::of(&one).unwrap(), PeerProcess { uid, pid: Some(pid) });
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = tempfile::tempfile().unwrap();
        assert!(PeerProcess::of(&file).is_err() && PeerProcess::descriptor(&file).is_err());
    }
}
