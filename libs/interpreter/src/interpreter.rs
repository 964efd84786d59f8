//! Calls, and a new process where the last one is gone.

use std::io;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::CallError;
use crate::process::Process;
use crate::settings::Settings;
use crate::wire::{Answer, Digest, Done, Numbered, Reply, Request};

/// One Python process, started when it is first needed. It takes one call at a time.
#[derive(Debug)]
pub struct Interpreter {
    settings: Settings,
    process: Option<Process>,
    /// Requests so far: each has its number.
    asked: u64,
}

/// The source of a module, as it lies on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The file.
    pub path: PathBuf,
}

// === impl Interpreter ===

impl Interpreter {
    /// Nothing is started yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, process: None, asked: 0 }
    }

    /// Changes an image in place: `function(array, rng)` with a uint8 array of `shape` (height, width, channels), and
    /// numpy's `default_rng(seed)`. It gives an array of the same shape and dtype, which may be the one it was given.
    /// `sha256` is that of its module's source, or empty: any.
    ///
    /// # Errors
    /// The module is not trusted or has other source, the function raised or gave something else, or the process is
    /// gone or late. The pixels are unchanged then.
    ///
    /// # Panics
    /// The pixels are not of the shape.
    pub fn call(
        &mut self,
        (function, sha256): (&str, &str),
        shape: [u32; 3],
        pixels: &mut [u8],
        seed: &[u64],
    ) -> Result<(), CallError> {
        let values: usize = shape.iter().map(|&side| side as usize).product();
        assert_eq!(pixels.len(), values, "{shape:?}");
        self.settings.trusted.check(function)?;
        let put = |process: &mut Process| process.put(pixels);
        let _: Done = self.ask(function, &Request::Call { function, sha256, shape, seed }, put)?;
        let read = self.process.as_ref().map_or(Ok(()), |process| process.get(pixels, 0));
        read.map_err(|error| self.gone(function, &error))
    }

    /// The source of a module, which is not run.
    ///
    /// # Errors
    /// The module is not trusted, not found, or has none of one of the functions.
    pub fn source(&mut self, module: &str, functions: &[&str]) -> Result<Source, CallError> {
        self.settings.trusted.check(module)?;
        let found: Digest = self.ask(module, &Request::Digest { module, functions }, |_| Ok(()))?;
        Ok(Source { sha256: found.digest, path: found.path.into() })
    }

    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        name: &str,
        request: &Request<'_>,
        put: impl FnOnce(&mut Process) -> io::Result<()>,
    ) -> Result<T, CallError> {
        self.asked += 1;
        let id = self.asked;
        let mut line = serde_json::to_vec(&Numbered { id, request }).unwrap_or_default();
        line.push(b'\n');
        let process = self.started()?;
        let answer = put(process)
            .and_then(|()| process.ask(&line))
            .and_then(|answer| own(&answer, id, process));
        let reply = answer.map_err(|error| self.gone(name, &error))?;
        let key = self.settings.keys.bad_sample_errors;
        let name = name.to_owned();
        let error = match reply {
            Reply::Answer(answer) => return Ok(answer),
            Reply::Bad(text) => return Err(CallError::Bad { name, text }),
            Reply::Passing(text) => CallError::Passing { name, text, key },
            Reply::Raised(text) => CallError::NotLoaded { name, text },
            Reply::Short(text) => CallError::Short { name, text },
        };
        self.end();
        Err(error)
    }

    /// The process, if one is running.
    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// The next call starts another process.
    pub(crate) fn end(&mut self) {
        self.process = None;
    }

    fn started(&mut self) -> Result<&mut Process, CallError> {
        let process = match self.process.take() {
            Some(process) => process,
            None => Process::start(&self.settings)?,
        };
        Ok(self.process.insert(process))
    }

    /// The process cannot be trusted any more: where an answer came too late, the next one would be that of
    /// this call.
    pub(crate) fn gone(&mut self, name: &str, error: &io::Error) -> CallError {
        let process = self.process.take();
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => CallError::Late {
                name,
                limit_ms: self.settings.timeout.as_millis() as u64,
                key: self.settings.keys.timeout,
            },
            io::ErrorKind::InvalidData => CallError::Ended { name, how: error.to_string() },
            _ => {
                let how = process.map(Process::end).unwrap_or_default();
                let how = match error.kind() {
                    io::ErrorKind::UnexpectedEof => how,
                    _ => format!("{how}, {error}"),
                };
                CallError::Ended { name, how }
            }
        }
    }
}

/// The reply in a line, if it is that of the process to this request.
fn own<T: DeserializeOwned>(
    line: &[u8],
    asked: u64,
    process: &mut Process,
) -> io::Result<Reply<T>> {
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let Answer { id, pid, reply } = serde_json::from_slice(line)
        .map_err(|error| invalid(format!("it was ended: its answer cannot be read, {error}")))?;
    if id != asked || !process.is(pid) {
        let text = format!("it was ended: process {pid} answered request {id} in place of {asked}");
        return Err(invalid(text));
    }
    Ok(reply)
}
