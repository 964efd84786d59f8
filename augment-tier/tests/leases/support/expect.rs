//! The bytes a part must have: each row rendered directly and put where the batch's layout says,
//! without anything of the pool, the plan of a part, or the links.

use headwater_core::{Layout, SampleRef};
use headwater_proto::augment::SessionHello;
use headwater_render::{RenderKey, Renderer, ViewSink};
use xxhash_rust::xxh3::xxh3_64;

use super::receiver::{BATCH, FP8_SCALE};
use super::shards::TestSample;
use super::storage::TestStorage;

/// A whole batch; one row of it is being rendered.
struct Batch {
    layout: Layout,
    bytes: Vec<u8>,
    row: usize,
}

impl Batch {
    fn row_mut(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        let tensor = &self.layout.tensors()[tensor];
        let row = view * BATCH as usize + self.row;
        let start = tensor.offset_bytes as usize + row * tensor.row_bytes as usize;
        &mut self.bytes[start..start + tensor.row_bytes as usize]
    }
}

impl ViewSink for Batch {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        self.row_mut(tensor, view)
    }

    fn fp8_scale(&self, _: usize) -> Option<f32> {
        Some(FP8_SCALE)
    }
}

/// Bytes of the part of these samples, regions joined; epoch 3, from sample `first` of the batch.
/// `used` are the samples that stand for those asked for, `labels` theirs.
pub(crate) fn part_of(
    storage: &TestStorage,
    hello: &SessionHello,
    first: u32,
    asked: &[SampleRef],
    used: &[(&TestSample, i64)],
) -> Vec<u8> {
    let layout = Layout::new(&hello.recipe, BATCH);
    let regions = layout.part_regions(first, asked.len() as u32);
    let bytes = vec![0; layout.len_bytes() as usize];
    let mut batch = Batch { layout, bytes, row: 0 };
    let mut renderer = Renderer::new().unwrap();
    for (k, (asked, (sample, label))) in asked.iter().zip(used).enumerate() {
        batch.row = first as usize + k;
        let id = storage.manifest.sample_id(asked).unwrap();
        let key = RenderKey { seed: hello.seed, epoch: 3, pass: asked.pass, sample: id };
        renderer.render(&hello.recipe, key, &sample.image(), &mut batch).unwrap();
        let labels = hello.recipe.tensors.len();
        batch.row_mut(labels, 0).copy_from_slice(&label.to_le_bytes());
    }
    let cut = |r: &headwater_core::Region| {
        batch.bytes[r.offset_bytes as usize..][..r.len_bytes as usize].to_vec()
    };
    regions.iter().flat_map(cut).collect()
}

/// As [`part_of`], where every sample is good.
pub(crate) fn part(
    storage: &TestStorage,
    hello: &SessionHello,
    first: u32,
    samples: &[SampleRef],
) -> Vec<u8> {
    let sample = |s: &SampleRef| &storage.shards[s.shard as usize].samples[s.index as usize];
    let used: Vec<_> = samples.iter().map(|s| (sample(s), sample(s).label())).collect();
    part_of(storage, hello, first, samples, &used)
}

/// What a worker says of a part with these bytes: of each sample its bytes in each region, hashed, those hashes hashed,
/// and those of all samples hashed.
pub(crate) fn checksum(hello: &SessionHello, part: &[u8]) -> u64 {
    let layout = Layout::new(&hello.recipe, BATCH);
    let row_bytes: Vec<usize> =
        layout.part_regions(0, 1).iter().map(|region| region.len_bytes as usize).collect();
    let rows = part.len() / row_bytes.iter().sum::<usize>();
    let mut sums = Vec::new();
    for row in 0..rows {
        let (mut pieces, mut region) = (Vec::new(), 0);
        for len in &row_bytes {
            pieces.extend(xxh3_64(&part[region + row * len..][..*len]).to_le_bytes());
            region += rows * len;
        }
        sums.extend(xxh3_64(&pieces).to_le_bytes());
    }
    xxh3_64(&sums)
}
