//! The plain loop: encoded samples in memory, rendered on threads that share nothing but a counter, into as much
//! memory as the receiver's window has. Batches that a trainer has not taken yet need memory too, and a single part
//! that is overwritten again and again would stay in a cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result};
use headwater_access::AccessConfig;
use headwater_core::{Layout, Recipe, SampleRef};
use headwater_part_rows::SliceRow;
use headwater_receiver::ReceiverConfig;
use headwater_render::backend::{Backend as _, CpuBackend};
use headwater_render::part::{PartPlan, PartScales, SampleFields};
use headwater_render::{PartSample, RenderKey};
use headwater_storage_client::{StorageClient, StorageClientConfig};

/// The regions of one part.
pub(super) type Part = Vec<Vec<u8>>;

/// Samples and all that their pixels follow from.
pub(super) struct Plain {
    recipe: Arc<Recipe>,
    samples: Vec<(RenderKey, Vec<u8>)>,
    part_samples: usize,
    /// Parts that are written in turn, over all threads.
    parts: usize,
}

// === impl Plain ===

impl Plain {
    /// Reads the samples that receivers got, in their order, with the epoch of each.
    pub(super) async fn read(
        (storage, access): (String, AccessConfig),
        datasets: &[String],
        fields: &SampleFields,
        taken: &[(u32, SampleRef)],
        mut recipe: Recipe,
        receiver: &ReceiverConfig,
    ) -> Result<Self> {
        // Only images are compared: other fields are not read here.
        recipe.fields.clear();
        let nodes = vec![storage];
        let client =
            StorageClient::connect(StorageClientConfig { nodes, access, ..Default::default() })
                .await?;
        let mut known: HashMap<(u16, u32, u32), Vec<u8>> = HashMap::new();
        let mut manifests = Vec::new();
        for name in datasets {
            manifests.push(Arc::new(client.manifest(name).await?));
        }
        let mut samples = Vec::with_capacity(taken.len());
        for (epoch, sample) in taken {
            let place = (sample.dataset, sample.shard, sample.index);
            let manifest = &manifests[usize::from(sample.dataset)];
            let encoded = if let Some(encoded) = known.get(&place) {
                encoded.clone()
            } else {
                let wanted = [sample.index];
                let dataset = client.dataset(Arc::clone(manifest));
                let read = dataset.read(sample.shard, &wanted, fields.selection()).await?;
                let image = fields.image(read.first().context("a sample is missing")?)?;
                known.entry(place).or_insert(image.to_vec()).clone()
            };
            let id = manifest.sample_id(sample).context("a sample is not in the manifest")?;
            let key =
                RenderKey { seed: receiver.seed, epoch: *epoch, pass: sample.pass, sample: id };
            samples.push((key, encoded));
        }
        let recipe = Arc::new(recipe);
        let part_samples = receiver.window.part_samples;
        let parts =
            (receiver.window.window_batches + 1) * receiver.batch_samples.div_ceil(part_samples);
        let (part_samples, parts) = (part_samples as usize, parts as usize);
        Ok(Self { recipe, samples, part_samples, parts })
    }

    /// Parts for each of `threads` threads, written once, as the receiver's slots are.
    pub(super) fn memory(&self, threads: usize) -> Vec<Vec<Part>> {
        let each = self.parts.div_ceil(threads);
        let part = || self.regions().map(|len| vec![1; len]).collect::<Part>();
        (0..threads).map(|_| (0..each).map(|_| part()).collect()).collect()
    }

    /// Renders all of them, on a thread for each list of parts. Samples that cannot be rendered are
    /// passed over.
    pub(super) fn run(&self, memory: &mut [Vec<Part>]) -> Result<()> {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let next = &next;
            let running: Vec<_> = memory
                .iter_mut()
                .map(|parts| scope.spawn(move || self.work(next, parts)))
                .collect();
            for thread in running {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(())
        })
    }

    /// Lengths in bytes of a part's regions.
    fn regions(&self) -> impl Iterator<Item = usize> {
        let samples = self.part_samples as u32;
        let regions = Layout::new(&self.recipe, samples).part_regions(0, samples);
        regions.into_iter().map(|region| region.len_bytes as usize)
    }

    fn work(&self, next: &AtomicUsize, parts: &mut [Part]) -> Result<()> {
        let mut renderer = CpuBackend::default().renderer()?;
        let plan = PartPlan::new(Arc::clone(&self.recipe));
        let scales = PartScales::of(&self.recipe);
        for turn in 0.. {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((key, encoded)) = self.samples.get(at) else { break };
            let (part, row) = (turn / self.part_samples % parts.len(), turn % self.part_samples);
            let mut regions: Vec<&mut [u8]> =
                parts[part].iter_mut().map(Vec::as_mut_slice).collect();
            let mut row = SliceRow::new(&mut regions, row, self.part_samples);
            let sample = PartSample::of_image(*key, encoded, -1);
            if let Err(error) = plan.render_sample(&mut *renderer, &sample, &scales, &mut row) {
                tracing::debug!(%error, "a sample is passed over");
            }
        }
        Ok(())
    }
}
