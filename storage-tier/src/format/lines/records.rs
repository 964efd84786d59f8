//! Records of a file of lines, one after the other.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::Arc;

use headwater_core::shard_index::FIELD_NAMES_MAX;
use headwater_storage_client::Object;

use super::input::{GZIP_MAGIC, Input};
use super::{LineKind, json};
use crate::StorageError;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// Field of a line of plain text.
const TEXT_FIELD: &str = "txt";

/// Names and values of one record.
pub(super) type Fields = Vec<(String, Vec<u8>)>;

/// A file that is read record by record.
#[derive(Debug)]
pub(super) struct Records {
    name: String,
    reading: Reading,
    /// Number of the record that is read next, from 0.
    number: u64,
    /// Fields that are wanted, in this order; all where there is none.
    columns: Vec<String>,
}

#[derive(Debug)]
enum Reading {
    Lines {
        json: bool,
        input: Input,
        /// Offset of the line that is read next.
        at: u64,
    },
    Table {
        reader: Box<csv::Reader<Input>>,
        header: Vec<String>,
        /// Offset of the reader's first byte.
        base: u64,
    },
}

// === impl Records ===

impl Records {
    /// A file from its beginning, or from a record whose offset and number are known.
    ///
    /// # Errors
    /// A table without a header, or one that lacks a column that is wanted.
    pub(super) fn open(
        object: &Arc<dyn Object>,
        kind: LineKind,
        columns: &[String],
        from: Option<(u64, u64)>,
    ) -> Result<Self, StorageError> {
        let (offset, number) = from.unwrap_or((0, 0));
        let head = object.read(0..object.bytes().min(3))?;
        let gzip = head.starts_with(&GZIP_MAGIC);
        let input = |offset: u64| Input::new(object.clone(), offset..object.bytes(), gzip);
        let (name, columns) = (object.name(), columns.to_vec());
        let delimiter = match kind {
            LineKind::Csv => b',',
            LineKind::Tsv => b'\t',
            LineKind::Json | LineKind::Text => {
                let (json, input) = (kind == LineKind::Json, input(offset));
                let reading = Reading::Lines { json, input, at: offset };
                return Ok(Self { name, reading, number, columns });
            }
        };
        let reader = |offset: u64, headers: bool| {
            let mut builder = csv::ReaderBuilder::new();
            builder.has_headers(headers).delimiter(delimiter);
            Box::new(builder.from_reader(input(offset)))
        };
        let mut from_start = reader(0, true);
        let header = header(&name, &columns, &mut from_start)?;
        let reader = if offset == 0 { from_start } else { reader(offset, false) };
        let reading = Reading::Table { reader, header, base: offset };
        Ok(Self { name, reading, number, columns })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// A record that is none, too long, or not UTF-8; an object that cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Fields>, StorageError> {
        let found = match &mut self.reading {
            Reading::Lines { .. } => self.next_line()?,
            Reading::Table { .. } => self.next_row()?,
        };
        let Some(mut fields) = found else { return Ok(None) };
        if !self.columns.is_empty() {
            let mut wanted = Vec::with_capacity(self.columns.len());
            for name in &self.columns {
                let at = fields.iter().position(|(found, _)| found == name);
                wanted.extend(at.map(|at| fields.swap_remove(at)));
            }
            fields = wanted;
        }
        self.number += 1;
        Ok(Some(fields))
    }

    /// Compares what was read with the file's checksum, if it has one.
    ///
    /// # Errors
    /// Another checksum, or an object that cannot be read.
    pub(super) fn check(&mut self) -> Result<(), StorageError> {
        let input = match &mut self.reading {
            Reading::Lines { input, .. } => input,
            Reading::Table { reader, .. } => reader.get_mut(),
        };
        let Err(error) = input.read_to_checksum() else { return Ok(()) };
        let fault = input.take_fault();
        let broken = || self.broken("gzip", &error.to_string());
        Err(fault.map_or_else(broken, Into::into))
    }

    /// Offset of the next record; the bytes before it may hold space.
    pub(super) fn position(&self) -> u64 {
        match &self.reading {
            Reading::Lines { at, .. } => *at,
            Reading::Table { reader, base, .. } => base + reader.position().byte(),
        }
    }

