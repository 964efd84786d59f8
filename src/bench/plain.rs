//! The plain loop: encoded samples in memory, rendered on threads that share nothing but a counter.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headwater_access::AccessConfig;
use headwater_augment::backend::{Backend as _, CpuBackend};
use headwater_augment::part::{PartPlan, PartSample, SampleFields, SliceRow};
use headwater_augment::render::RenderKey;
use headwater_core::{Layout, Recipe, SampleRef};
use headwater_storage_client::{DatasetRef, StorageClient, StorageClientConfig};

/// Samples and all that their pixels follow from.
pub(super) struct Plain {
    recipe: Arc<Recipe>,
    samples: Vec<(RenderKey, Vec<u8>)>,
    part_samples: usize,
}

// === impl Plain ===

impl Plain {
    /// Reads the samples that receivers got, in their order, with the epoch of each.
    pub(super) async fn read(
        (storage, access): (String, AccessConfig),
        datasets: &[String],
        fields: &SampleFields,
        taken: &[(u32, SampleRef)],
        recipe: Recipe,
        (seed, part_samples): (u64, u32),
    ) -> Result<Self> {
        let nodes = vec![storage];
        let client =
            StorageClient::connect(StorageClientConfig { nodes, access, ..Default::default() })
                .await?;
        let mut known: HashMap<(u16, u32, u32), Vec<u8>> = HashMap::new();
        let mut manifests = Vec::new();
        for name in datasets {
            manifests.push(client.manifest(name).await?);
        }
        let mut samples = Vec::with_capacity(taken.len());
        for (epoch, sample) in taken {
            let place = (sample.dataset, sample.shard, sample.index);
            let manifest = &manifests[usize::from(sample.dataset)];
            let encoded = if let Some(encoded) = known.get(&place) {
                encoded.clone()
            } else {
                let reference =
                    DatasetRef { name: manifest.dataset().to_owned(), manifest: manifest.digest() };
                let wanted = [sample.index];
                let dataset = client.dataset(&reference);
                let read = dataset.read(sample.shard, &wanted, fields.selection()).await?;
                let image = fields.image(read.first().context("a sample is missing")?)?;
                known.entry(place).or_insert(image.to_vec()).clone()
            };
            let id = manifest.sample_id(sample).context("a sample is not in the manifest")?;
            let key = RenderKey { seed, epoch: *epoch, pass: sample.pass, sample: id };
            samples.push((key, encoded));
        }
        let recipe = Arc::new(recipe);
        Ok(Self { recipe, samples, part_samples: part_samples as usize })
    }

    /// Renders all of them on `threads` threads. Samples that cannot be rendered are passed over.
    pub(super) fn run(&self, threads: usize) -> Result<Duration> {
        let next = AtomicUsize::new(0);
        let started = Instant::now();
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work(&next))).collect();
            for thread in running {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(started.elapsed())
        })
    }

    fn work(&self, next: &AtomicUsize) -> Result<()> {
        let mut renderer = CpuBackend::default().renderer()?;
        let plan = PartPlan::new(Arc::clone(&self.recipe));
        let layout = Layout::new(&self.recipe, self.part_samples as u32);
        let regions = layout.part_regions(0, self.part_samples as u32);
        let mut memory: Vec<Vec<u8>> =
            regions.iter().map(|region| vec![0; region.len_bytes as usize]).collect();
        let mut regions: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((key, encoded)) = self.samples.get(at) else { return Ok(()) };
            let mut row = SliceRow::new(&mut regions, at % self.part_samples, self.part_samples);
            let sample = PartSample { key: *key, encoded, label: -1 };
            if let Err(error) = plan.render_sample(&mut *renderer, &sample, &mut row) {
                tracing::debug!(%error, "a sample is passed over");
            }
        }
    }
}
