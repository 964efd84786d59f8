//! Batches of several sizes, each of one: from `headwater datasets buckets` to the trainer, with real tiers.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use headwater_core::recipe::{BucketsSpec, nearest_bucket};
use headwater_core::sampler::Order;
use headwater_core::{Digest, Dtype, Layout, Recipe, SampleRef};
use headwater_receiver::{
    Batch, DatasetUse, DrawnConfig, OrderConfig, Receiver, ReceiverConfig, ReceiverError,
};
use headwater_render::decode::Decoder;
use headwater_render::part::{PartPlan, PartScales, SampleFields, render_part};
use headwater_render::{PartSample, RenderKey, Renderer};
use headwater_storage::{DatasetConfig, Storage, StorageConfig};
use headwater_storage_client::EncodedSample;
use serde_json::Value;

use crate::support;
use crate::support::fleet::Fleet;

const SIZES: [[u32; 2]; 3] = [[64, 64], [48, 80], [80, 48]];
const BATCH: u32 = 8;
/// The second worker keeps parts: those of another size are not taken for them.
const SHARES: &str = "share_bytes = 67108864";

/// A tensor of three sizes, and one that stays as it is.
fn recipe() -> Recipe {
    let mut recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
    let mut small = recipe.tensors[0].clone();
    [recipe.tensors[0].height, recipe.tensors[0].width] = SIZES[0];
    small.name = "small".into();
    (small.height, small.width) = (24, 32);
    recipe.tensors.push(small);
    recipe.aspect_buckets = vec![BucketsSpec { tensor: "images".into(), sizes: SIZES.to_vec() }];
    recipe
}

fn shards() -> String {
    support::data("photos/photos-{000000..000003}.tar").display().to_string()
}

fn try_open(config: ReceiverConfig, recipe: Recipe) -> Result<Receiver, ReceiverError> {
    Receiver::open(config, recipe, &[DatasetUse { name: "photos".into(), weight: None }])
}

fn open(config: &ReceiverConfig) -> Receiver {
    try_open(config.clone(), recipe()).expect("a receiver")
}

fn next(receiver: &Receiver) -> Batch {
    receiver.next_batch().expect("no fault").expect("a batch")
}

