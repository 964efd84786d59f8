//! One connection of a loader, as the services attend to it.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use tokio::sync::mpsc::UnboundedSender;

use crate::alive::Life;
use crate::attendance::Presence;
use crate::board::{Board, Told};
use crate::lines::Lines;
use crate::words::{self, Answer, Hello};

/// Time for a loader to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// A connection that was accepted.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) presence: Presence,
    pub(crate) board: Arc<Board>,
    /// To the thread that runs the tiers.
    pub(crate) needs: UnboundedSender<Hello>,
}

// === impl Client ===

impl Client {
    /// Tells the loader all there is to tell until it is gone.
    pub(crate) fn attend(self) {
        if let Err(error) = self.attended() {
            tracing::debug!(%error, "a loader's connection ends");
        }
    }

    fn attended(&self) -> io::Result<()> {
        let peer = socket_peercred(&self.stream)?;
        if peer.uid != geteuid() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it is another user's"));
        }
        // Before the loader hears a word: it is there when it answers, so the number is its own.
        let Some(life) = Life::of(peer.pid) else { return Ok(()) };
        (&self.stream).write_all(&words::line(&Answer::Welcome))?;
        let Some(hello) = self.hello()? else { return Ok(()) };
        self.presence.begin();
        let cores = hello.cores.clone();
        let bell = self.board.listen()?;
        // The tiers may have ended, which the board says.
        let _ = self.needs.send(hello);
        self.stream.set_nonblocking(true)?;
        let (mut told, mut unsent) = (Told::default(), Vec::new());
        loop {
            bell.silence();
            while unsent.is_empty()
                && let Some(news) = self.board.news(&cores, &mut told)
            {
                unsent = words::line(&news);
                self.send(&mut unsent)?;
            }
            self.wait(&bell, &life, !unsent.is_empty())?;
            self.send(&mut unsent)?;
            if life.is_over() || self.is_closed()? {
                return Ok(());
            }
        }
    }

    fn hello(&self) -> io::Result<Option<Hello>> {
        self.stream.set_read_timeout(Some(HELLO_LIMIT))?;
        let mut lines = Lines::default();
        loop {
            if let Some(line) = lines.take() {
                return Ok(words::read(&line));
            }
            if lines.read_from(&self.stream)? == 0 {
                return Ok(None);
            }
        }
    }

    /// Sends what the other end takes now.
    fn send(&self, unsent: &mut Vec<u8>) -> io::Result<()> {
        while !unsent.is_empty() {
            match (&self.stream).write(unsent) {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something happens at either end.
    fn wait(&self, bell: &crate::bell::Bell, life: &Life, sends: bool) -> io::Result<()> {
        let stream = if sends { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.stream, stream), PollFd::new(bell, PollFlags::IN)];
        let (descriptor, limit) = life.wait_for();
        polled.extend(descriptor.map(|life| PollFd::from_borrowed_fd(life, PollFlags::IN)));
        match poll(&mut polled, limit) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the loader has ended the connection. It has nothing more to say.
    fn is_closed(&self) -> io::Result<bool> {
        match io::Read::read(&mut &self.stream, &mut [0; 64]) {
            Ok(read) => Ok(read == 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}
