//! Blocks of samples as gRPC messages whose payloads are copied neither into a message nor out of one.
//!
//! The bytes are those that prost and tonic would make of a [`v1::SampleBlock`]; any gRPC peer reads them.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{
    WireType, encode_key, encode_varint, encoded_len_varint, key_len, string, uint32, uint64,
};

use crate::augment::{MessageError, fault};
use crate::{MESSAGE_MAX_BYTES, v1};

/// Where samples are asked for.
pub const READ_SAMPLES_PATH: &str = "/headwater.v1.Storage/ReadSamples";

/// Bytes ahead of a gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// A payload with fewer bytes is copied: that costs less than a frame of its own, and a label does not
/// keep the memory of the frame that it came in.
const COPIED_BYTES: usize = 4 << 10;

/// A block as one gRPC message, in chunks to be sent one after the other. A field's bytes are a chunk
/// of their own, unless they are few.
#[must_use]
pub fn block_chunks(block: v1::SampleBlock) -> Vec<Bytes> {
    let lengths: Vec<usize> = block.samples.iter().map(sample_len).collect();
    let fetch = match block.fetch_us {
        0 => 0,
        fetch_us => key_len(BLOCK_FETCH) + encoded_len_varint(fetch_us),
    };
    let whole = fetch + lengths.iter().map(|length| SAMPLES.len(*length)).sum::<usize>();
    let mut chunks = Chunks { done: Vec::new(), open: BytesMut::with_capacity(PREFIX_BYTES + 256) };
    chunks.open.put_u8(0);
    chunks.open.put_u32(whole.try_into().expect("a block is far below 4 GiB"));
    for (sample, length) in block.samples.into_iter().zip(lengths) {
        SAMPLES.begin(length, &mut chunks.open);
        chunks.sample(sample);
    }
    if block.fetch_us != 0 {
        uint64::encode(BLOCK_FETCH, &block.fetch_us, &mut chunks.open);
    }
    chunks.finish()
}

/// A field of a message that has a length: its number.
#[derive(Clone, Copy)]
struct Delimited(u32);

const SAMPLES: Delimited = Delimited(1);
const BLOCK_FETCH: u32 = 2;
const SAMPLE_INDEX: u32 = 1;
const SAMPLE_KEY: u32 = 2;
const SAMPLE_FIELDS: Delimited = Delimited(3);
const SAMPLE_BAD: u32 = 4;
const FIELD_NAME: u32 = 1;
const FIELD_DATA: Delimited = Delimited(2);
const FIELD_MORE: u32 = 3;
const FIELD_ENTRIES: Delimited = Delimited(4);

// === impl Delimited ===

impl Delimited {
    /// Length of a field of `bytes` bytes, with its key and its length.
    fn len(self, bytes: usize) -> usize {
        key_len(self.0) + encoded_len_varint(bytes as u64) + bytes
    }

    fn begin(self, bytes: usize, to: &mut BytesMut) {
        encode_key(self.0, WireType::LengthDelimited, to);
        encode_varint(bytes as u64, to);
    }
}

fn text_len(number: u32, text: &str) -> usize {
    if text.is_empty() { 0 } else { Delimited(number).len(text.len()) }
}

fn field_len(field: &v1::Field) -> usize {
    let data = if field.data.is_empty() { 0 } else { FIELD_DATA.len(field.data.len()) };
    let more = match field.more {
        0 => 0,
        more => key_len(FIELD_MORE) + encoded_len_varint(more),
    };
    let entries = match field.entries.len() {
        0 => 0,
        bytes => FIELD_ENTRIES.len(bytes),
    };
    text_len(FIELD_NAME, &field.name) + data + more + entries
}

fn sample_len(sample: &v1::Sample) -> usize {
    let index = match sample.index {
        0 => 0,
        index => key_len(SAMPLE_INDEX) + encoded_len_varint(index.into()),
    };
    let fields = sample.fields.iter().map(|field| SAMPLE_FIELDS.len(field_len(field)));
    let key = text_len(SAMPLE_KEY, &sample.key);
    index + key + fields.sum::<usize>() + text_len(SAMPLE_BAD, &sample.bad)
}

/// Chunks while they are made.
struct Chunks {
    done: Vec<Bytes>,
    /// What is copied, until a payload comes that is not.
    open: BytesMut,
}

// === impl Chunks ===

