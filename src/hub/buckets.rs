//! Groups of images of like aspect ratio: which size of a recipe fits each image of datasets best.

use anyhow::{Context as _, Result, bail};
use headwater_core::draw::Extent;
use headwater_core::recipe::nearest_bucket;
use headwater_core::sampler::{EpochEnd, Sampler, SamplerConfig};
use headwater_core::{Manifest, Recipe, SampleRef};
use headwater_render::decode::{DecodeFailure, Decoder};
use headwater_render::part::{SampleFields, next_substitute};
use headwater_storage::Storage;
use headwater_storage_client::EncodedSample;
use std::sync::Arc;
use tokio::runtime::Handle;

use super::in_order;
use crate::screen::Screen;

/// Samples that a thread reads at a time.
const READ_AT_ONCE: u32 = 64;
/// Samples that the built-in order is asked for at a time.
const DRAWN_AT_ONCE: u32 = 4096;

/// What images are read by.
pub(crate) struct ImageHeaders<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) fields: SampleFields,
    /// How images are decoded.
    pub(crate) recipe: &'a Recipe,
    /// Threads that read.
    pub(crate) readers: usize,
}

/// A shard of a dataset.
struct ShardPlace<'a> {
    manifest: &'a Manifest,
    shard: u32,
}

/// The group of each sample, by its number.
pub(crate) struct Groups {
    groups: Vec<u32>,
    /// Numbers of the datasets' first samples.
    firsts: Vec<u64>,
    /// Samples without an image that can be read.
    pub(crate) unreadable: u64,
}

// === impl ImageHeaders ===

impl ImageHeaders<'_> {
    /// The group of each sample of all datasets: the size that is nearest to its image's. A sample
    /// whose image cannot be read gets the group of the sample that replaces it.
    ///
    /// # Errors
    /// A shard cannot be read, or a broken image has no readable image in its shard that could
    /// replace it.
    pub(crate) fn groups(
        &self,
        sizes: &[[u32; 2]],
        handle: &Handle,
        screen: &Screen,
    ) -> Result<Groups> {
        let manifests: Vec<&Manifest> = self.storage.manifests().collect();
        let shards = manifests.iter().flat_map(|&manifest| {
            let shards = 0..manifest.shards().len() as u32;
            shards.map(move |shard| ShardPlace { manifest, shard })
        });
        let shards: Vec<ShardPlace<'_>> = shards.collect();
        let mut all = Groups { groups: Vec::new(), firsts: Vec::new(), unreadable: 0 };
        let mut samples = 0;
        for manifest in &manifests {
            all.firsts.push(samples);
            samples += manifest.samples();
        }
        let progress = screen.progress("shards", shards.len() as u64);
        in_order(
            &shards,
            self.readers,
            &progress,
            |place| self.extents(place, handle),
            |place, extents| {
                let extents = extents?;
                all.unreadable += extents.iter().filter(|extent| extent.is_none()).count() as u64;
                for index in 0..extents.len() as u32 {
                    let found = stands_for(index, &extents).with_context(|| {
                        let name = &place.manifest.shards()[place.shard as usize].name;
                        format!("shard `{name}` sample {index}: neither it nor those after it have an image")
                    })?;
                    all.groups.push(nearest_bucket(found, sizes));
                }
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// Width and height of each image of a shard, from its header; `None` for images that cannot
    /// be read.
    fn extents(&self, place: &ShardPlace<'_>, handle: &Handle) -> Result<Vec<Option<Extent>>> {
        let ShardPlace { manifest, shard } = *place;
        let samples = manifest.shards()[shard as usize].samples;
        let mut decoder = Decoder::new(self.recipe.decode_limits)?;
        decoder.follow(self.recipe)?;
        let mut extents = Vec::with_capacity(samples as usize);
        for first in (0..samples).step_by(READ_AT_ONCE as usize) {
            let indices: Vec<u32> = (first..samples.min(first + READ_AT_ONCE)).collect();
            let selection = self.fields.selection();
            let read = self.storage.read(manifest.dataset(), shard, &indices, selection);
            for sample in handle.block_on(read)? {
                extents.push(self.extent(&sample, &mut decoder)?);
            }
        }
        Ok(extents)
    }

    fn extent(&self, sample: &EncodedSample, decoder: &mut Decoder) -> Result<Option<Extent>> {
        let Ok(image) = self.fields.image(sample) else { return Ok(None) };
        match decoder.header(&image) {
            Ok(extent) => Ok(Some(extent)),
            Err(DecodeFailure::Bytes(_)) => Ok(None),
            Err(passing) => Err(passing.into()),
        }
    }
}

/// The image of a sample of a shard, or of the sample that replaces it.
fn stands_for(asked: u32, extents: &[Option<Extent>]) -> Option<Extent> {
    let mut index = asked;
    loop {
        if let Some(extent) = extents[index as usize] {
            return Some(extent);
        }
        index = next_substitute(asked, index, extents.len() as u32)?;
    }
}

// === impl Groups ===

impl Groups {
    /// Samples of each group.
    pub(crate) fn counts(&self, sizes: usize) -> Vec<u64> {
        let mut counts = vec![0; sizes];
        self.groups.iter().for_each(|&group| counts[group as usize] += 1);
        counts
    }

    /// The numbers of the samples of an epoch in the built-in order, and their groups. Each epoch has as many as the
    /// datasets have samples.
    ///
    /// # Errors
    /// The order cannot be made.
    pub(crate) fn epoch(
        &self,
        order: &SamplerConfig,
        manifests: &[Arc<Manifest>],
        epoch: u32,
    ) -> Result<(Vec<u64>, Vec<u32>)> {
        let config = SamplerConfig {
            world_size: 1,
            rank: 0,
            batch_samples: DRAWN_AT_ONCE,
            epoch_end: EpochEnd::ShortLast,
            ..order.clone()
        };
        let mut sampler = Sampler::new(config, manifests.to_vec())?;
        let number = |sample: &SampleRef| {
            let dataset = usize::from(sample.dataset);
            let start = manifests[dataset].shard_start(sample.shard);
            self.firsts[dataset] + start + u64::from(sample.index)
        };
        let mut numbers = Vec::with_capacity(self.groups.len());
        for step in 0..sampler.steps_per_epoch(epoch) {
            numbers.extend(sampler.batch(epoch, step)?.samples.iter().map(number));
        }
        if numbers.len() != self.groups.len() {
            bail!("the order has {} samples, the datasets {}", numbers.len(), self.groups.len());
        }
        let groups = numbers.iter().map(|&number| self.groups[number as usize]).collect();
        Ok((numbers, groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_sample_has_the_image_that_stands_in_for_it() {
        let image = |width| Some(Extent { width, height: 1 });
        let extents = [image(1), None, None, image(4), None];
        let found: Vec<_> = (0..5).map(|index| stands_for(index, &extents)).collect();
        assert_eq!(found, [image(1), image(4), image(4), image(4), image(1)]);
        assert_eq!(stands_for(1, &[None, None]), None);
    }
}
