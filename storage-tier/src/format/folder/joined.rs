//! Files one after the other, as if they were one object. Each is opened when it is read.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use headwater_storage_client::{Object, ObjectError};

use super::files::Files;
use crate::source::{Place, Wanted};

/// The files of one shard.
#[derive(Debug)]
pub(super) struct Joined {
    folder: Place,
    files: Arc<Files>,
    /// The shard's first file.
    first: usize,
    /// Where each of its files starts, and where the last one ends.
    starts: Vec<u64>,
}

// === impl Joined ===

impl Joined {
    pub(super) fn new(folder: Place, files: Arc<Files>, range: Range<usize>) -> Self {
        let first = range.start;
        let mut starts = vec![0];
        for at in range {
            starts.push(starts[starts.len() - 1] + files.bytes(at));
        }
        Self { folder, files, first, starts }
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.path.join(self.files.name(self.first + at))
    }

    /// The pieces of files that a range is made of.
    fn pieces(&self, range: &Range<u64>, to: &mut Vec<Wanted>) {
        let mut at = self.starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        let mut start = range.start;
        while start < range.end && at + 1 < self.starts.len() {
            let (file, end) = (self.starts[at], self.starts[at + 1].min(range.end));
            if start < end {
                let version = self.files.version(self.first + at);
                to.push(Wanted { path: self.path(at), version, range: start - file..end - file });
                start = end;
            }
            at += 1;
        }
    }
}

impl Object for Joined {
    fn name(&self) -> String {
        self.folder.name()
    }

    fn bytes(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Of all its files: what is read of one is compared with the version of that file.
    fn version(&self) -> String {
        let versions = (0..self.starts.len() - 1).map(|at| self.files.tag(self.first + at));
        versions.collect::<Vec<_>>().join(" ")
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let mut wanted = Vec::new();
        let mut ends = Vec::new();
        for range in ranges {
            if range.end > self.bytes() {
                return Err(ObjectError::Changed { name: self.name() });
            }
            self.pieces(range, &mut wanted);
            ends.push(wanted.len());
        }
        let read = self.folder.source.read_each(&wanted)?;
        let mut start = 0;
        let of_range = |end: usize| {
            let pieces = &read[start..end];
            start = end;
            if let [one] = pieces { one.clone() } else { pieces.concat().into() }
        };
        Ok(ends.into_iter().map(of_range).collect())
    }

    /// Each file's version was compared when it was read.
    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_files_joined_and_a_changed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("a.jpg", "0123"), ("b.jpg", ""), ("c.png", "456789")] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let place = Place::of_file(folder.path());
        let files = Arc::new(Files::find(&place).unwrap());
        let joined = Joined::new(place.clone(), files.clone(), 0..3);
        assert_eq!(joined.bytes(), 10);
        let ranges = [0..4, 2..6, 4..4, 4..10, 0..10];
        let read = joined.read_many(&ranges).unwrap();
        assert_eq!(read, ["0123", "2345", "", "456789", "0123456789"].map(Bytes::from));
        assert!(joined.read(5..11).is_err());
        let last = Joined::new(place, files, 2..3);
        assert_eq!(last.read(1..3).unwrap(), "56");

        std::fs::write(folder.path().join("c.png"), "45678").unwrap();
        assert_eq!(joined.read(0..4).unwrap(), "0123");
        let error = joined.read(0..6).unwrap_err();
        assert!(
            matches!(&error, ObjectError::Changed { name } if name.ends_with("c.png")),
            "{error}"
        );
    }
}