impl Chunks {
    fn sample(&mut self, sample: v1::Sample) {
        let v1::Sample { index, key, fields, bad } = sample;
        if index != 0 {
            uint32::encode(SAMPLE_INDEX, &index, &mut self.open);
        }
        self.text(SAMPLE_KEY, &key);
        for field in fields {
            SAMPLE_FIELDS.begin(field_len(&field), &mut self.open);
            self.text(FIELD_NAME, &field.name);
            if !field.data.is_empty() {
                FIELD_DATA.begin(field.data.len(), &mut self.open);
                self.payload(field.data);
            }
            if field.more != 0 {
                uint64::encode(FIELD_MORE, &field.more, &mut self.open);
            }
            if !field.entries.is_empty() {
                FIELD_ENTRIES.begin(field.entries.len(), &mut self.open);
                self.payload(field.entries);
            }
        }
        self.text(SAMPLE_BAD, &bad);
    }

    fn text(&mut self, number: u32, text: &String) {
        if !text.is_empty() {
            string::encode(number, text, &mut self.open);
        }
    }

    fn payload(&mut self, data: Bytes) {
        if data.len() < COPIED_BYTES {
            self.open.put(data);
        } else {
            self.done.push(self.open.split().freeze());
            self.done.push(data);
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.done.push(self.open.freeze());
        }
        self.done
    }
}

/// An answer's bytes as they come, and the blocks in them. A payload that came in one chunk stays
/// where it is.
#[derive(Debug, Default)]
pub struct BlockAssembly {
    chunks: Rope,
    /// Length of the message that is arriving.
    message_bytes: Option<usize>,
}

// === impl BlockAssembly ===

impl BlockAssembly {
    /// Takes the next bytes.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// The next block, when it is whole.
    ///
    /// # Errors
    /// A compressed message, one over [`MESSAGE_MAX_BYTES`], or bytes that are no block.
    pub fn block(&mut self) -> Result<Option<v1::SampleBlock>, MessageError> {
        if self.message_bytes.is_none() && self.chunks.bytes >= PREFIX_BYTES {
            self.message_bytes = Some(prefix(&mut self.chunks)?);
        }
        let Some(bytes) = self.message_bytes.filter(|bytes| *bytes <= self.chunks.bytes) else {
            return Ok(None);
        };
        self.message_bytes = None;
        let mut message = self.chunks.split_to(bytes);
        let block = v1::SampleBlock::decode(&mut message);
        block.map(Some).map_err(|error| fault("samples", format!("cannot be read: {error}")))
    }

    /// To be asked when no more bytes come.
    ///
    /// # Errors
    /// A message lacks its end.
    pub fn finish(&self) -> Result<(), MessageError> {
        if self.message_bytes.is_some() || self.chunks.bytes > 0 {
            return Err(fault("samples", "ends within a message"));
        }
        Ok(())
    }
}

/// Reads what is ahead of a message: the message's length.
fn prefix(from: &mut impl Buf) -> Result<usize, MessageError> {
    let compressed = from.get_u8();
    let bytes = from.get_u32() as usize;
    if compressed != 0 {
        return Err(fault("samples", "is compressed, which nobody asked for"));
    }
    if bytes > MESSAGE_MAX_BYTES {
        let text = format!("has a message of {bytes} bytes, limit {MESSAGE_MAX_BYTES}");
        return Err(fault("samples", text));
    }
    Ok(bytes)
}

/// The message of a request that is one, without a copy.
///
/// # Errors
/// As many bytes as it announces are not there, or it is compressed, or no message of that kind.
pub fn request_message<M: prost::Message + Default>(mut body: Bytes) -> Result<M, MessageError> {
    if body.len() < PREFIX_BYTES {
        return Err(fault("request", "has no message"));
    }
    let bytes = prefix(&mut body)?;
    if body.len() != bytes {
        let text = format!("announces {bytes} bytes and has {}", body.len());
        return Err(fault("request", text));
    }
    M::decode(body).map_err(|error| fault("request", format!("cannot be read: {error}")))
}

/// A request of one message as it goes over the wire.
#[must_use]
pub fn request_bytes(message: &impl prost::Message) -> Bytes {
    let bytes = message.encoded_len();
    let mut to = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    to.put_u8(0);
    to.put_u32(bytes.try_into().expect("a request is far below 4 GiB"));
    message.encode(&mut to).expect("there is room for it");
    to.freeze()
}

/// Bytes in several pieces of memory.
#[derive(Debug, Default)]
struct Rope {
    /// None is empty.
    chunks: VecDeque<Bytes>,
    bytes: usize,
}

// === impl Rope ===

impl Rope {
    fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// The first `bytes` bytes, which are there.
    fn split_to(&mut self, bytes: usize) -> Self {
        let mut split = Self::default();
        while split.bytes < bytes {
            let chunk = self.take(bytes - split.bytes);
            split.push(chunk);
        }
        split
    }

