//! The samples of one answer as they come. A node is not believed to stop by itself.

use std::collections::HashSet;

use headwater_proto::storage::{EncodedSample, MessageError, ReadQuery};
use headwater_proto::v1;

/// The samples so far.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    query: &'a ReadQuery,
    samples: Vec<EncodedSample>,
    /// Numbers of the samples that have come: one asked for twice comes twice.
    seen: HashSet<u32>,
    /// Bytes that samples of the shard may still have.
    left_bytes: u64,
}

// === impl Answer ===

impl<'a> Answer<'a> {
    /// An answer to a query for samples of a shard of so many bytes.
    pub(crate) fn new(query: &'a ReadQuery, shard_bytes: u64) -> Self {
        let samples = Vec::with_capacity(query.indices.len());
        Self { query, samples, seen: HashSet::new(), left_bytes: shard_bytes }
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// It is empty, or holds what was not asked for in that order, or more bytes than the shard has.
    pub(crate) fn push(&mut self, block: v1::SampleBlock) -> Result<(), MessageError> {
        if block.samples.is_empty() {
            return fault("has an empty block".to_owned());
        }
        for sample in block.samples {
            let sample = EncodedSample::try_from(sample)?;
            let Some(&asked) = self.query.indices.get(self.samples.len()) else {
                return fault(format!("has more than the {} asked for", self.samples.len()));
            };
            if sample.index != asked {
                return fault(format!("has number {} where {asked} was asked for", sample.index));
            }
            if self.seen.insert(asked) {
                let left = self.left_bytes.checked_sub(sample.bytes());
                let Some(left) = left else {
                    return fault("has more bytes than the shard".to_owned());
                };
                self.left_bytes = left;
            }
            self.samples.push(sample);
        }
        Ok(())
    }

    /// The samples, when the node has ended its answer.
    ///
    /// # Errors
    /// Some are missing.
    pub(crate) fn finish(self) -> Result<Vec<EncodedSample>, MessageError> {
        let (has, asked) = (self.samples.len(), self.query.indices.len());
        if has < asked {
            return fault(format!("has {has} of {asked} asked for"));
        }
        Ok(self.samples)
    }
}

fn fault<T>(fault: String) -> Result<T, MessageError> {
    Err(MessageError { field: "samples", fault })
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
        }
    }

    /// Samples of ten bytes each.
    fn block(indices: &[u32]) -> v1::SampleBlock {
        let field = v1::Field { name: "jpg".to_owned(), data: vec![7; 10].into() };
        let sample =
            |&index| v1::Sample { index, fields: vec![field.clone()], ..Default::default() };
        v1::SampleBlock { samples: indices.iter().map(sample).collect() }
    }

    fn said(query: &ReadQuery, bytes: u64, blocks: &[&[u32]]) -> Result<usize, String> {
        let mut answer = Answer::new(query, bytes);
        let pushed = blocks.iter().try_for_each(|indices| answer.push(block(indices)));
        let finished = pushed.and_then(|()| answer.finish());
        finished.map(|samples| samples.len()).map_err(|error| error.to_string())
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
        assert!(said(&query, 19, &[&[4, 2]]).unwrap_err().contains("more bytes than the shard"));
        assert!(said(&query, 99, &[&[4], &[]]).unwrap_err().contains("empty block"));
    }
}
