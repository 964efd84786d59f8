//! A configured list, and what looking at it shows.

use std::collections::HashSet;

use crate::DiscoveryError;
use crate::address::{Piece, addresses};
use crate::entry::Entry;
use crate::followed::Followed;

/// The entries of a list, with what each showed at the last look that found something.
#[derive(Clone, Debug)]
pub struct Places {
    entries: Vec<Looked>,
}

/// An entry, what it showed at the last look that found something, and who tells of its changes.
#[derive(Clone, Debug)]
struct Looked {
    entry: Entry,
    before: Vec<String>,
    followed: Option<Followed>,
}

/// What one look showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Addresses `host:port`, each once, in the list's order. Of an entry that gives nothing now,
    /// those that it gave before: a name server that is down sends nobody away.
    pub addresses: Vec<String>,
    /// The entries that gave nothing.
    pub troubles: Vec<DiscoveryError>,
}

// === impl Places ===

impl Places {
    /// Parses a list. Nothing is looked up.
    ///
    /// # Errors
    /// Names the first entry that cannot be understood, and how to write it.
    pub fn parse<T: AsRef<str>>(list: &[T]) -> Result<Self, DiscoveryError> {
        let mut entries = Vec::new();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for entry in list.iter().map(|entry| entry.as_ref().trim()) {
            match Entry::parse_prefixed(entry) {
                None => pieces.extend(Piece::all(entry)?),
                Some(prefixed) => {
                    entries.push(Entry::Written(addresses(&std::mem::take(&mut pieces))?));
                    entries.push(prefixed?);
                }
            }
        }
        entries.push(Entry::Written(addresses(&pieces)?));
        entries.retain(|entry| *entry != Entry::Written(Vec::new()));
        let looked = |entry| Looked { entry, before: Vec::new(), followed: None };
        Ok(Self { entries: entries.into_iter().map(looked).collect() })
    }

    /// Whether another look may show something else.
    #[must_use]
    pub fn change(&self) -> bool {
        self.entries.iter().any(|looked| looked.entry.changes())
    }

    /// An address that stands in the list twice as it is written.
    #[must_use]
    pub fn written_twice(&self) -> Option<&str> {
        let mut seen = HashSet::new();
        let written = self.entries.iter().filter_map(|looked| match &looked.entry {
            Entry::Written(addresses) => Some(addresses),
            Entry::Dns { .. } | Entry::File { .. } | Entry::Slices { .. } => None,
        });
        written.flatten().map(String::as_str).find(|address| !seen.insert(*address))
    }

    /// Looks at every entry. Blocks: names are resolved and files read. Pods are followed from the first look on, as long as
    /// this lives.
    pub fn look(&mut self) -> Sight {
        let mut sight = Sight { addresses: Vec::new(), troubles: Vec::new() };
        let mut seen = HashSet::new();
        for Looked { entry, before, followed } in &mut self.entries {
            match entry.look(followed) {
                Ok(found) => *before = found,
                Err(trouble) => sight.troubles.push(trouble),
            }
            let new = before.iter().filter(|address| seen.insert((*address).clone()));
            sight.addresses.extend(new.cloned());
        }
        sight
    }
}
