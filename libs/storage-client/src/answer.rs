//! The samples of one answer as they come. A node is not believed to stop by itself.

use std::collections::HashSet;
use std::time::Duration;

use bytes::BytesMut;
use headwater_proto::storage::{EncodedSample, MessageError, ReadQuery, SAMPLE_MAX_BYTES};
use headwater_proto::v1;

/// Largest answer, in bytes. Formats that compress know how long a shard's samples are only when it is unpacked, and
/// the size in its manifest may be a guess: it raises this limit, and is none itself.
pub(crate) const ANSWER_MAX_BYTES: u64 = 4 << 30;

/// Why an answer is left before its end.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It does not keep to the protocol.
    Message(MessageError),
    /// It has more than `limit_bytes` bytes.
    TooLarge { limit_bytes: u64 },
}

impl From<MessageError> for Refused {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}

/// The samples so far.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    query: &'a ReadQuery,
    samples: Vec<EncodedSample>,
    /// The sample that is coming in pieces.
    pieces: Option<Pieces>,
    /// Numbers of the samples that have come: one asked for twice comes twice.
    seen: HashSet<u32>,
    /// Bytes that the samples may have, and those that they may still have.
    limit_bytes: u64,
    left_bytes: u64,
    /// What the node waited for a distant source.
    fetch_us: u64,
}

// === impl Answer ===

impl<'a> Answer<'a> {
    /// An answer to a query for samples of a shard of `shard_bytes` bytes, or of more if it is
    /// small.
    pub(crate) fn new(query: &'a ReadQuery, shard_bytes: u64) -> Self {
        let samples = Vec::with_capacity(query.indices.len());
        let seen = HashSet::new();
        let limit_bytes = shard_bytes.max(ANSWER_MAX_BYTES);
        Self {
            query,
            samples,
            pieces: None,
            seen,
            limit_bytes,
            left_bytes: limit_bytes,
            fetch_us: 0,
        }
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// It is empty, or holds what was not asked for in that order; or the answer has become too large.
    pub(crate) fn push(&mut self, block: v1::SampleBlock) -> Result<(), Refused> {
        if block.samples.is_empty() {
            return fault("has an empty block".to_owned());
        }
        self.fetch_us = self.fetch_us.saturating_add(block.fetch_us);
        for sample in block.samples {
            let Some(sample) = self.joined(sample)? else { continue };
            let sample = EncodedSample::try_from(sample)?;
            let Some(&asked) = self.query.indices.get(self.samples.len()) else {
                return fault(format!("has more than the {} asked for", self.samples.len()));
            };
            if sample.index != asked {
                return fault(format!("has number {} where {asked} was asked for", sample.index));
            }
            if self.seen.insert(asked) {
                let left = self.left_bytes.checked_sub(sample.bytes());
                let too_large = || Refused::TooLarge { limit_bytes: self.limit_bytes };
                let left = left.ok_or_else(too_large)?;
                self.left_bytes = left;
            }
            self.samples.push(sample);
        }
        Ok(())
    }

    /// A sample that is whole; `None` while pieces of it are to come.
    fn joined(&mut self, sample: v1::Sample) -> Result<Option<v1::Sample>, Refused> {
        let pieces = match self.pieces.take() {
            Some(mut pieces) => {
                pieces.push(sample)?;
                pieces
            }
            None if sample.fields.iter().all(|field| field.more == 0) => return Ok(Some(sample)),
            None => {
                let announced = announced_bytes(&sample);
                if announced <= SAMPLE_MAX_BYTES && announced > self.left_bytes {
                    return Err(Refused::TooLarge { limit_bytes: self.limit_bytes });
                }
                Pieces::begin(sample)?
            }
        };
        if pieces.fields.iter().any(|(_, left)| *left > 0) {
            self.pieces = Some(pieces);
            return Ok(None);
        }
        Ok(Some(pieces.finish()))
    }

    /// The samples, when the node has ended its answer, and what it waited for a distant source.
    ///
    /// # Errors
    /// Some are missing.
    pub(crate) fn finish(self) -> Result<(Vec<EncodedSample>, Duration), Refused> {
        let (has, asked) = (self.samples.len(), self.query.indices.len());
        if has < asked {
            return fault(format!("has {has} of {asked} asked for"));
        }
        Ok((self.samples, Duration::from_micros(self.fetch_us)))
    }
}

/// A sample that has come in part.
#[derive(Debug)]
struct Pieces {
    sample: v1::Sample,
    /// Of each field: what has come, in memory for all of it, and how much is to come.
    fields: Vec<(BytesMut, u64)>,
}

// === impl Pieces ===

impl Pieces {
    /// Takes memory for what is announced, which is at most what a sample may have.
    fn begin(sample: v1::Sample) -> Result<Self, Refused> {
        if announced_bytes(&sample) > SAMPLE_MAX_BYTES {
            return fault("announces a sample of more bytes than one may have".to_owned());
        }
        let begun = |field: &v1::Field| {
            let mut whole = BytesMut::with_capacity(field.data.len() + field.more as usize);
            whole.extend_from_slice(&field.data);
            (whole, field.more)
        };
        Ok(Self { fields: sample.fields.iter().map(begun).collect(), sample })
    }