/// What `headwater` prints in a folder.
fn printed(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.current_dir(folder).args(["--set", "storage.index_dir=index"]).args(args);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Writes `list.npy` and `list.groups.npy`.
fn write_list(folder: &Path) -> String {
    let sizes = SIZES.map(|[height, width]| format!("{height}x{width}")).join(",");
    let dataset = format!("photos={}", shards());
    let args = ["datasets", "buckets", &dataset, "--sizes", &sizes, "-o", "list.npy"];
    printed(folder, &[&args[..], &["--epochs", "2", "--seed", "5"]].concat())
}

fn config(fleet: &mut Fleet) -> ReceiverConfig {
    ReceiverConfig {
        order: OrderConfig {
            order: Order::List,
            order_list: fleet.dir().join("list.npy"),
            order_groups: fleet.dir().join("list.groups.npy"),
            ..fleet.config().order
        },
        batch_samples: BATCH,
        epochs: 2,
        ..fleet.config()
    }
}

/// Renders batches in a plain loop, from the shards themselves.
struct Plain {
    storage: Storage,
    fields: SampleFields,
    runtime: tokio::runtime::Runtime,
    renderer: Renderer,
}

impl Plain {
    fn new(fleet: &Fleet, config: &ReceiverConfig) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let dataset = DatasetConfig {
            name: "photos".into(),
            shards: vec![shards()],
            ..DatasetConfig::default()
        };
        let storage = StorageConfig {
            datasets: vec![dataset],
            index_dir: Some(fleet.dir().join("plain-index")),
            ..StorageConfig::default()
        };
        let storage = runtime.block_on(Storage::open(storage)).expect("the shards");
        let fields = SampleFields::parse(&config.samples.image_field, &config.samples.label_field);
        let renderer = Renderer::new().expect("memory");
        Self { storage, fields: fields.expect("fields"), runtime, renderer }
    }

    /// Checks that each image of a batch is nearest to its group's size.
    fn check_groups(&self, batch: &Batch) {
        let group = batch.group().expect("the order has groups");
        let mut decoder = Decoder::new(recipe().decode_limits).expect("memory");
        for sample in self.samples(batch) {
            let image = self.fields.image(&sample).expect("an image");
            let extent = decoder.decode(&image).expect("an image").extent();
            assert_eq!(nearest_bucket(extent, &SIZES), group, "{}", sample.key);
        }
    }

    /// The samples that a batch asks for.
    fn samples(&self, batch: &Batch) -> Vec<EncodedSample> {
        let read = |asked: &SampleRef| {
            let (shard, index) = (asked.shard, [asked.index]);
            let read = self.storage.read("photos", shard, &index, self.fields.selection());
            self.runtime.block_on(read).expect("a sample").remove(0)
        };
        batch.samples().iter().map(read).collect()
    }

    /// Checks that a batch holds what a recipe of its one size makes of its samples.
    fn check(&mut self, batch: &Batch, seed: u64) {
        let group = batch.group().expect("the order has groups");
        assert_eq!(batch.bucket(), group);
        let [height, width] = SIZES[group as usize];
        let images = batch.tensor("images").expect("a tensor");
        assert_eq!(images.row_shape, [3, height, width]);
        assert_eq!(batch.tensor("small").expect("a tensor").row_shape, [3, 24, 32]);

        let recipe = recipe().in_bucket(group);
        let layout = Layout::new(&recipe, batch.len() as u32);
        assert_eq!(*batch.layout(), layout);
        let manifest = self.storage.manifests().next().expect("a dataset").clone();
        let found = self.samples(batch);
        let encoded: Vec<_> =
            found.iter().map(|sample| self.fields.image(sample).expect("an image")).collect();
        let samples: Vec<PartSample<'_>> = batch
            .samples()
            .iter()
            .zip(&found)
            .zip(&encoded)
            .map(|((asked, found), encoded)| {
                let sample = manifest.sample_id(asked).expect("it is in the manifest");
                let (epoch, pass) = (batch.epoch(), asked.pass);
                let key = RenderKey { seed, epoch, pass, sample };
                PartSample::of_image(key, encoded, self.fields.label(found).expect("a label"))
            })
            .collect();
        let mut slot = vec![0; layout.len_bytes() as usize];
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let regions = layout.part_regions(0, batch.len() as u32);
        parts.extend(regions.iter().map(|region| vec![0; region.len_bytes as usize]));
        let mut memory: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
        let plan = PartPlan::new(Arc::new(recipe));
        let scales = PartScales::of(plan.recipe());
        render_part(&mut self.renderer, &plan, &samples, &scales, &mut memory).expect("a part");
        for (region, bytes) in regions.iter().zip(&parts) {
            slot[region.offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        for tensor in layout.tensors() {
            let region = layout.tensor_region(tensor);
            let expected = &slot[region.offset_bytes as usize..][..region.len_bytes as usize];
            let is = batch.tensor_bytes(tensor).expect("on the host");
            assert!(is == expected, "step {}: `{}` differs", batch.step(), tensor.name);
        }
    }
}

#[test]
fn batches_of_several_sizes_are_those_of_a_plain_loop_whoever_makes_them() {
    let mut fleet = Fleet::start(shards(), 1);
    let second = fleet.add_worker(SHARES);
    let said = write_list(fleet.dir());
    assert!(said.contains("256 samples in 3 groups, 2 rows"), "{said}");
    let config = config(&mut fleet);
    let mut plain = Plain::new(&fleet, &config);

    // Both workers; the first one is killed in mid-epoch.
    let receiver = open(&config);
    let mut digests: Vec<Digest> = Vec::new();
    let (mut groups, mut state) = (Vec::new(), None);
    while let Some(batch) = receiver.next_batch().expect("no fault") {
        plain.check(&batch, config.seed);
        plain.check_groups(&batch);
        digests.push(batch.digest().expect("on the host"));
        groups.push(batch.group().expect("a group"));
        match digests.len() {
            4 => fleet.worker(0).kill(),
            7 => state = Some(receiver.state().expect("a state")),
            _ => {}
        }
    }
    let counts = [0, 1, 2].map(|group| groups.iter().filter(|&&of| of == group).count());
    assert!(counts.iter().all(|&count| count > 1), "batches of each size: {counts:?}");
    assert!(groups.windows(2).any(|pair| pair[0] != pair[1]), "{groups:?}");
    let steps = digests.len();
    // Of the second row, whose batches are others.
    let other = next(&receiver);
    plain.check(&other, config.seed);
    assert_eq!(other.epoch(), 1);
    drop(other);
    drop(receiver);

    // The worker that is left has kept parts; a receiver of one size, of the same samples, gets none of them.
    let one_size = Recipe { aspect_buckets: Vec::new(), ..recipe() };
    let workers = vec![fleet.worker(second).address.clone()];
    let left = ReceiverConfig { workers, ..config.clone() };
    let alone = try_open(left.clone(), one_size).expect("a receiver");
    for group in &groups[..3] {
        let batch = next(&alone);
        assert_eq!((batch.group(), batch.bucket()), (Some(*group), 0));
        assert_eq!(batch.tensor("images").expect("a tensor").row_shape, [3, 64, 64]);
    }
    drop(alone);

    // The same samples with other sizes: nor does one whose groups choose otherwise.
    let swapped = fleet.dir().join("swapped.npy");
    let mut file = std::fs::read(&config.order.order_groups).expect("the groups");
    for group in file[128..].as_chunks_mut::<4>().0 {
        *group = ((u32::from_le_bytes(*group) + 1) % 3).to_le_bytes();
    }
    std::fs::write(&swapped, file).expect("a file");
    let order = OrderConfig { order_groups: swapped, ..left.order.clone() };
    let swapped = open(&ReceiverConfig { order, ..left.clone() });
    for group in &groups[..10] {
        let batch = next(&swapped);
        assert_eq!(batch.group(), Some((group + 1) % 3));
        plain.check(&batch, config.seed);
    }
    drop(swapped);

    // Another receiver takes up the first one's place, and shares its parts.
    let resumed = open(&left);
    resumed.restore(state.expect("a state"), Vec::new()).expect("the same terms");
    for digest in &digests[7..] {
        assert!(next(&resumed).digest().expect("on the host") == *digest);
    }
    assert!(resumed.next_batch().expect("no fault").is_none(), "{steps} steps");
    assert!(resumed.stats().parts_shared > 0);

    // Other sizes are another recipe.
    let mut other = recipe();
    other.aspect_buckets[0].sizes[2] = [80, 40];
    let other = try_open(left, other).expect("a receiver");
    let text = other.restore(resumed.state().expect("a state"), Vec::new());
    let text = text.expect_err("another recipe").to_string();
    assert!(text.contains("recipe is "), "{text}");
}

#[test]
fn a_plan_has_the_size_of_the_batch() {
    let mut fleet = Fleet::start(shards(), 1);
    write_list(fleet.dir());
    let receiver = open(&config(&mut fleet));
    let crop =
        r#"{kind = "random_resized", scale = [0.08, 1.0], ratio = [0.75, 1.3333333333333333]}"#;
    let tensor = format!(
        "recipe.tensors=[{{name = \"images\", dtype = \"u8\", aspect_buckets = {SIZES:?}, \
         views = [{{crop = {crop}, ops = [{{op = \"flip\", p = 0.5}}]}}]}}]"
    );
    let dataset = format!("photos={}", shards());
    for step in 0..3 {
        let batch = next(&receiver);
        let group = batch.group().expect("a group");
        let plan = |json: &[&str]| {
            let step = step.to_string();
            let list = ["order=list", "order_list=list.npy", "order_groups=list.groups.npy"];
            let list = list.map(|set| format!("receiver.{set}"));
            let set = list.iter().chain([&tensor]).flat_map(|set| ["--set", set.as_str()]);
            let args = ["plan", "--seed", "7", "--batch", "8", "--step", &step];
            let args: Vec<&str> = args.into_iter().chain(set).collect();
            printed(fleet.dir(), &[&args[..], &["--dataset", &dataset], json].concat())
        };
        let text = plan(&[]);
        assert!(text.contains(&format!(", group {group}\n")), "{text}");
        let lines = plan(&["--json"]);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let [height, width] = SIZES[group as usize];
        for (line, known) in lines.zip(batch.provenance()) {
            assert_eq!((&line["key"], &line["group"]), (&known.key.as_str().into(), &group.into()));
            let resized = &line["views"][0]["resized"];
            assert_eq!((&resized["height"], &resized["width"]), (&height.into(), &width.into()));
        }
    }
}

#[test]
fn sizes_without_groups_and_groups_without_sizes_are_refused() {
    let mut fleet = Fleet::start(shards(), 1);
    write_list(fleet.dir());
    let config = config(&mut fleet);
    let refused = |config: ReceiverConfig, recipe: Recipe| {
        try_open(config, recipe).err().expect("no receiver").to_string()
    };
    let order = OrderConfig { order_groups: "".into(), ..config.order.clone() };
    let ungrouped = ReceiverConfig { order, ..config.clone() };
    let plain = ReceiverConfig { order: OrderConfig::default(), ..config.clone() };
    let said = refused(plain, recipe());
    assert!(said.starts_with("receiver.order is global: with aspect_buckets"), "{said}");
    let said = refused(ungrouped, recipe());
    assert!(said.starts_with("receiver.order_groups is not given: with aspect_buckets"), "{said}");
    let mut two = recipe();
    two.aspect_buckets[0].sizes.pop();
    let said = refused(config.clone(), two);
    assert!(said.contains("group 2 (row 0, place "), "{said}");
    assert!(said.contains("`aspect_buckets` has 2, numbered from 0"), "{said}");
    let mixing = serde_json::from_str(r#"{"mode": "pair"}"#).expect("mixing");
    let drawn = DrawnConfig { mixing: Some(mixing), ..DrawnConfig::default() };
    let said = refused(ReceiverConfig { drawn, ..config }, recipe());
    assert!(said.starts_with("receiver.mixing is given, and tensor `images` has"), "{said}");
}
