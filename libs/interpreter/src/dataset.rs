//! A dataset in a Python process, which is the same one in each process that opens it.

use std::fmt;
use std::io;

use serde::Deserialize;

use crate::CallError;
use crate::interpreter::Interpreter;
use crate::process::Process;
use crate::settings::Settings;
use crate::wire::{Read, Request};

/// A map-style dataset: something with `__len__` and `__getitem__`.
#[derive(Debug)]
pub struct Dataset {
    interpreter: Interpreter,
    name: String,
    arguments: serde_json::Map<String, serde_json::Value>,
    identity: DatasetIdentity,
}

/// What is known of a dataset's data without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DatasetIdentity {
    /// Its `len()`.
    pub samples: u64,
    /// Its attribute `version`, as text.
    pub version: Option<String>,
    /// SHA-256 of its module's source, in hexadecimal digits.
    pub source: String,
}

// === impl Dataset ===

impl Dataset {
    /// Makes it: `name` is `package.module:Class`, called with `arguments`. Where another process has it already, it
    /// must be the `known` one.
    ///
    /// # Errors
    /// The module is not trusted, the class raised, or the dataset has changed.
    pub fn open(
        settings: Settings,
        name: &str,
        arguments: serde_json::Map<String, serde_json::Value>,
        known: Option<&DatasetIdentity>,
    ) -> Result<Self, CallError> {
        settings.trusted.check(name)?;
        let mut interpreter = Interpreter::new(settings);
        let identity = opened(&mut interpreter, name, &arguments, known)?;
        Ok(Self { interpreter, name: name.to_owned(), arguments, identity })
    }

    /// What it was when it was opened, and is still.
    #[must_use]
    pub fn identity(&self) -> &DatasetIdentity {
        &self.identity
    }

    /// The fields of a sample, as files of them would be.
    ///
    /// # Errors
    /// It raised, or gave what cannot be a field; the process is gone; or another one found that the dataset has
    /// changed.
    pub fn read(&mut self, index: u64) -> Result<Vec<(String, Vec<u8>)>, CallError> {
        let Self { interpreter, name, arguments, identity } = self;
        if interpreter.process().is_none() {
            opened(interpreter, name, arguments, Some(identity))?;
        }
        let name = format!("{name}[{index}]");
        let Read { fields } = interpreter.ask(&name, &Request::Read { index }, |_| Ok(()))?;
        let got = interpreter.process().map(|process| got(process, fields));
        let got = got.transpose().map_err(|error| interpreter.gone(&name, &error))?;
        Ok(got.unwrap_or_default())
    }
}

/// Fields out of the memory, where they lie one behind the other.
fn got(process: &Process, fields: Vec<(String, u64)>) -> io::Result<Vec<(String, Vec<u8>)>> {
    let (held, mut offset) = (process.memory_bytes()?, 0);
    let field = |(name, bytes): (String, u64)| {
        if bytes > held - offset {
            return Err(io::Error::other("an answer is longer than the memory"));
        }
        let mut field = vec![0; bytes as usize];
        process.get(&mut field, offset)?;
        offset += bytes;
        Ok((name, field))
    };
    fields.into_iter().map(field).collect()
}

/// Opens a dataset in a new process, which is ended again if it has another one than is known.
fn opened(
    interpreter: &mut Interpreter,
    name: &str,
    arguments: &serde_json::Map<String, serde_json::Value>,
    known: Option<&DatasetIdentity>,
) -> Result<DatasetIdentity, CallError> {
    let request = Request::Open { dataset: name, arguments };
    let found: DatasetIdentity = interpreter.ask(name, &request, |_| Ok(()))?;
    match known {
        Some(known) if *known != found => {
            interpreter.end();
            let (had, has) = (known.to_string(), found.to_string());
            Err(CallError::Changed { name: name.to_owned(), had, has })
        }
        _ => Ok(found),
    }
}

// === impl DatasetIdentity ===

impl fmt::Display for DatasetIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, version, source } = self;
        let version =
            version.as_deref().map_or_else(|| "no version".into(), |v| format!("version `{v}`"));
        let source = source.get(..12).unwrap_or(source);
        write!(f, "{samples} samples, {version} and source {source}")
    }
}
