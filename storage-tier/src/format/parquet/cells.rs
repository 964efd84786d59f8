//! The values of a column, row by row, as the bytes of fields.

use std::io::Write;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::footer::guarded;
use super::thrift::{self, Met};

/// Rows that are taken out of a page at once.
const BATCH_ROWS: usize = 32;
/// How much larger than its bytes a page may become, beside [`PAGE_BYTES_FREE`]: more than gzip can.
const PAGE_GROWTH_MAX: u64 = 1100;
/// What a page may become in any case: as a chunk of an array.
const PAGE_BYTES_FREE: u64 = 256 << 20;

/// A column of a row group.
pub(super) enum Cells {
    Bool(Values<BoolType>),
    Int32(Values<Int32Type>, bool),
    Int64(Values<Int64Type>, bool),
    Float(Values<FloatType>),
    Double(Values<DoubleType>),
    Bytes(Values<ByteArrayType>),
    Fixed(Values<FixedLenByteArrayType>),
}

/// The values of some rows.
pub(super) struct Values<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The level of a value that is there.
    whole: i16,
    levels: Vec<i16>,
    values: Vec<T::T>,
    /// The next row within `levels`, and the next of `values`.
    row: usize,
    value: usize,
    rows: usize,
}

// === impl Cells ===

impl Cells {
    /// A column, out of all its bytes.
    ///
    /// # Errors
    /// Pages that do not fit these bytes; a compression that this program does not know.
    pub(super) fn new(
        column: &ColumnChunkMetaData,
        chunk: Bytes,
        rows: u32,
    ) -> Result<Self, String> {
        let mistaken = check_pages(&chunk, column.compression())?;
        let chunk = if mistaken.is_empty() { chunk } else { switched_on(&chunk, &mistaken) };
        let descriptor = column.column_descr_ptr();
        let unsigned = matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        );
        let whole = descriptor.max_def_level();
        // The bytes are those of this column only.
        let column = column.clone().into_builder();
        let column = column
            .set_dictionary_page_offset(None)
            .set_data_page_offset(0)
            .set_total_compressed_size(chunk.len() as i64)
            .build()
            .map_err(|error| error.to_string())?;
        let reader = guarded(|| {
            let pages = SerializedPageReader::new(chunk.into(), &column, rows as usize, None)?;
            Ok(get_column_reader(descriptor, Box::new(pages)))
        })?;
        Ok(match reader {
            ColumnReader::BoolColumnReader(reader) => Self::Bool(Values::new(reader, whole)),
            ColumnReader::Int32ColumnReader(reader) => {
                Self::Int32(Values::new(reader, whole), unsigned)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                Self::Int64(Values::new(reader, whole), unsigned)
            }
            ColumnReader::FloatColumnReader(reader) => Self::Float(Values::new(reader, whole)),
            ColumnReader::DoubleColumnReader(reader) => Self::Double(Values::new(reader, whole)),
            ColumnReader::ByteArrayColumnReader(reader) => Self::Bytes(Values::new(reader, whole)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Self::Fixed(Values::new(reader, whole))
            }
            ColumnReader::Int96ColumnReader(_) => return Err("it holds INT96".to_owned()),
        })
    }

    /// The next row's bytes; `None` where it has no value. Numbers are written into `text`.
    ///
    /// # Errors
    /// Bytes that are not of this format, or fewer rows than there should be.
    pub(super) fn next<'a>(
        &'a mut self,
        text: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, String> {
        text.clear();
        let written = match self {
            Self::Bytes(values) => return Ok(values.next()?.map(|value| value.data())),
            Self::Fixed(values) => return Ok(values.next()?.map(|value| value.data())),
            Self::Bool(values) => values.next()?.map(|&value| write!(text, "{}", u8::from(value))),
            Self::Int32(values, false) => values.next()?.map(|value| write!(text, "{value}")),
            Self::Int32(values, true) => {
                values.next()?.map(|&value| write!(text, "{}", value as u32))
            }
            Self::Int64(values, false) => values.next()?.map(|value| write!(text, "{value}")),
            Self::Int64(values, true) => {
                values.next()?.map(|&value| write!(text, "{}", value as u64))
            }
            Self::Float(values) => values.next()?.map(|value| write!(text, "{value:?}")),
            Self::Double(values) => values.next()?.map(|value| write!(text, "{value:?}")),
        };
        let Some(written) = written else { return Ok(None) };
        written.map_err(|error| error.to_string())?;
        Ok(Some(text))
    }
}