    fn push(&mut self, piece: v1::Sample) -> Result<(), Refused> {
        let [field] = &piece.fields[..] else {
            return fault("has a piece that is not of one field".to_owned());
        };
        let mut known = self.sample.fields.iter().zip(&mut self.fields);
        let known = known.find(|(known, (_, left))| known.name == field.name && *left > 0);
        let Some((_, (whole, left))) = known.filter(|_| piece.index == self.sample.index) else {
            return fault(format!("has a piece of `{}`, which is not under way", field.name));
        };
        let bytes = field.data.len() as u64;
        if bytes == 0 || bytes.checked_add(field.more) != Some(*left) {
            return fault(format!("has a piece of `{}` that does not fit", field.name));
        }
        whole.extend_from_slice(&field.data);
        *left = field.more;
        Ok(())
    }

    fn finish(mut self) -> v1::Sample {
        for (field, (whole, _)) in self.sample.fields.iter_mut().zip(self.fields) {
            (field.data, field.more) = (whole.freeze(), 0);
        }
        self.sample
    }
}

/// Bytes that a sample says that it has, those to come included.
fn announced_bytes(sample: &v1::Sample) -> u64 {
    let sizes =
        sample.fields.iter().map(|field| field.more.saturating_add(field.data.len() as u64));
    sizes.fold(0, u64::saturating_add)
}

fn fault<T>(fault: String) -> Result<T, Refused> {
    Err(Refused::Message(MessageError { field: "samples", fault }))
}

#[cfg(test)]
mod tests {
    use headwater_core::Digest;
    use headwater_proto::storage::FieldSelection;

    use super::*;

    fn query(indices: &[u32]) -> ReadQuery {
        ReadQuery {
            dataset: "d".to_owned(),
            manifest: Digest(0),
            shard: 0,
            indices: indices.to_vec(),
            fields: FieldSelection::all(),
            again: false,
        }
    }

    /// Samples of ten bytes each.
    fn block(indices: &[u32]) -> v1::SampleBlock {
        let field =
            v1::Field { name: "jpg".to_owned(), data: vec![7; 10].into(), ..Default::default() };
        let sample =
            |&index| v1::Sample { index, fields: vec![field.clone()], ..Default::default() };
        v1::SampleBlock { samples: indices.iter().map(sample).collect(), fetch_us: 0 }
    }

    fn in_words(refused: Refused) -> String {
        match refused {
            Refused::Message(error) => error.to_string(),
            Refused::TooLarge { limit_bytes } => format!("more than {limit_bytes} bytes"),
        }
    }

