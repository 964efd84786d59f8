//! A loader's connection to the process of the services.

use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::LocalError;
use crate::lines::Lines;
use crate::services::{LOOK, Watch};
use crate::words::{self, Answer, Hello, Ready};

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

    /// Says hello and waits until the services are ready; `None` where they end before they say a word.
    pub(crate) fn ready(
        &mut self,
        hello: &Hello,
        watch: &Watch<'_>,
    ) -> Result<Option<Ready>, LocalError> {
        let mut is_welcome = false;
        loop {
            match self.next(watch) {
                Ok(Answer::Welcome) => {
                    is_welcome = true;
                    // What is lost is noticed by the next read.
                    let _ = (&self.stream).write_all(&words::line(hello));
                }
                Ok(Answer::Indexing { done, of }) => (watch.tell)(done, of),
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
    fn next(&mut self, watch: &Watch<'_>) -> Result<Answer, LocalError> {
        loop {
            if let Some(line) = self.lines.take() {
                return words::read(&line).ok_or(LocalError::Lost);
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => watch.check()?,
                    _ => return Err(LocalError::Lost),
                },
            }
        }
    }

    /// Whether the services still run, once they were ready. Does not wait.
    pub(crate) fn check(&mut self) -> Result<(), LocalError> {
        loop {
            while let Some(line) = self.lines.take() {
                if let Some(Answer::Failed { kind, text }) = words::read(&line) {
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

    /// Leaves the services. Closing would do, but for a process that was forked meanwhile and has the
    /// descriptor too.
    pub(crate) fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
