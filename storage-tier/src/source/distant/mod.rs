//! Sources that are reached by requests: what object stores, web servers and the hub have in common.
//!
//! A [`Remote`] makes one request and says what came of it. Here is all the rest: which requests,
//! how many at a time, how often again, and what is kept of their answers.

mod ahead;
mod anew;
mod node;
mod object;
mod refusal;

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_storage_client::{Object, ObjectError};

use super::{Listed, Source, Stat, Version, Wanted};
use anew::Anew;
use object::DistantObject;

pub(crate) use node::Node;
pub(crate) use refusal::Refusal;

/// The longest body that a request asks for, in bytes.
pub(crate) const PIECE_BYTES_MAX: u64 = 8 << 20;
/// Objects of one call that are read at the same time.
const OBJECTS_AT_A_TIME: usize = 32;
/// The most objects that a listing may have.
pub(crate) const LISTED_MAX: usize = 1 << 20;
/// Parts of a listing that are asked for.
const PARTS_MAX: usize = 10_000;

/// Makes single requests to a source. Whoever calls it limits their time and makes them again.
///
/// The contract:
/// - What [`Remote::get`] gives has the length of the range and is of that version, whatever the
///   source says or does; no more is held in memory than was asked for.
/// - [`Remote::list`] gives the same versions as [`Remote::head`].
/// - No name and no error holds a credential.
#[async_trait]
pub(crate) trait Remote: Debug + Send + Sync {
    /// The URL of an object, without credentials.
    fn name(&self, key: &str) -> String;

    /// Size and version of an object.
    async fn head(&self, key: &str) -> Result<Version, Refusal>;

    /// Bytes of an object; at least 1, and [`PIECE_BYTES_MAX`] at most.
    async fn get(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Bytes, Refusal>;

    /// Whether it can tell what there is.
    fn can_list(&self) -> bool {
        true
    }

    /// Objects below a folder, in any order, until there are `max`; the empty name is the top. What comes before a failure
    /// is a part of its own. Behind a mark the rest follows.
    async fn list(
        &self,
        folder: &str,
        behind: Option<&str>,
        max: usize,
    ) -> Result<ListedPart, Refusal>;
}

/// Some of the objects below a folder.
#[derive(Debug, Default)]
pub(crate) struct ListedPart {
    pub(crate) objects: Vec<(String, Version)>,
    /// Behind which the listing goes on; none at its end.
    pub(crate) mark: Option<String>,
}

/// Consoles of stores make empty objects that stand for folders.
fn leave_out_markers(found: &mut Vec<(String, Version)>) {
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let folders: Vec<String> = found.iter().map(|(name, _)| format!("{name}/")).collect();
    let stands_for_folder = |at: usize| {
        found[at].1.bytes == 0
            && found[at + 1..].iter().take(64).any(|(name, _)| name.starts_with(&folders[at]))
    };
    let keep: Vec<bool> = (0..found.len()).map(|at| !stands_for_folder(at)).collect();
    let mut keep = keep.into_iter();
    found.retain(|_| keep.next().unwrap_or(true));
}

/// A source out of requests.
#[derive(Debug)]
pub(crate) struct Distant {
    remote: Arc<dyn Remote>,
    node: Arc<Node>,
}

#[derive(Debug, thiserror::Error)]
#[error("its listing does not end")]
struct Endless;

#[derive(Debug, thiserror::Error)]
#[error("there are {LISTED_MAX} objects or more below it: name a folder further down")]
struct TooMany;

// === impl Distant ===

impl Distant {
    pub(crate) fn new(remote: Arc<dyn Remote>, node: Arc<Node>) -> Self {
        Self { remote, node }
    }

    fn head(&self, key: &str) -> Result<Version, ObjectError> {
        let name = self.remote.name(key);
        self.node.wait(self.node.persist(&name, || self.remote.head(key)))
    }

    fn list_some(&self, key: &str, max: usize) -> Result<Vec<(String, Version)>, ObjectError> {
        let name = self.remote.name(key);
        let (mut found, mut mark) = (Vec::new(), None);
        for _ in 0..PARTS_MAX {
            let part = || self.remote.list(key, mark.as_deref(), max - found.len());
            let part = self.node.wait(self.node.persist_listing(&name, part))?;
            found.extend(part.objects);
            mark = part.mark;
            if mark.is_none() || found.len() >= max {
                found.truncate(max);
                leave_out_markers(&mut found);
                return Ok(found);
            }
        }
        Err(ObjectError::Read { name, source: Box::new(Endless) })
    }
}

impl Source for Distant {
    fn name(&self, path: &Path) -> String {
        self.remote.name(&path.to_string_lossy())
    }

    fn stat(&self, path: &Path) -> Result<Stat, ObjectError> {
        let key = key(path)?;
        if !key.is_empty() {
            match self.head(&key) {
                Ok(version) => return Ok(Stat::Object(version)),
                Err(ObjectError::NotFound { .. }) if self.remote.can_list() => {}
                Err(error) => return Err(error),
            }
        }
        match self.list_some(&key, 1)?.is_empty() {
            true => Err(ObjectError::NotFound { name: self.name(path) }),
            false => Ok(Stat::Folder),
        }
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>, ObjectError> {
        let key = key(folder)?;
        let found = self.list_some(&key, LISTED_MAX)?;
        if found.len() >= LISTED_MAX {
            return Err(ObjectError::Read { name: self.name(folder), source: Box::new(TooMany) });
        }
        let below = if key.is_empty() { 0 } else { key.len() + 1 };
        let hidden = |name: &str| name[below..].split('/').any(|part| part.starts_with('.'));
        let listed = |(name, version): (String, _)| Listed { path: name.into(), version };
        let seen = |(name, _): &(String, Version)| name.len() > below && !hidden(name);
        let mut found: Vec<_> = found.into_iter().filter(seen).collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        found.dedup_by(|(a, _), (b, _)| a == b);
        Ok(found.into_iter().map(listed).collect())
    }

    fn read_each(&self, wanted: &[Wanted]) -> Result<Vec<Bytes>, ObjectError> {
        let keys: Vec<_> = wanted.iter().map(|w| key(&w.path)).collect::<Result<_, _>>()?;
        let read = |(wanted, key): (Wanted, String)| {
            let (remote, node) = (self.remote.clone(), self.node.clone());
            let object = DistantObject::new(remote, node, key, wanted.version);
            async move { object.read_now(&wanted.range).await }
        };
        // Whatever was asked for is held to its version by each request: none is opened first.
        let all = stream::iter(wanted.iter().cloned().zip(keys).map(read));
        self.node.wait(all.buffered(OBJECTS_AT_A_TIME).try_collect())
    }

    fn anew(&self) -> Option<Arc<dyn Source>> {
        let remote = Arc::new(Anew(self.remote.clone()));
        Some(Arc::new(Self::new(remote, self.node.clone())))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Object>, ObjectError> {
        let key = key(path)?;
        let version = self.head(&key)?;
        Ok(Arc::new(DistantObject::new(self.remote.clone(), self.node.clone(), key, version)))
    }
}

/// The name that a source knows an object by: `.` and `..` resolved, without `/` around it.
fn key(path: &Path) -> Result<String, ObjectError> {
    let refused = |why: &str| {
        Err(ObjectError::Forbidden(format!("`{}` {why}: name an object", path.display())))
    };
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => match part.to_str() {
                Some(part) => parts.push(part),
                None => return refused("is not UTF-8"),
            },
            Component::ParentDir if parts.pop().is_none() => {
                return refused("leads out of its source");
            }
            _ => {}
        }
    }
    Ok(parts.join("/"))
}