    fn next_row(&mut self) -> Result<Option<Fields>, StorageError> {
        let Reading::Table { reader, header, .. } = &mut self.reading else { return Ok(None) };
        reader.get_mut().begin_record();
        let mut row = csv::ByteRecord::new();
        let read = reader.read_byte_record(&mut row).map_err(|error| error.to_string());
        if matches!(read, Ok(false)) {
            return Ok(None);
        }
        let fault = read.err().or_else(|| {
            let (found, wanted) = (row.len(), header.len());
            (found != wanted).then(|| format!("it has {found} values, the header {wanted}"))
        });
        let fields = header.iter().cloned().zip(row.iter().map(<[u8]>::to_vec)).collect::<Fields>();
        if let Some(fault) = fault {
            let read = reader.get_mut().take_fault();
            return Err(read.map_or_else(|| self.broken(&self.row(), &fault), Into::into));
        }
        if fields.iter().any(|(_, value)| std::str::from_utf8(value).is_err()) {
            return Err(self.broken(&self.row(), "a value is not UTF-8"));
        }
        Ok(Some(fields))
    }

    /// The next line that counts: all of a text, those of JSON that are not empty.
    fn next_line(&mut self) -> Result<Option<Fields>, StorageError> {
        let Reading::Lines { json, input, at } = &mut self.reading else { return Ok(None) };
        let json = *json;
        loop {
            input.begin_record();
            let mut line = Vec::new();
            let read = input.read_until(b'\n', &mut line);
            if let Err(error) = read {
                let fault = input.take_fault();
                let broken = || self.broken(&self.row(), &error.to_string());
                return Err(fault.map_or_else(broken, Into::into));
            }
            if line.is_empty() {
                return Ok(None);
            }
            let first = *at == 0;
            *at += line.len() as u64;
            if line.ends_with(b"\n") {
                line.truncate(line.len() - 1);
                if line.ends_with(b"\r") {
                    line.truncate(line.len() - 1);
                }
            }
            if first && line.starts_with(&BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            if json && line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return match json {
                true => json::fields(&line),
                false if std::str::from_utf8(&line).is_err() => Err("it is not UTF-8".to_owned()),
                false => Ok(vec![(TEXT_FIELD.to_owned(), line)]),
            }
            .and_then(unique)
            .map(Some)
            .map_err(|fault| self.broken(&self.row(), &fault));
        }
    }

    fn row(&self) -> String {
        format!("record {}", self.number + 1)
    }

    fn broken(&self, place: &str, fault: &str) -> StorageError {
        broken(&self.name, place, fault)
    }
}

/// Names of a table's columns.
fn header(
    file: &str,
    columns: &[String],
    reader: &mut csv::Reader<Input>,
) -> Result<Vec<String>, StorageError> {
    let broken = |fault: &str| broken(file, "header", fault);
    let read = reader.byte_headers().cloned();
    let row = read.map_err(|error| {
        let fault = reader.get_mut().take_fault();
        fault.map_or_else(|| broken(&error.to_string()), Into::into)
    })?;
    let names: Result<Vec<String>, _> =
        row.iter().map(|name| String::from_utf8(name.to_vec())).collect();
    let names = names.map_err(|_| broken("a name is not UTF-8"))?;
    let unserved = |reason| StorageError::Unserved { name: file.to_owned(), reason };
    if columns.is_empty() && names.len() > FIELD_NAMES_MAX {
        return Err(unserved(format!(
            "it has {} columns, limit {FIELD_NAMES_MAX}: choose some with `columns`",
            names.len()
        )));
    }
    let mut known = HashSet::new();
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() || !known.insert(name) {
            let name = name.escape_debug();
            let remedy = "give each column a name of its own in the first row";
            return Err(unserved(format!("column {} is named `{name}`: {remedy}", at + 1)));
        }
    }
    if let Some(missing) = columns.iter().find(|wanted| !names.contains(wanted)) {
        let instead = headwater_core::fields::found_instead(&names, missing);
        return Err(unserved(format!("`columns` names `{missing}`, and it has {instead}")));
    }
    Ok(names)
}

fn broken(file: &str, place: &str, fault: &str) -> StorageError {
    let (name, place) = (file.to_owned(), place.to_owned());
    StorageError::Broken { name, place, fault: fault.to_owned() }
}

fn unique(fields: Fields) -> Result<Fields, String> {
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("it has two values named `{}`", twice[0].escape_debug())),
        None => Ok(fields),
    }
}
