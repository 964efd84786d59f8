//! One connection of a loader, as the services attend to it.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use headwater_trace::{Names, Process, Recording, TracePath, file_sink, start};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use crate::alive::Life;
use crate::clients::Presence;
use crate::lines::Lines;
use crate::messages::{self, Answer, Ask, Hello};
use crate::status::{Status, Told};

/// Time for a loader to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// A connection that was accepted.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) presence: Presence,
    pub(crate) board: Arc<Status>,
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
        let life = Life::of_peer(&self.stream)?;
        (&self.stream).write_all(&messages::line(&Answer::Welcome))?;
        let Some(hello) = self.hello()? else { return Ok(()) };
        self.presence.begin();
        let cores = hello.cores.clone();
        let bell = self.board.listen()?;
        // The tiers may have ended, which the board says.
        let _ = self.needs.send(hello);
        self.stream.set_nonblocking(true)?;
        let (mut told, mut unsent) = (Told::default(), Vec::new());
        let (mut lines, mut trace) = (Lines::default(), None);
        loop {
            bell.silence();
            while unsent.is_empty()
                && let Some(news) = self.board.news(&cores, &mut told)
            {
                unsent = messages::line(&news);
                self.send(&mut unsent)?;
            }
            self.wait(&bell, &life, !unsent.is_empty())?;
            self.send(&mut unsent)?;
            if life.is_over() || self.is_closed(&mut lines)? {
                return Ok(());
            }
            while let Some(ask) = lines.take() {
                unsent.extend(messages::line(&Answer::Traced(traced(&ask, &mut trace).err())));
                self.send(&mut unsent)?;
            }
        }
    }

    fn hello(&self) -> io::Result<Option<Hello>> {
        self.stream.set_read_timeout(Some(HELLO_LIMIT))?;
        let mut lines = Lines::default();
        loop {
            if let Some(line) = lines.take() {
                return Ok(messages::read(&line));
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
    fn wait(&self, bell: &crate::event_fd::EventFd, life: &Life, sends: bool) -> io::Result<()> {
        let stream = if sends { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.stream, stream), PollFd::new(bell, PollFlags::IN)];
        let (descriptor, limit) = life.wait_for();
        polled.extend(descriptor.map(|life| PollFd::from_borrowed_fd(life, PollFlags::IN)));
        match poll(&mut polled, limit) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the loader has ended the connection; reads what it has to say.
    fn is_closed(&self, lines: &mut Lines) -> io::Result<bool> {
        match lines.read_from(&self.stream) {
            Ok(read) => Ok(read == 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Begins or ends the trace that a loader asks for. It ends with the loader at the latest.
fn traced(ask: &[u8], trace: &mut Option<Recording>) -> Result<(), String> {
    *trace = match messages::read(ask) {
        Some(Ask::EndTrace) => None,
        Some(Ask::Trace { path, bytes_max }) => Some(begun(&path, bytes_max)?),
        None => return Err("the services do not understand what they are asked".to_owned()),
    };
    Ok(())
}

fn begun(path: &str, bytes_max: u64) -> Result<Recording, String> {
    let names = Names { tier: "local", rank: 0, world_size: 1 };
    let process = Process { name: "local services".to_owned(), place: 2 };
    let path = TracePath::parse(path).and_then(|path| path.of_process(&names));
    let sink = path.and_then(|path| file_sink(&path, bytes_max, &process));
    sink.and_then(start).map_err(|error| error.to_string())
}