    /// Up to `bytes` of the bytes that lie together.
    fn take(&mut self, bytes: usize) -> Bytes {
        let Some(first) = self.chunks.front_mut() else { return Bytes::new() };
        let taken = first.split_to(bytes.min(first.len()));
        if first.is_empty() {
            self.chunks.pop_front();
        }
        self.bytes -= taken.len();
        taken
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| chunk)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "{count} of {} bytes", self.bytes);
        while count > 0 {
            count -= self.take(count).len();
        }
    }

    fn copy_to_bytes(&mut self, bytes: usize) -> Bytes {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        if bytes >= COPIED_BYTES && self.chunk().len() >= bytes {
            return self.take(bytes);
        }
        let mut whole = BytesMut::with_capacity(bytes);
        while whole.len() < bytes {
            let next = self.take(bytes - whole.len());
            whole.put(next);
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn field(name: &str, bytes: usize) -> v1::Field {
        v1::Field {
            name: name.to_owned(),
            data: vec![bytes as u8; bytes].into(),
            more: bytes as u64 / 5,
            entries: vec![9; bytes % 400].into(),
        }
    }

    /// Samples of all shapes: with and without fields, numbers, keys and bytes.
    fn block() -> v1::SampleBlock {
        let sample = |index, key: &str, fields, bad: &str| v1::Sample {
            index,
            key: key.to_owned(),
            fields,
            bad: bad.to_owned(),
        };
        v1::SampleBlock {
            samples: vec![
                sample(0, "", vec![], ""),
                sample(7, "a/b", vec![field("jpg", 100_000), field("cls", 3)], ""),
                sample(300, "c", vec![field("", 0), field("x", COPIED_BYTES)], ""),
                sample(1 << 31, "d", vec![], "too long"),
            ],
            fetch_us: 300,
        }
    }

    fn joined(chunks: &[Bytes]) -> Vec<u8> {
        chunks.concat()
    }

    #[test]
    fn the_chunks_are_the_bytes_that_prost_makes() {
        for block in [block(), v1::SampleBlock::default()] {
            let mut expected = vec![0];
            expected.extend(u32::to_be_bytes(block.encoded_len() as u32));
            block.encode(&mut expected).unwrap();
            assert_eq!(joined(&block_chunks(block)), expected);
        }
    }

    #[test]
    fn a_payload_is_sent_from_where_it_is_and_stays_where_it_came() {
        let block = block();
        let payload = block.samples[1].fields[0].data.clone();
        let chunks = block_chunks(block);
        let at = chunks.iter().position(|chunk| chunk.as_ptr() == payload.as_ptr());
        assert_eq!((at, chunks.len()), (Some(1), 5), "{chunks:?}");
        let mut assembly = BlockAssembly::default();
        chunks.into_iter().for_each(|chunk| assembly.push(chunk));
        let read = assembly.block().unwrap().unwrap();
        assert_eq!(read.samples[1].fields[0].data.as_ptr(), payload.as_ptr());
        assert_eq!(read, self::block());
    }

    #[test]
    fn blocks_come_out_however_the_bytes_are_cut() {
        let stream = joined(&[block_chunks(block()), block_chunks(block())].concat());
        for step in [1, 3, 4099, stream.len()] {
            let mut assembly = BlockAssembly::default();
            let mut blocks = Vec::new();
            for piece in stream.chunks(step) {
                assembly.push(Bytes::copy_from_slice(piece));
                while let Some(block) = assembly.block().unwrap() {
                    blocks.push(block);
                }
            }
            assembly.finish().unwrap();
            assert_eq!(blocks, [block(), block()], "{step}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let refused = |bytes: &[u8]| {
            let mut assembly = BlockAssembly::default();
            assembly.push(Bytes::copy_from_slice(bytes));
            let block = assembly.block();
            block.and_then(|_| assembly.finish()).unwrap_err().to_string()
        };
        assert!(refused(&[1, 0, 0, 0, 0]).contains("compressed"));
        assert!(refused(&[0, 255, 255, 255, 255]).contains("limit 67108864"));
        assert!(refused(&[0, 0, 0, 0, 2, 0x0a, 9]).contains("cannot be read"));
        assert!(refused(&[0, 0, 0]).contains("within a message"));
        assert!(refused(&[0, 0, 0, 0, 3, 0x0a]).contains("within a message"));
    }

    #[test]
    fn a_request_is_one_whole_message() {
        let hello = v1::StorageHello { wire_version: 9 };
        let bytes = request_bytes(&hello);
        assert_eq!(request_message::<v1::StorageHello>(bytes.clone()).unwrap(), hello);
        for bad in [bytes.slice(..6), bytes.slice(..3), [&bytes[..], b"x"].concat().into()] {
            assert_eq!(request_message::<v1::StorageHello>(bad).unwrap_err().field, "request");
        }
    }
}
