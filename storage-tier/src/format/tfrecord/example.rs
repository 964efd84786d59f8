//! `tf.train.Example`, taken apart without reading the bytes of its images.
//!
//! An Example has Features (1), which is a map: entries (1) of a name (1) and a Feature (2), which is
//! one of BytesList (1), FloatList (2), Int64List (3); each has its values as field 1.

use std::fmt::Write;
use std::ops::Range;

use headwater_storage_client::ObjectError;

use super::reach::Reach;

/// Values of one feature.
const NUMBERS_MAX: u64 = 65_536;
const PIECES_MAX: usize = 4096;
/// Bytes of a feature's name.
const NAME_BYTES_MAX: u64 = 4096;
/// Bytes of the longest number in protobuf.
const VARINT_BYTES_MAX: u64 = 10;

/// A field of a sample.
pub(super) struct Feature {
    pub(super) name: String,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// Bytes that lie here.
    Bytes(Range<u64>),
    /// Numbers as text.
    Text(String),
}

/// Why a record cannot be taken apart.
pub(super) enum Fault {
    /// Its bytes are wrong from here on.
    Broken(u64, String),
    /// It is whole, but cannot be served.
    Unserved(String),
    /// Its bytes cannot be read.
    Object(ObjectError),
}

impl From<ObjectError> for Fault {
    fn from(error: ObjectError) -> Self {
        Self::Object(error)
    }
}

