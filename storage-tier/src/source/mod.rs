//! Where shards come from: file systems, object stores, web servers.
//!
//! A source gives ranges of bytes of named objects, and a version of each. It knows no format, as a
//! format knows no source. docs/extending.md lists what to touch to add one; every source passes
//! `storage-tier/src/source/conformance.rs`.

#[cfg(test)]
mod conformance;
mod distant;
mod hub;
mod local;
mod python;
mod registry;
#[cfg(feature = "source-object-store")]
mod stores;
mod sums;
#[cfg(test)]
mod tests;
mod url;
mod web;
mod web_server;

use std::fmt::Debug;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::{Digest, Digester};
use headwater_storage_client::{Object, ObjectError};

pub(crate) use local::LocalSource;
pub(crate) use python::{PYTHON, PythonSource};
pub(crate) use registry::Registry;
pub use sums::{SUMS_FILE, Sum, sum_of_line};
pub(crate) use sums::{Sums, is_other_sum, read_spans, read_whole};
pub(crate) use url::SourceUrl;

use crate::StorageConfig;

/// A place that objects are read from. All calls wait for a disk or a network: not for async threads.
///
/// The contract:
/// - Names are paths with `/` between their parts. A folder is a name that objects' names begin with,
///   followed by `/`; it need not exist as such.
/// - [`Source::open`] takes the object's size and version; whatever is read of it afterwards is of
///   that version, or an error ([`Object`]).
/// - [`Source::list`] gives every object below a folder, at any depth, in the order of the bytes of
///   their names, each with size and version as [`Source::open`] gives them. Parts of a name that
///   begin with a dot are left out.
/// - Whatever may pass is tried again inside, for as long as the source's configuration says, and is
///   an error only then. [`ObjectError::NotFound`] is certain: the source said so.
/// - Credentials appear in no name and in no error.
pub(crate) trait Source: Debug + Send + Sync {
    /// What an object is called in messages: a path or a URL.
    fn name(&self, path: &Path) -> String;

    /// What there is under a name.
    ///
    /// # Errors
    /// Nothing is there, it may not be read, or the source does not answer.
    fn stat(&self, path: &Path) -> Result<Stat, ObjectError>;

    /// All objects below a folder.
    ///
    /// # Errors
    /// As [`Source::stat`].
    fn list(&self, folder: &Path) -> Result<Vec<Listed>, ObjectError>;

    /// As [`Source::list`], but a link that leads nowhere is left out unless its name is `needed`.
    ///
    /// # Errors
    /// As [`Source::list`].
    fn list_needed(
        &self,
        folder: &Path,
        _needed: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<Listed>, ObjectError> {
        self.list(folder)
    }

    /// Opens an object.
    ///
    /// # Errors
    /// As [`Source::stat`]; or it is a folder.
    fn open(&self, path: &Path) -> Result<Arc<dyn Object>, ObjectError>;

    /// Ranges of several objects, each at its version. What takes long for each should be done for
    /// several at once here.
    ///
    /// # Errors
    /// As [`Source::open`] and [`Object::read`]; [`ObjectError::Changed`] for another version.
    fn read_each(&self, wanted: &[Wanted]) -> Result<Vec<Bytes>, ObjectError> {
        let read = |wanted: &Wanted| {
            let object = self.open(&wanted.path)?;
            if Version::of(&*object) != wanted.version {
                return Err(ObjectError::Changed { name: object.name() });
            }
            let bytes = object.read(wanted.range.clone())?;
            object.check_unchanged()?;
            Ok(bytes)
        };
        wanted.iter().map(read).collect()
    }

    /// Whether its objects are files of this host.
    fn is_local(&self) -> bool {
        false
    }

    /// The same source, each of whose requests goes over a connection of its own; `None` if it makes none.
    fn anew(&self) -> Option<Arc<dyn Source>> {
        None
    }

    /// Whether reading an object may take a network, so that a copy on this host is worth having.
    fn is_distant(&self, _path: &Path) -> bool {
        true
    }
}

/// What is found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    /// An object.
    Object(Version),
    /// A folder.
    Folder,
}

/// What tells that an object is the same as before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Version {
    /// Size.
    pub(crate) bytes: u64,
    /// Entity tag or time of change.
    pub(crate) tag: String,
}

