//! Waiting for something to happen to a file.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;

/// A file that is watched, as far as the system has watches left.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: Option<OwnedFd>,
}

// === impl Watch ===

impl Watch {
    /// Watches for the file being removed, or closed by who writes it. `None` where there is none.
    pub(crate) fn on(path: &Path) -> Option<Self> {
        let flags = WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE_SELF;
        let watched = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).and_then(|inotify| {
            add_watch(&inotify, path, flags)?;
            Ok(inotify)
        });
        match watched {
            Ok(inotify) => Some(Self { inotify: Some(inotify) }),
            Err(Errno::NOENT) => None,
            Err(error) => {
                let error = io::Error::from(error);
                tracing::debug!(%error, "no watch is left: the file is looked at again and again");
                Some(Self { inotify: None })
            }
        }
    }

    /// Waits for at most so long. Whether something has happened.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let Some(inotify) = &self.inotify else {
            thread::sleep(at_most);
            return false;
        };
        let time = Timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(inotify, PollFlags::IN)];
        poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
    }
}