// === impl Values ===

impl<T: DataType> Values<T> {
    fn new(reader: ColumnReaderImpl<T>, whole: i16) -> Self {
        Self { reader, whole, levels: Vec::new(), values: Vec::new(), row: 0, value: 0, rows: 0 }
    }

    fn next(&mut self) -> Result<Option<&T::T>, String> {
        if self.row == self.rows {
            self.fill()?;
        }
        let there = self.whole == 0 || self.levels.get(self.row) == Some(&self.whole);
        self.row += 1;
        if !there {
            return Ok(None);
        }
        self.value += 1;
        self.values.get(self.value - 1).map(Some).ok_or_else(|| "a value is missing".to_owned())
    }

    fn fill(&mut self) -> Result<(), String> {
        self.levels.clear();
        self.values.clear();
        (self.row, self.value) = (0, 0);
        let levels = (self.whole > 0).then_some(&mut self.levels);
        let (reader, values) = (&mut self.reader, &mut self.values);
        let (rows, ..) = guarded(|| reader.read_records(BATCH_ROWS, levels, None, values))?;
        self.rows = rows;
        if rows == 0 { Err("it has fewer rows than the row group".to_owned()) } else { Ok(()) }
    }
}

/// The same bytes with switches on that are off.
fn switched_on(chunk: &[u8], places: &[usize]) -> Bytes {
    const KIND: u8 = 0x0f;
    const ON: u8 = 1;
    let mut chunk = chunk.to_vec();
    places.iter().for_each(|&at| chunk[at] = chunk[at] & !KIND | ON);
    chunk.into()
}

/// Holds the sizes in all pages' heads against the bytes that there are, before memory is taken for
/// what they say. Gives the places of switches that say `not compressed` of pages that are: Arrow's C++ library wrote
/// such pages before 3.0.
fn check_pages(chunk: &[u8], compression: Compression) -> Result<Vec<usize>, String> {
    let (mut at, mut mistaken) = (0, Vec::new());
    while at < chunk.len() {
        let (mut bytes, mut unpacked, mut entries, mut off) = (-1, -1, 0, None);
        let mut met = |path: &[i16], met: Met| match (path, met) {
            ([2], Met::Number(number)) => unpacked = number,
            ([3], Met::Number(number)) => bytes = number,
            // Values in a dictionary.
            ([7, 1], Met::Number(number)) => entries = number,
            // `is_compressed` of the second version.
            ([8, 7], Met::Off(place)) => off = Some(at + place),
            _ => {}
        };
        let head = thrift::walk(&chunk[at..], &mut met);
        let head = head.ok_or_else(|| format!("no page begins at byte {at} of it"))?;
        let left = (chunk.len() - at - head) as u64;
        let fault = |what: &str| format!("the page at byte {at} of it {what}");
        let bytes = u64::try_from(bytes).ok().filter(|&bytes| bytes <= left);
        let bytes = bytes.ok_or_else(|| fault("is longer than the column"))?;
        let largest = match compression {
            Compression::UNCOMPRESSED => bytes,
            _ => PAGE_BYTES_FREE + PAGE_GROWTH_MAX * bytes,
        };
        let unpacked = u64::try_from(unpacked).ok().filter(|&unpacked| unpacked <= largest);
        let unpacked = unpacked.ok_or_else(|| fault("would become too large"))?;
        if !(0..=unpacked as i64).contains(&entries) {
            return Err(fault("has more values than bytes"));
        }
        let is_packed = compression != Compression::UNCOMPRESSED && unpacked != bytes;
        mistaken.extend(off.filter(|_| is_packed));
        at += head + bytes as usize;
    }
    Ok(mistaken)
}
