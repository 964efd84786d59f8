//! An entry of the cache read as an object.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::CachedObject;
use crate::buffers::filled;
use crate::{Object, ObjectError};

impl Object for CachedObject {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn bytes(&self) -> u64 {
        self.entry.payload_bytes()
    }

    fn version(&self) -> String {
        self.version.to_string()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let _reading = self.begin()?;
        let read = |range: &Range<u64>| {
            if range.end > self.bytes() {
                return Err(ObjectError::Changed { name: self.name.clone() });
            }
            let at = self.entry.payload_offset() + range.start;
            filled(range.end.saturating_sub(range.start) as usize, |to| {
                self.entry.file().read_exact_at(to, at).map_err(|error| self.failed(error))
            })
        };
        ranges.iter().map(read).collect()
    }

    /// An entry is never written to again.
    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(())
    }

    fn cached(&self) -> Option<&CachedObject> {
        Some(self)
    }
}
