//! Packs one after the other in their order, each put together out of its sequences.

use std::ops::Range;
use std::sync::Arc;

use super::{PACK, Packed};
use crate::StorageError;
use crate::format::tokens::corpus::THREADS;
use crate::format::{self, SampleSink, arrays};
use crate::in_order::in_order;
use crate::source::Place;

/// Sequences that are read by one thread at once, at most.
const READ_AT_ONCE: usize = 256;

/// Some packs of a place.
#[derive(Debug)]
pub(super) struct PackShard {
    pub(super) packed: Arc<Packed>,
    pub(super) place: Place,
    pub(super) rows: Range<u64>,
}

/// A sequence that is wanted: its bytes in its corpus, and its number among all that are wanted.
type Wanted = (usize, Range<u64>, usize);

// === impl PackShard ===

impl PackShard {
    /// The tokens of some sequences of one corpus.
    fn read(&self, wanted: &[Wanted]) -> Result<Vec<Vec<u8>>, StorageError> {
        let object = self.packed.listed.corpora[wanted[0].0].open(&self.place)?;
        let ranges: Vec<_> = wanted.iter().map(|(_, bytes, _)| bytes.clone()).collect();
        let read = object.read_many(&ranges)?;
        object.check_unchanged()?;
        Ok(read.into_iter().map(Into::into).collect())
    }
}

impl format::Packed for PackShard {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let packs = self.packed.order.packs(self.rows.clone());
        let sequences = packs.iter().flatten().enumerate();
        let mut wanted: Vec<Wanted> = sequences
            .map(|(number, &sequence)| {
                let (corpus, bytes) = self.packed.bytes_of(sequence);
                (corpus, bytes, number)
            })
            .collect();
        // As they lie in their files.
        wanted.sort_unstable_by_key(|(corpus, bytes, _)| (*corpus, bytes.start));
        let parts: Vec<&[Wanted]> = wanted
            .chunk_by(|one, other| one.0 == other.0)
            .flat_map(|of_corpus| of_corpus.chunks(READ_AT_ONCE))
            .collect();
        let read = |at: usize| self.read(parts[at]);
        let said = "corpora are being read";
        let texts = in_order(parts.len(), THREADS, (said, &mut |_, _| ()), &read)?;
        let mut of_sequences = vec![Vec::new(); wanted.len()];
        for ((_, _, number), text) in wanted.iter().zip(texts.into_iter().flatten()) {
            of_sequences[*number] = text;
        }
        let stem = arrays::key_stem(&self.place);
        let mut texts = of_sequences.iter();
        for (row, pack) in self.rows.clone().zip(&packs) {
            let mut bytes = (pack.len() as u32).to_le_bytes().to_vec();
            for &sequence in pack {
                bytes.extend(self.packed.order.sequences().length(sequence).to_le_bytes());
            }
            texts.by_ref().take(pack.len()).for_each(|text| bytes.extend(text));
            sink.sample(&arrays::key(&stem, row))?;
            sink.field(PACK, &bytes)?;
        }
        Ok(())
    }
}
