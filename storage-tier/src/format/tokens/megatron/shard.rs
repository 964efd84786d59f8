//! Samples one after the other in the order, each put together out of its documents.

use std::ops::Range;
use std::sync::Arc;

use headwater_megatron_order::{CorpusOrder, Pick};

use super::corpora::Corpora;
use crate::StorageError;
use crate::format::tokens::corpus::THREADS;
use crate::format::{Packed, SampleSink, arrays};
use crate::in_order::in_order;
use crate::source::Place;

/// Some samples of a place.
#[derive(Debug)]
pub(super) struct BlendShard {
    pub(super) corpora: Arc<Corpora>,
    pub(super) place: Place,
    pub(super) rows: Range<u64>,
}

/// Samples of one corpus, each with its place in the shard.
type OfCorpus = (u32, Vec<(usize, u64)>);

// === impl BlendShard ===

impl BlendShard {
    /// The tokens of some samples of one corpus, in their order.
    fn texts(&self, (number, samples): &OfCorpus) -> Result<Vec<Vec<u8>>, StorageError> {
        let Corpora { listed, mixture, orders, seed, .. } = &*self.corpora;
        let (corpus, size) = (&listed.corpora[*number as usize], mixture.sizes()[*number as usize]);
        let make = || Ok(CorpusOrder::new(size, corpus.lengths(&self.place)?, *seed));
        let object = corpus.open(&self.place)?;
        let order = orders.of(*number, size.order_bytes(), make)?;
        let token_bytes = corpus.token_bytes();
        let (mut ranges, mut ends) = (Vec::new(), Vec::new());
        for &(_, sample) in samples {
            ranges.extend(order.pieces(sample).into_iter().map(|piece| {
                let token = order.tokens_before(piece.document) + piece.offset;
                let begin = corpus.bytes.start + token * token_bytes;
                begin..begin + piece.tokens * token_bytes
            }));
            ends.push(ranges.len());
        }
        // Others may wait for its memory.
        drop(order);
        let read = object.read_many(&ranges)?;
        object.check_unchanged()?;
        let mut begin = 0;
        Ok(ends
            .into_iter()
            .map(|end| read[std::mem::replace(&mut begin, end)..end].concat())
            .collect())
    }
}

impl Packed for BlendShard {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let Corpora { mixture, table, .. } = &*self.corpora;
        let picks = mixture.window(self.rows.clone());
        let mut sorted: Vec<usize> = (0..picks.len()).collect();
        sorted.sort_by_key(|&at| picks[at].corpus);
        let by_corpus: Vec<OfCorpus> = sorted
            .chunk_by(|&a, &b| picks[a].corpus == picks[b].corpus)
            .map(|same| {
                let samples = same.iter().map(|&at| (at, picks[at].sample)).collect();
                (picks[same[0]].corpus, samples)
            })
            .collect();
        let read = |at: usize| self.texts(&by_corpus[at]);
        let said = "corpora are being read";
        let texts = in_order(by_corpus.len(), THREADS, (said, &mut |_, _| ()), &read)?;
        let mut of_rows = vec![Vec::new(); picks.len()];
        for ((_, samples), texts) in by_corpus.iter().zip(texts) {
            for (&(at, _), text) in samples.iter().zip(texts) {
                of_rows[at] = text;
            }
        }
        let stem = arrays::key_stem(&self.place);
        for ((row, Pick { corpus, .. }), text) in self.rows.clone().zip(&picks).zip(&of_rows) {
            let key = arrays::key(&stem, row);
            table.hand_on(sink, &key, &[text, &corpus.to_le_bytes()])?;
        }
        Ok(())
    }
}
