//! Calls, and a new process where the last one is gone.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::process::Process;
use crate::wire::{Digest, Done, Opened, Read, Reply, Request};
use crate::{CallError, Trusted};

/// How interpreters are started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program: `python3`, or the one of an environment.
    pub python: PathBuf,
    /// Folders that modules are looked for in, before those of the program.
    pub folders: Vec<PathBuf>,
    /// The modules that may be imported.
    pub trusted: Trusted,
    /// How long a call may take.
    pub timeout: Duration,
}

/// One Python process, started when it is first needed. It takes one call at a time.
#[derive(Debug)]
pub struct Interpreter {
    settings: Settings,
    process: Option<Process>,
}

/// The source of a module, as it lies on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The file.
    pub path: PathBuf,
}

/// A map-style dataset: something with `__len__` and `__getitem__`.
#[derive(Debug)]
pub struct Dataset {
    interpreter: Interpreter,
    name: String,
    arguments: serde_json::Map<String, serde_json::Value>,
    samples: u64,
    version: Option<String>,
}

// === impl Interpreter ===

impl Interpreter {
    /// Nothing is started yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, process: None }
    }

    /// Changes an image in place: `function(array, rng)` with a uint8 array of `shape` (height, width, channels), and
    /// numpy's `default_rng(seed)`. It gives an array of the same shape and dtype, which may be the one it was given.
    ///
    /// # Errors
    /// The module is not trusted, the function raised or gave something else, or the process is gone or late.
    /// The pixels are unchanged then.
    ///
    /// # Panics
    /// The pixels are not of the shape.
    pub fn call(
        &mut self,
        function: &str,
        shape: [u32; 3],
        pixels: &mut [u8],
        seed: &[u64],
    ) -> Result<(), CallError> {
        let values: usize = shape.iter().map(|&side| side as usize).product();
        assert_eq!(pixels.len(), values, "{shape:?}");
        self.settings.trusted.check(function)?;
        let put = |process: &mut Process| process.put(pixels);
        let _: Done = self.ask(function, &Request::Call { function, shape, seed }, put)?;
        let read = self.process.as_ref().map_or(Ok(()), |process| process.get(pixels));
        read.map_err(|error| self.gone(function, &error))
    }

    /// The source of a module, which is not run.
    ///
    /// # Errors
    /// The module is not trusted, or not found.
    pub fn source(&mut self, module: &str) -> Result<Source, CallError> {
        self.settings.trusted.check(module)?;
        let found: Digest = self.ask(module, &Request::Digest { module }, |_| Ok(()))?;
        Ok(Source { sha256: found.digest, path: found.path.into() })
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        name: &str,
        request: &Request<'_>,
        put: impl FnOnce(&mut Process) -> io::Result<()>,
    ) -> Result<T, CallError> {
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        let process = self.started()?;
        let answer = put(process).and_then(|()| process.ask(&line));
        let answer = answer.map_err(|error| self.gone(name, &error))?;
        let name = || name.to_owned();
        match serde_json::from_slice(&answer) {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::Raised(text)) => Err(CallError::Raised { name: name(), text }),
            Ok(Reply::Short(text)) => Err(CallError::Short { name: name(), text }),
            Ok(Reply::Passing(text)) => {
                self.process.take().map(Process::end);
                Err(CallError::Passing { name: name(), text })
            }
            Err(_) => {
                let how = self.process.take().map(Process::end).unwrap_or_default();
                Err(CallError::Ended { name: name(), how })
            }
        }
    }

    fn started(&mut self) -> Result<&mut Process, CallError> {
        let Settings { python, folders, timeout, .. } = &self.settings;
        let process = match self.process.take() {
            Some(process) => process,
            None => Process::start(python, folders, *timeout)
                .map_err(|source| CallError::Start { python: python.clone(), source })?,
        };
        Ok(self.process.insert(process))
    }

    /// The process cannot be trusted any more: where an answer came too late, the next one would be that of
    /// this call.
    fn gone(&mut self, name: &str, error: &io::Error) -> CallError {
        let process = self.process.take();
        let name = name.to_owned();
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            process.map(Process::kill).unwrap_or_default();
            return CallError::Late { name, limit_ms: self.settings.timeout.as_millis() as u64 };
        }
        let how = process.map(Process::end).unwrap_or_default();
        CallError::Ended { name, how: format!("{how}, {error}") }
    }
}

// === impl Dataset ===

impl Dataset {
    /// Makes it: `name` is `package.module:Class`, called with `arguments`.
    ///
    /// # Errors
    /// The module is not trusted, or the class raised.
    pub fn open(
        settings: Settings,
        name: &str,
        arguments: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self, CallError> {
        settings.trusted.check(name)?;
        let interpreter = Interpreter::new(settings);
        let name = name.to_owned();
        let mut dataset = Self { interpreter, name, arguments, samples: 0, version: None };
        let Opened { samples, version } = dataset.reopen()?;
        (dataset.samples, dataset.version) = (samples, version);
        Ok(dataset)
    }

    /// Its `len()`.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Its attribute `version`, as text.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The fields of a sample, as files of them would be.
    ///
    /// # Errors
    /// It raised, or gave what cannot be a field; or the process is gone.
    pub fn read(&mut self, index: u64) -> Result<Vec<(String, Vec<u8>)>, CallError> {
        if self.interpreter.process.is_none() {
            let Opened { samples, .. } = self.reopen()?;
            if samples != self.samples {
                let text = format!("now has {samples} samples, and had {}", self.samples);
                return Err(CallError::Short { name: self.name.clone(), text });
            }
        }
        let name = format!("{}[{index}]", self.name);
        let request = Request::Read { index };
        let Read { fields } = self.interpreter.ask(&name, &request, |_| Ok(()))?;
        let bytes = fields.iter().map(|(_, bytes)| *bytes).sum::<u64>();
        let whole = self.interpreter.process.as_ref().map(|process| {
            let held = process.memory_bytes()?;
            if bytes > held {
                return Err(io::Error::other("an answer is longer than the memory"));
            }
            let mut whole = vec![0; bytes as usize];
            process.get(&mut whole).map(|()| whole)
        });
        let whole = whole.transpose().map_err(|error| self.interpreter.gone(&name, &error))?;
        let mut rest = whole.unwrap_or_default();
        let cut = |(name, bytes): (String, u64)| {
            let after = rest.split_off(bytes as usize);
            (name, std::mem::replace(&mut rest, after))
        };
        Ok(fields.into_iter().map(cut).collect())
    }

    fn reopen(&mut self) -> Result<Opened, CallError> {
        let request = Request::Open { dataset: &self.name, arguments: &self.arguments };
        self.interpreter.ask(&self.name, &request, |_| Ok(()))
    }
}
