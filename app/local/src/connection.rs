//! A loader's connection to the process of the services.

use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::lines::Lines;
use crate::messages::{self, Answer, Ask, Hello, Ready};
use crate::watch::{LOOK, Watch};
use crate::{LocalError, LocalErrorKind};

/// Time for the services to do what they are asked.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A connection to the process of the services.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    lines: Lines,
}

// === impl Connection ===

impl Connection {
    /// Connects to the services that listen at a socket, if there are any.
    pub(crate) fn open(socket: &Path) -> Result<Option<Self>, LocalError> {
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => return Ok(None),
                _ => return Err(LocalError::folder(socket, &error)),
            },
        };
        let limited = stream.set_read_timeout(Some(LOOK));
        limited.map_err(|error| LocalError::folder(socket, &error))?;
        Ok(Some(Self { stream, lines: Lines::default() }))
    }

    /// Says hello and waits until the services are ready; `None` where they end before they say a word. That
    /// one comes at once, unless they are suspended.
    pub(crate) fn ready(
        &mut self,
        socket: &Path,
        hello: &Hello,
        watch: &Watch<'_>,
    ) -> Result<Option<Ready>, LocalError> {
        let begun = Instant::now();
        let mut is_welcome = false;
        loop {
            let check = || match is_welcome {
                true => watch.check(),
                false => watch.check_silence(socket, begun),
            };
            match self.next(check) {
                Ok(Answer::Welcome) => {
                    is_welcome = true;
                    // What is lost is noticed by the next read.
                    let _ = (&self.stream).write_all(&messages::line(hello));
                }
                Ok(Answer::Indexing { done, of }) => (watch.tell)(done, of),
                // Nothing was asked.
                Ok(Answer::Traced(_)) => {}
                Ok(Answer::Ready(ready)) => {
                    self.stream.set_nonblocking(true).map_err(|_| LocalError::Lost)?;
                    return Ok(Some(ready));
                }
                Ok(Answer::Failed { kind, text }) => return Err(LocalError::Told { kind, text }),
                Err(LocalError::Lost) if !is_welcome => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next answer, as soon as there is one.
    fn next(&mut self, check: impl Fn() -> Result<(), LocalError>) -> Result<Answer, LocalError> {
        loop {
            if let Some(line) = self.lines.take() {
                return messages::read(&line).ok_or(LocalError::Lost);
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => check()?,
                    _ => return Err(LocalError::Lost),
                },
            }
        }
    }

    /// Whether the services still run, once they were ready. Does not wait.
    pub(crate) fn check(&mut self) -> Result<(), LocalError> {
        loop {
            while let Some(line) = self.lines.take() {
                if let Some(Answer::Failed { kind, text }) = messages::read(&line) {
                    return Err(LocalError::Told { kind, text });
                }
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => {}
                    _ => return Err(LocalError::Lost),
                },
            }
        }
    }

    /// Has the services do something, and waits until it is done.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<(), LocalError> {
        (&self.stream).write_all(&messages::line(ask)).map_err(|_| LocalError::Lost)?;
        let asked = Instant::now();
        loop {
            while let Some(line) = self.lines.take() {
                match messages::read(&line) {
                    Some(Answer::Failed { kind, text }) => {
                        return Err(LocalError::Told { kind, text });
                    }
                    Some(Answer::Traced(None)) => return Ok(()),
                    Some(Answer::Traced(Some(text))) => {
                        return Err(LocalError::Told { kind: LocalErrorKind::Config, text });
                    }
                    _ => {}
                }
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if asked.elapsed() > ANSWER_LIMIT {
                        return Err(LocalError::Lost);
                    }
                    let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
                    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    let _ = poll(&mut polled, Some(&limit));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(LocalError::Lost),
            }
        }
    }

    /// Leaves the services. Closing would do, but for a process that was forked meanwhile and has the
    /// descriptor too.
    pub(crate) fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