    /// What comes of blocks where that many bytes are the limit.
    fn said(query: &ReadQuery, bytes: u64, blocks: &[&[u32]]) -> Result<usize, String> {
        let mut answer =
            Answer { limit_bytes: bytes, left_bytes: bytes, ..Answer::new(query, bytes) };
        let pushed = blocks.iter().try_for_each(|indices| answer.push(block(indices)));
        let finished = pushed.and_then(|()| answer.finish());
        finished.map(|(samples, _)| samples.len()).map_err(in_words)
    }

    #[test]
    fn an_answer_that_is_not_what_was_asked_for_is_refused() {
        let query = query(&[4, 2]);
        assert_eq!(said(&query, 20, &[&[4, 2]]), Ok(2));
        assert_eq!(said(&query, 20, &[&[4], &[2]]), Ok(2));
        assert!(said(&query, 20, &[&[2, 4]]).unwrap_err().contains("number 2 where 4"));
        assert!(said(&query, 20, &[&[4]]).unwrap_err().contains("1 of 2"));
        assert!(said(&query, 20, &[]).unwrap_err().contains("0 of 2"));
    }

    #[test]
    fn no_more_is_taken_than_was_asked_for_however_long_a_node_goes_on() {
        let query = query(&[4, 2, 4]);
        assert_eq!(said(&query, 20, &[&[4, 2, 4]]), Ok(3), "what was asked for twice");
        assert!(said(&query, 99, &[&[4, 2, 4], &[4]]).unwrap_err().contains("more than the 3"));
        assert_eq!(said(&query, 19, &[&[4, 2]]).unwrap_err(), "more than 19 bytes");
        assert!(said(&query, 99, &[&[4], &[]]).unwrap_err().contains("empty block"));
    }

    #[test]
    fn the_size_in_a_manifest_is_no_limit() {
        let query = query(&[4, 2]);
        let mut answer = Answer::new(&query, 1);
        answer.push(block(&[4, 2])).unwrap();
        assert_eq!(answer.finish().unwrap().0.len(), 2);
        assert_eq!(Answer::new(&query, u64::MAX).left_bytes, u64::MAX, "a large shard");
    }

    #[test]
    fn pieces_are_joined_and_only_those_that_fit() {
        let query = query(&[4]);
        let piece = |index, name: &str, bytes: usize, more| {
            let data = vec![7; bytes].into();
            let field = v1::Field { name: name.to_owned(), data, more, ..Default::default() };
            let sample = v1::Sample { index, fields: vec![field], ..Default::default() };
            v1::SampleBlock { samples: vec![sample], fetch_us: 0 }
        };
        let read = |pieces: Vec<v1::SampleBlock>| {
            let mut answer =
                Answer { limit_bytes: 100, left_bytes: 100, ..Answer::new(&query, 100) };
            let pushed = pieces.into_iter().try_for_each(|piece| answer.push(piece));
            let finished = pushed.and_then(|()| answer.finish());
            finished.map(|(samples, _)| samples[0].bytes()).map_err(in_words)
        };
        let first = || piece(4, "a", 0, 30);
        assert_eq!(read(vec![first(), piece(4, "a", 20, 10), piece(4, "a", 10, 0)]), Ok(30));
        let refused = |pieces, why: &str| {
            let said = read(pieces).unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        refused(vec![first(), piece(4, "a", 20, 11)], "does not fit");
        refused(vec![first(), piece(4, "a", 0, 30)], "does not fit");
        refused(vec![first(), piece(4, "a", 20, u64::MAX)], "does not fit");
        refused(vec![first(), piece(4, "b", 20, 10)], "not under way");
        refused(vec![first(), piece(5, "a", 20, 10)], "not under way");
        refused(vec![first()], "0 of 1");
        refused(vec![piece(4, "a", 1, 100)], "more than 100 bytes");
        refused(vec![piece(4, "a", 1, SAMPLE_MAX_BYTES)], "more bytes than one may have");
        refused(vec![piece(4, "a", 1, u64::MAX)], "more bytes than one may have");
    }
}
