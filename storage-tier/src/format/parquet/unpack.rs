//! A row group's samples.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use headwater_storage_client::Object;

use super::cells::Cells;
use super::footer::Footer;
use crate::StorageError;
use crate::format::{Packed, SampleSink};

/// Columns this close together are read as one.
const GAP_BYTES: u64 = 1 << 20;

/// A row group to unpack.
pub(super) struct RowGroup {
    pub(super) object: Arc<dyn Object>,
    pub(super) footer: Arc<Footer>,
    /// Its number in the file.
    pub(super) number: usize,
    /// Its first row's number in the file.
    pub(super) first_row: u64,
    /// The file's name without its ending: what keys begin with where the file has none.
    pub(super) stem: String,
}

impl fmt::Debug for RowGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row group {} of {}", self.number, self.object.name())
    }
}

impl Packed for RowGroup {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let rows = self.footer.metadata.row_group(self.number).num_rows() as u32;
        let mut chunks = self.chunks()?;
        let columns = &self.footer.columns;
        let mut cells = Vec::with_capacity(columns.fields.len());
        for column in &columns.fields {
            cells.push((column, self.cells(&mut chunks, column.leaf, rows)?));
        }
        let mut keys = match columns.key {
            Some(leaf) => Some((leaf, self.cells(&mut chunks, leaf, rows)?)),
            None => None,
        };
        let (mut text, mut key) = (Vec::new(), String::new());
        for row in 0..rows {
            let broken = |leaf: usize, fault: String| self.broken(leaf, Some(row), &fault);
            key.clear();
            if let Some((leaf, keys)) = &mut keys {
                let path = keys.next(&mut text).map_err(|fault| broken(*leaf, fault))?;
                key.push_str(std::str::from_utf8(path.unwrap_or_default()).unwrap_or_default());
            }
            if key.is_empty() {
                key = format!("{}/{}", self.stem, self.first_row + u64::from(row));
            }
            sink.sample(&key)?;
            for (column, cells) in &mut cells {
                let value = cells.next(&mut text).map_err(|fault| broken(column.leaf, fault))?;
                let Some(value) = value else { continue };
                sink.field(&column.name, value)?;
                let Some((field, names)) = &column.classes else { continue };
                let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                let class = number.and_then(|number: usize| names.get(number));
                if let Some(class) = class {
                    sink.field(field, class.as_bytes())?;
                }
            }
        }
        Ok(())
    }
}

// === impl RowGroup ===

impl RowGroup {
    /// The bytes of each column that is read.
    fn chunks(&self) -> Result<HashMap<usize, Bytes>, StorageError> {
        let group = self.footer.metadata.row_group(self.number);
        let leaves = self.footer.columns.leaves();
        let mut wanted: Vec<(usize, Range<u64>)> = leaves
            .into_iter()
            .filter_map(|leaf| Some((leaf, self.footer.chunk(group, leaf)?)))
            .collect();
        wanted.sort_by_key(|(_, range)| range.start);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (_, range) in &wanted {
            match runs.last_mut() {
                Some(run) if range.start <= run.end + GAP_BYTES => run.end = run.end.max(range.end),
                _ => runs.push(range.clone()),
            }
        }
        let read = self.object.read_many(&runs)?;
        self.object.check_unchanged()?;
        let slice = |(leaf, range): (usize, Range<u64>)| {
            let at = runs.iter().rposition(|run| run.start <= range.start)?;
            let start = (range.start - runs[at].start) as usize;
            let end = (range.end - runs[at].start) as usize;
            Some((leaf, read[at].slice(start..end)))
        };
        Ok(wanted.into_iter().filter_map(slice).collect())
    }

    fn cells(
        &self,
        chunks: &mut HashMap<usize, Bytes>,
        leaf: usize,
        rows: u32,
    ) -> Result<Cells, StorageError> {
        let column = self.footer.metadata.row_group(self.number).column(leaf);
        let chunk = chunks.remove(&leaf).unwrap_or_default();
        Cells::new(column, chunk, rows).map_err(|fault| self.broken(leaf, None, &fault))
    }

    fn broken(&self, leaf: usize, row: Option<u32>, fault: &str) -> StorageError {
        let group = self.footer.metadata.row_group(self.number);
        let column = group.column(leaf).column_path().string();
        let row = row.map_or_else(String::new, |row| format!(", row {row}"));
        let place = format!("column `{column}` of row group {}{row}", self.number);
        StorageError::broken(self.object.name(), place, fault)
    }
}