/// An object as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its name within the source.
    pub(crate) path: PathBuf,
    /// Its version.
    pub(crate) version: Version,
}

/// A range of an object at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The object's name within the source.
    pub(crate) path: PathBuf,
    /// Its version.
    pub(crate) version: Version,
    /// The range.
    pub(crate) range: Range<u64>,
}

/// Something that a pattern named: an object, or a folder of them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where it is.
    pub(crate) source: Arc<dyn Source>,
    /// Its name there.
    pub(crate) path: PathBuf,
}

/// The sources of one node.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    local: Arc<LocalSource>,
    distant: Arc<Registry>,
}

// === impl Sources ===

impl Sources {
    /// Requests are made by the runtime that this is called in; without one, by one of its own.
    pub(crate) fn new(config: &StorageConfig) -> Self {
        let local = LocalSource::within(&config.sources.roots, config.cache.cache_all);
        Self { local: Arc::new(local), distant: Arc::new(Registry::new(&config.sources)) }
    }

    /// Those that are reached by requests.
    pub(crate) fn distant(&self) -> &Registry {
        &self.distant
    }

    /// The files of this host.
    pub(crate) fn local(&self) -> Arc<dyn Source> {
        self.local.clone()
    }
}

// === impl Stat ===

impl Stat {
    /// The version of an object; a folder has none.
    pub(crate) fn version(self) -> Option<Version> {
        match self {
            Self::Object(version) => Some(version),
            Self::Folder => None,
        }
    }
}

// === impl Version ===

impl Version {
    /// That of an open object.
    pub(crate) fn of(object: &dyn Object) -> Self {
        Self { bytes: object.bytes(), tag: object.version() }
    }

    /// Equal for equal versions.
    pub(crate) fn digest(&self) -> Digest {
        let mut digester = Digester::new("headwater object version 1");
        digester.number(self.bytes).bytes(self.tag.as_bytes()).finish()
    }
}

// === impl Place ===

impl Place {
    /// A file of this host, for tools that look after files by themselves.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { source: Arc::new(LocalSource::within(&[], false)), path: path.to_owned() }
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        self.source.name(&self.path)
    }

    /// Its name whatever folder the process is in.
    pub(crate) fn whole_name(&self) -> String {
        let absolute =
            self.source.is_local().then(|| std::path::absolute(&self.path).ok()).flatten();
        self.source.name(absolute.as_deref().unwrap_or(&self.path))
    }

    /// The last part of its name.
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Something below it, or beside it for `../x`.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self { source: self.source.clone(), path: self.path.join(name) }
    }

    /// Something in the same folder.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self { source: self.source.clone(), path: self.path.with_file_name(name) }
    }

    /// The user that it belongs to, if it is on this host.
    pub(crate) fn owner(&self) -> Option<u32> {
        let found = self.source.is_local().then(|| self.path.metadata().ok())?;
        found.map(|found| found.uid())
    }

    /// Whether reading it may take a network.
    pub(crate) fn is_distant(&self) -> bool {
        self.source.is_distant(&self.path)
    }

    /// What is there.
    ///
    /// # Errors
    /// As [`Source::stat`].
    pub(crate) fn stat(&self) -> Result<Stat, ObjectError> {
        self.source.stat(&self.path)
    }

    /// All objects below it.
    ///
    /// # Errors
    /// As [`Source::list`].
    #[cfg(any(test, feature = "format-zarr"))]
    pub(crate) fn list(&self) -> Result<Vec<Listed>, ObjectError> {
        self.source.list(&self.path)
    }

    /// All objects below it; of links that lead nowhere, only those whose names are `needed` are an error.
    ///
    /// # Errors
    /// As [`Source::list_needed`].
    pub(crate) fn list_needed(
        &self,
        needed: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<Listed>, ObjectError> {
        self.source.list_needed(&self.path, needed)
    }

    /// The object.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub(crate) fn open(&self) -> Result<Arc<dyn Object>, ObjectError> {
        self.source.open(&self.path)
    }

    /// The object, or `None` where there is none: for files that may lie beside others.
    ///
    /// # Errors
    /// The source does not answer.
    pub(crate) fn open_if_there(&self) -> Result<Option<Arc<dyn Object>>, ObjectError> {
        match self.open() {
            Err(ObjectError::NotFound { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }
}
