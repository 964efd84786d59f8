//! The blocks of one answer, made as the caller takes them.

use std::time::{Duration, Instant};

use headwater_proto::storage::{EncodedSample, ReadQuery};
use headwater_proto::v1;
use headwater_storage_client::{IndexedShard, LeftOut};
use headwater_trace::Span;
use tokio::sync::mpsc;
use tonic::Status;

use super::refuse;
use crate::storage::BlockRange;
use crate::{Storage, StorageError, metrics};

/// An answer under way.
pub(super) struct ReadAnswer {
    pub(super) storage: Storage,
    pub(super) query: ReadQuery,
    pub(super) shard: IndexedShard,
    /// What was waited for a distant source until the shard was open.
    pub(super) fetch: Duration,
    pub(super) send: mpsc::Sender<Result<v1::SampleBlock, Status>>,
    /// From the request to the last block.
    pub(super) span: Span,
}

/// Why an answer ends early: an error, or a caller who went away.
type Ended = Option<Status>;

// === impl ReadAnswer ===

impl ReadAnswer {
    /// Sends all blocks. A sample of more bytes than a block travels in pieces of a block's size.
    pub(super) async fn send(&mut self, blocks: Vec<BlockRange>) -> Result<(), Ended> {
        self.span.arg_with("dataset", || self.query.dataset.clone());
        self.span.arg_with("shard", || self.shard.object().name());
        self.span.arg("samples", self.query.indices.len());
        let mut fetch = self.fetch;
        for block in blocks {
            let indices = &self.query.indices[block];
            if let [index] = indices
                && self.is_large(*index)?
            {
                self.send_large(*index, std::mem::take(&mut fetch)).await?;
                continue;
            }
            // Before it is made: a caller who does not read has one in the channel at most.
            let room = self.room().await?;
            let mut reading = self.span.child("read block");
            let started = Instant::now();
            let samples = self.storage.block(&self.query, &self.shard, indices.to_vec()).await;
            fetch += self.fetched(started);
            let samples = samples.map_err(ended)?;
            let bytes = samples.iter().map(EncodedSample::bytes).sum();
            reading.arg("samples", samples.len());
            reading.arg("bytes", bytes);
            reading.end();
            metrics::served(samples.len(), bytes);
            metrics::served_jpegs(&samples);
            let samples = samples.into_iter().map(Into::into).collect();
            room.send(Ok(to_wire(samples, std::mem::take(&mut fetch))));
        }
        Ok(())
    }

    /// What was waited for a distant source while the shard was read.
    fn fetched(&self, since: Instant) -> Duration {
        let object = self.shard.object();
        let is_here = object.file().is_some() || object.cached().is_some();
        if is_here { Duration::ZERO } else { since.elapsed() }
    }

    fn is_large(&self, index: u32) -> Result<bool, Ended> {
        let bytes = self.shard.sample_bytes(index, &self.query.fields);
        let bytes = bytes.map_err(|error| ended(error.into()))?;
        Ok(bytes > self.storage.config().reads.block_bytes as u64)
    }

    /// The sample without its large fields, then those, piece after piece.
    async fn send_large(&self, index: u32, mut fetch: Duration) -> Result<(), Ended> {
        let room = self.room().await?;
        let mut reading = self.span.child("read large sample");
        let started = Instant::now();
        let read = self.storage.large_sample(&self.query, &self.shard, index).await;
        let (sample, large) = read.map_err(ended)?;
        fetch += self.fetched(started);
        let mut served = sample.bytes();
        // For the metrics: each large field with its first bytes.
        let mut counted = sample.clone();
        let mut sample = v1::Sample::from(sample);
        for LeftOut { place, range } in &large {
            let field = &mut sample.fields[*place];
            field.more = range.end - range.start;
            served += field.more;
        }
        room.send(Ok(to_wire(vec![sample], fetch)));
        let piece_bytes = self.storage.config().reads.block_bytes;
        for LeftOut { place, range } in large {
            let Some(known) = counted.fields.as_mut().ok().and_then(|known| known.get_mut(place))
            else {
                continue;
            };
            for start in range.clone().step_by(piece_bytes) {
                let end = range.end.min(start + piece_bytes as u64);
                let room = self.room().await?;
                let started = Instant::now();
                let data = self.storage.piece(&self.query, &self.shard, start..end).await;
                let data = data.map_err(ended)?;
                if start == range.start {
                    known.data = data.clone();
                }
                let (name, more) = (known.name.clone(), range.end - end);
                let field = v1::Field { name, data, more, ..Default::default() };
                let sample = v1::Sample { index, fields: vec![field], ..Default::default() };
                room.send(Ok(to_wire(vec![sample], self.fetched(started))));
            }
        }
        reading.arg("bytes", served);
        metrics::served(1, served);
        metrics::served_jpegs(&[counted]);
        Ok(())
    }

    async fn room(&self) -> Result<mpsc::Permit<'_, Result<v1::SampleBlock, Status>>, Ended> {
        let _waiting = self.span.child("wait for caller");
        self.send.reserve().await.map_err(|_| None)
    }
}

fn to_wire(samples: Vec<v1::Sample>, fetch: Duration) -> v1::SampleBlock {
    v1::SampleBlock { samples, fetch_us: fetch.as_micros() as u64 }
}

fn ended(error: StorageError) -> Ended {
    Some(refuse(&error))
}