/// The fields of the record that lies in a range, in its order. `columns` names the features that are
/// wanted; none: all.
pub(super) fn features(
    reach: &mut dyn Reach,
    record: Range<u64>,
    columns: &[String],
) -> Result<Vec<Feature>, Fault> {
    let mut found = Vec::new();
    let mut walk = Walk { reach, columns };
    let mut at = record.start;
    while at < record.end {
        let field = walk.field(&mut at, record.end)?;
        match (field.number, field.bytes) {
            (1, Some(features)) => walk.features(features, &mut found)?,
            (2, Some(_)) => {
                return Err(Fault::Unserved(
                    "its records are `tf.train.SequenceExample`: write `tf.train.Example`, one for \
                     each sample"
                        .to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(found)
}

struct Walk<'a> {
    reach: &'a mut dyn Reach,
    columns: &'a [String],
}

/// A field of a message.
struct Field {
    number: u64,
    /// Where it lies, for those with a length; where a number of four bytes lies.
    bytes: Option<Range<u64>>,
    /// Its value, for whole numbers.
    whole: Option<u64>,
}

// === impl Walk ===

impl Walk<'_> {
    fn varint(&mut self, at: &mut u64, end: u64) -> Result<u64, Fault> {
        let start = *at;
        let bytes = self.reach.get(start..end.min(start + VARINT_BYTES_MAX))?;
        let (value, used) = varint(bytes).ok_or_else(|| no_number(start))?;
        *at += used as u64;
        Ok(value)
    }

    fn field(&mut self, at: &mut u64, end: u64) -> Result<Field, Fault> {
        let start = *at;
        let tag = self.varint(at, end)?;
        let (mut bytes, mut whole) = (None, None);
        let length = match tag & 7 {
            0 => {
                whole = Some(self.varint(at, end)?);
                0
            }
            1 => 8,
            2 => self.varint(at, end)?,
            5 => 4,
            kind => return Err(Fault::Broken(start, format!("protobuf has no kind {kind}"))),
        };
        if length > end - *at {
            return Err(Fault::Broken(start, "a field is longer than its message".to_owned()));
        }
        if tag & 7 != 0 {
            bytes = Some(*at..*at + length);
        }
        *at += length;
        // A number of eight bytes is in no message here.
        let number = if tag & 7 == 1 { 0 } else { tag >> 3 };
        Ok(Field { number, bytes, whole })
    }

    fn features(&mut self, features: Range<u64>, found: &mut Vec<Feature>) -> Result<(), Fault> {
        let mut at = features.start;
        while at < features.end {
            let field = self.field(&mut at, features.end)?;
            if let (1, Some(entry)) = (field.number, field.bytes) {
                self.entry(entry, found)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: Range<u64>, found: &mut Vec<Feature>) -> Result<(), Fault> {
        let (mut name, mut feature) = (None, None);
        let mut at = entry.start;
        while at < entry.end {
            let field = self.field(&mut at, entry.end)?;
            match field.number {
                1 => name = field.bytes,
                2 => feature = field.bytes,
                _ => {}
            }
        }
        let name = name.unwrap_or(entry.start..entry.start);
        if name.end - name.start > NAME_BYTES_MAX {
            return Err(Fault::Broken(name.start, "the name of a feature is too long".to_owned()));
        }
        let at = name.start;
        let name = std::str::from_utf8(self.reach.get(name)?)
            .map_err(|_| Fault::Broken(at, "the name of a feature is no text".to_owned()))?;
        let name = name.to_owned();
        if !self.columns.is_empty() && !self.columns.contains(&name) {
            return Ok(());
        }
        let Some(feature) = feature else { return Ok(()) };
        let mut list = None;
        let mut at = feature.start;
        while at < feature.end {
            let field = self.field(&mut at, feature.end)?;
            if let (1..=3, Some(bytes)) = (field.number, field.bytes) {
                list = Some((field.number, bytes));
            }
        }
        match list {
            Some((1, list)) => self.pieces(name, list, found),
            Some((kind, list)) => self.numbers(name, kind, list, found),
            None => Ok(()),
        }
    }

    /// One piece is the field itself; of several each is one, with its number behind the name.
    fn pieces(
        &mut self,
        name: String,
        list: Range<u64>,
        found: &mut Vec<Feature>,
    ) -> Result<(), Fault> {
        let mut pieces = Vec::new();
        let mut at = list.start;
        while at < list.end {
            let field = self.field(&mut at, list.end)?;
            if let (1, Some(bytes)) = (field.number, field.bytes) {
                pieces.push(bytes);
            }
            if pieces.len() > PIECES_MAX {
                return Err(Fault::Unserved(format!(
                    "feature `{name}` has more than {PIECES_MAX} values: write them as one"
                )));
            }
        }
        if let [piece] = &pieces[..] {
            found.push(Feature { name, value: Value::Bytes(piece.clone()) });
            return Ok(());
        }
        for (number, piece) in pieces.into_iter().enumerate() {
            let name = format!("{name}.{number}");
            found.push(Feature { name, value: Value::Bytes(piece) });
        }
        Ok(())
    }

    /// One number is its text; several are a list of JSON.
    fn numbers(
        &mut self,
        name: String,
        kind: u64,
        list: Range<u64>,
        found: &mut Vec<Feature>,
    ) -> Result<(), Fault> {
        let (mut text, mut count) = (String::new(), 0_u64);
        let mut add = |number: std::fmt::Arguments<'_>| {
            let comma = if text.is_empty() { "" } else { "," };
            count += 1;
            // Writing into a string does not fail.
            let _ = write!(text, "{comma}{number}");
            count <= NUMBERS_MAX
        };
        let too_many = || {
            Fault::Unserved(format!(
                "feature `{name}` is a list of more than {NUMBERS_MAX} numbers: write it as bytes"
            ))
        };
        let mut at = list.start;
        while at < list.end {
            let field = self.field(&mut at, list.end)?;
            if field.number != 1 {
                continue;
            }
            if let Some(whole) = field.whole {
                if kind != 3 || !add(format_args!("{}", whole as i64)) {
                    return Err(too_many());
                }
                continue;
            }
            let packed = field.bytes.unwrap_or_default();
            if packed.end - packed.start > NUMBERS_MAX * VARINT_BYTES_MAX {
                return Err(too_many());
            }
            let start = packed.start;
            let mut bytes = self.reach.get(packed)?;
            while !bytes.is_empty() {
                let fits = if kind == 2 {
                    let (float, rest) =
                        bytes.split_first_chunk().ok_or_else(|| no_number(start))?;
                    bytes = rest;
                    add(format_args!("{:?}", f32::from_le_bytes(*float)))
                } else {
                    let (whole, used) = varint(bytes).ok_or_else(|| no_number(start))?;
                    bytes = &bytes[used..];
                    add(format_args!("{}", whole as i64))
                };
                if !fits {
                    return Err(too_many());
                }
            }
        }
        if count > 1 {
            text = format!("[{text}]");
        }
        if count > 0 {
            found.push(Feature { name, value: Value::Text(text) });
        }
        Ok(())
    }
}

fn no_number(at: u64) -> Fault {
    Fault::Broken(at, "no number of protobuf begins here".to_owned())
}

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(VARINT_BYTES_MAX as usize).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}
