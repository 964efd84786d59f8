//! Encoded samples of a lease from the storage tier.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use headwater_core::{Manifest, SampleRef};
use headwater_storage_client::{Dataset, EncodedSample, StorageClientError};
use headwater_trace::Context;

use headwater_render::part::{SampleFault, SampleFields};

/// Shards of one lease that are read at the same time.
const SHARDS_AT_ONCE: usize = 8;

/// A dataset of the session.
#[derive(Clone, Debug)]
pub(crate) struct SessionDataset {
    pub(crate) reader: Dataset,
    pub(crate) manifest: Arc<Manifest>,
}

/// A sample to read for a place in a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Place in the part.
    pub(crate) position: usize,
    /// The sample that was asked for.
    pub(crate) asked: SampleRef,
    /// The one of its shard that is tried now.
    pub(crate) index: u32,
}

/// A sample that was read, or cannot be used.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) wanted: Wanted,
    /// Its key.
    pub(crate) key: String,
    pub(crate) input: Result<Input, SampleFault>,
}

/// What a sample gives to a part.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) encoded: Bytes,
    /// Its entry points; empty where none are known.
    pub(crate) entries: Bytes,
    pub(crate) label: i64,
    /// What lies beside them, as the recipe's sibling fields.
    pub(crate) extra_fields: Vec<Option<Bytes>>,
}

/// Reads samples, those of one shard together; with `again` those that looked broken. The answer is
/// in no particular order; with it, how long a distant source was waited for.
///
/// # Errors
/// The storage tier does not answer, or what is asked for is not there. Neither is a word on a sample.
pub(crate) async fn read(
    datasets: &[SessionDataset],
    fields: &SampleFields,
    wanted: Vec<Wanted>,
    (again, span): (bool, Option<Context>),
) -> Result<(Vec<Found>, Duration), StorageClientError> {
    let mut groups: BTreeMap<(u16, u32), Vec<Wanted>> = BTreeMap::new();
    for wanted in wanted {
        groups.entry((wanted.asked.dataset, wanted.asked.shard)).or_default().push(wanted);
    }
    let reads = groups.into_iter().map(|((dataset, shard), wanted)| {
        read_shard(&datasets[usize::from(dataset)].reader, shard, fields, wanted, (again, span))
    });
    let shards: Vec<(Vec<Found>, Duration)> =
        futures::stream::iter(reads).buffered(SHARDS_AT_ONCE).try_collect().await?;
    // They were waited for at the same time.
    let fetch = shards.iter().map(|(_, fetch)| *fetch).max().unwrap_or_default();
    Ok((shards.into_iter().flat_map(|(found, _)| found).collect(), fetch))
}

async fn read_shard(
    reader: &Dataset,
    shard: u32,
    fields: &SampleFields,
    wanted: Vec<Wanted>,
    how: (bool, Option<Context>),
) -> Result<(Vec<Found>, Duration), StorageClientError> {
    let indices: Vec<u32> = wanted.iter().map(|wanted| wanted.index).collect();
    let (samples, fetch) = reader.read_timed(shard, &indices, fields.selection(), how).await?;
    let both = wanted.into_iter().zip(samples);
    Ok((both.map(|(wanted, sample)| Found::of(wanted, sample, fields)).collect(), fetch))
}

// === impl Input ===

impl Input {
    /// All bytes that were read.
    pub(crate) fn len_bytes(&self) -> u64 {
        let extra_fields = self.extra_fields.iter().flatten().map(Bytes::len).sum::<usize>();
        (self.encoded.len() + extra_fields) as u64
    }
}

// === impl Found ===

impl Found {
    fn of(wanted: Wanted, sample: EncodedSample, fields: &SampleFields) -> Self {
        let input = fields.image_field(&sample).and_then(|image| {
            let (encoded, entries) = (image.data.clone(), image.entries.clone());
            let label = fields.label(&sample)?;
            let extra_fields = fields.extra_fields(&sample);
            Ok(Input { encoded, entries, label, extra_fields })
        });
        Self { wanted, key: sample.key, input }
    }
}
