//! The blocks of one answer, made as the caller takes them.

use headwater_proto::storage::{EncodedSample, ReadQuery};
use headwater_proto::v1;
use headwater_storage_client::{IndexedShard, LeftOut};
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
    pub(super) send: mpsc::Sender<Result<v1::SampleBlock, Status>>,
}

/// Why an answer ends early: an error, or a caller who went away.
type Ended = Option<Status>;

// === impl ReadAnswer ===

impl ReadAnswer {
    /// Sends all blocks. A sample of more bytes than a block travels in pieces of a block's size.
    pub(super) async fn send(&self, blocks: Vec<BlockRange>) -> Result<(), Ended> {
        for block in blocks {
            let indices = &self.query.indices[block];
            if let [index] = indices
                && self.is_large(*index)?
            {
                self.send_large(*index).await?;
                continue;
            }
            // Before it is made: a caller who does not read has one in the channel at most.
            let room = self.room().await?;
            let samples = self.storage.block(&self.query, &self.shard, indices.to_vec()).await;
            let samples = samples.map_err(ended)?;
            let bytes = samples.iter().map(EncodedSample::bytes).sum();
            metrics::served(samples.len(), bytes);
            let samples = samples.into_iter().map(Into::into).collect();
            room.send(Ok(v1::SampleBlock { samples }));
        }
        Ok(())
    }

    fn is_large(&self, index: u32) -> Result<bool, Ended> {
        let bytes = self.shard.sample_bytes(index, &self.query.fields);
        let bytes = bytes.map_err(|error| ended(error.into()))?;
        Ok(bytes > self.storage.config().block_bytes as u64)
    }

    /// The sample without its large fields, then those, piece after piece.
    async fn send_large(&self, index: u32) -> Result<(), Ended> {
        let room = self.room().await?;
        let read = self.storage.large_sample(&self.query, &self.shard, index).await;
        let (sample, large) = read.map_err(ended)?;
        let mut served = sample.bytes();
        let mut sample = v1::Sample::from(sample);
        let mut names = Vec::with_capacity(large.len());
        for LeftOut { place, range } in &large {
            let field = &mut sample.fields[*place];
            field.more = range.end - range.start;
            served += field.more;
            names.push(field.name.clone());
        }
        room.send(Ok(v1::SampleBlock { samples: vec![sample] }));
        let piece_bytes = self.storage.config().block_bytes;
        for (name, LeftOut { range, .. }) in names.into_iter().zip(large) {
            for start in range.clone().step_by(piece_bytes) {
                let end = range.end.min(start + piece_bytes as u64);
                let room = self.room().await?;
                let data = self.storage.piece(&self.query, &self.shard, start..end).await;
                let data = data.map_err(ended)?;
                let field = v1::Field { name: name.clone(), data, more: range.end - end };
                let sample = v1::Sample { index, fields: vec![field], ..Default::default() };
                room.send(Ok(v1::SampleBlock { samples: vec![sample] }));
            }
        }
        metrics::served(1, served);
        Ok(())
    }

    async fn room(&self) -> Result<mpsc::Permit<'_, Result<v1::SampleBlock, Status>>, Ended> {
        self.send.reserve().await.map_err(|_| None)
    }
}

fn ended(error: StorageError) -> Ended {
    Some(refuse(&error))
}
