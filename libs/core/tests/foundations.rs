//! Digests, dtypes, layouts and manifests: what everything else stands on.

use std::collections::BTreeMap;

use headwater_core::manifest::SHARD_SAMPLES_MAX;
use headwater_core::{
    Digest, Digester, Dtype, Layout, Manifest, ManifestError, Recipe, SampleId, SampleRef,
    ShardEntry,
};
use proptest::prelude::*;

use crate::support::dataset;

const DTYPES: [Dtype; 15] = [
    Dtype::Bf16,
    Dtype::F16,
    Dtype::F32,
    Dtype::U8,
    Dtype::Fp8E4m3,
    Dtype::Mxfp8E4m3,
    Dtype::E8m0,
    Dtype::I64,
    Dtype::Bool,
    Dtype::F64,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::U16,
    Dtype::U32,
];

fn entry(name: &str, samples: u32) -> ShardEntry {
    ShardEntry { name: name.to_owned(), samples, bytes: 5, digest: Digest(9) }
}

fn manifest(dataset: &str, shards: &[ShardEntry]) -> Result<Manifest, ManifestError> {
    Manifest::new(dataset.to_owned(), vec!["jpg".to_owned()], shards.to_vec())
}

proptest! {
    #[test]
    fn two_sequences_of_values_never_digest_the_same_bytes(
        one in prop::collection::vec(prop::collection::vec(0_u8..3, 0..12), 0..4),
        other in prop::collection::vec(prop::collection::vec(0_u8..3, 0..12), 0..4),
    ) {
        let digest = |values: &[Vec<u8>]| {
            let mut digester = Digester::new("test");
            values.iter().for_each(|value| { digester.bytes(value); });
            digester.finish()
        };
        prop_assert_eq!(digest(&one) == digest(&other), one == other);
        // Where a value ends must tell.
        let joined: Vec<u8> = one.concat();
        prop_assert_eq!(digest(&one) == digest(&[joined]), one.len() == 1);
    }

    #[test]
    fn the_regions_of_parts_tile_the_tensors(
        samples in 0_u32..40,
        cuts in prop::collection::vec(0_u32..40, 0..5),
        dtype in 0_usize..5,
        (height, width) in (1_u32..20, 1_u32..20),
    ) {
        let mut recipe = Recipe::preset("dinov2", DTYPES[dtype]).unwrap();
        (recipe.tensors[0].height, recipe.tensors[1].width) = (height, width);
        let layout = Layout::new(&recipe, samples);
        let mut bounds: Vec<u32> = cuts.into_iter().map(|cut| cut.min(samples)).collect();
        bounds.extend([0, samples]);
        bounds.sort_unstable();
        let parts = bounds.windows(2).flat_map(|w| layout.part_regions(w[0], w[1] - w[0]));
        let mut owned: Vec<_> = parts.filter(|region| region.len_bytes > 0).collect();
        owned.sort_unstable_by_key(|region| region.offset_bytes);
        let mut owned = owned.into_iter();
        let mut end = 0;
        for tensor in layout.tensors() {
            prop_assert!(tensor.offset_bytes.is_multiple_of(256) && tensor.offset_bytes >= end);
            prop_assert!(tensor.offset_bytes - end < 256);
            end = tensor.offset_bytes;
            let elements: u64 = tensor.shape(samples).iter().product();
            let whole = layout.tensor_region(tensor);
            prop_assert_eq!(whole.len_bytes, elements * tensor.dtype.size_bytes());
            while end < whole.offset_bytes + whole.len_bytes {
                let region = owned.next().unwrap();
                prop_assert_eq!(region.offset_bytes, end, "neither gap nor overlap");
                end += region.len_bytes;
            }
            prop_assert_eq!(end, whole.offset_bytes + whole.len_bytes);
        }
        prop_assert!(owned.next().is_none());
        prop_assert_eq!(layout.len_bytes(), end.next_multiple_of(256));
    }
}

#[test]
fn a_batch_of_dinov2_lies_as_dinov2_collates() {
    let layout = Layout::new(&Recipe::preset("dinov2", Dtype::Bf16).unwrap(), 64);
    let tensors: Vec<_> = layout.tensors().iter().map(|t| (t.shape(64), t.offset_bytes)).collect();
    let (global, local) = (2 * 64 * 3 * 224 * 224 * 2, 8 * 64 * 3 * 96 * 96 * 2);
    let expected =
        [(vec![128, 3, 224, 224], 0), (vec![512, 3, 96, 96], global), (vec![64], global + local)];
    assert_eq!(tensors, expected);
    // View 1 of samples 10 and 11: rows 74 and 75 of the first tensor.
    let region = layout.part_regions(10, 2)[1];
    let row = 3 * 224 * 224 * 2;
    assert_eq!((region.offset_bytes, region.len_bytes), (74 * row, 2 * row));
    assert_eq!(layout.tensors()[2].name, Layout::LABELS);
}

#[test]
#[should_panic(expected = "part 3+2 of a batch of 4 samples")]
fn a_part_beyond_its_batch_has_no_regions() {
    let _ = Layout::new(&Recipe::preset("dinov2", Dtype::U8).unwrap(), 4).part_regions(3, 2);
}

#[test]
fn digests_go_through_text_and_bytes() {
    let digest = Digest::of(b"headwater");
    assert_eq!(Digest::from_bytes(digest.to_bytes()), digest);
    assert_eq!(Digest::try_from(digest.to_string()).unwrap(), digest);
    assert_eq!(Digest(0xab).to_string(), format!("{:0>32}", "ab"));
    for bad in ["", "ab", &"0".repeat(33), &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
        let error = Digest::try_from(bad.to_owned()).unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits"), "{error}");
    }
    assert_ne!(Digester::new("a").finish(), Digester::new("b").finish());
    assert_ne!(Digester::new("a").number(1).finish(), Digester::new("a").finish());
}

#[test]
fn a_dtype_has_one_name_everywhere() {
    for dtype in DTYPES {
        assert_eq!(serde_json::to_value(dtype).unwrap(), dtype.name());
        assert_eq!(dtype.to_string(), dtype.name());
    }
    let sizes: BTreeMap<_, _> = DTYPES.iter().map(|d| (d.name(), d.size_bytes())).collect();
    let expected = [
        ("bf16", 2),
        ("bool", 1),
        ("e8m0", 1),
        ("f16", 2),
        ("f32", 4),
        ("f64", 8),
        ("fp8_e4m3", 1),
        ("i16", 2),
        ("i32", 4),
        ("i64", 8),
        ("i8", 1),
        ("mxfp8_e4m3", 1),
        ("u16", 2),
        ("u32", 4),
        ("u8", 1),
    ];
    assert!(sizes.into_iter().eq(expected));
}

#[test]
fn a_manifest_beyond_its_limits_is_refused_by_name() {
    let refused = |shards: &[ShardEntry]| manifest("dogs", shards).unwrap_err().to_string();
    assert!(refused(&[]).contains("`dogs` has no samples"));
    assert!(refused(&[entry("a", 0)]).contains("`dogs` has no samples"));
    let twice = refused(&[entry("a", 1), entry("b", 1), entry("a", 2)]);
    assert!(twice.contains("`dogs` has two shards named `a`"), "{twice}");
    let large = refused(&[entry("a", SHARD_SAMPLES_MAX + 1)]);
    assert!(large.contains("samples in one shard 1073741825 is over the limit"), "{large}");
    // A sample's number has 48 bits.
    let full: Vec<_> = (0..1 << 18).map(|i| entry(&i.to_string(), SHARD_SAMPLES_MAX)).collect();
    assert_eq!(manifest("dogs", &full).unwrap().samples(), 1 << 48);
    let over = refused(&[&full[..], &[entry("more", 1)]].concat());
    assert!(over.contains("number of samples 281474976710657 is over"), "{over}");
}

#[test]
fn a_manifest_s_digest_tells_every_change_of_its_shards() {
    let shards = [entry("a", 1), entry("b", 2)];
    let digest = |dataset: &str, shards: &[ShardEntry]| manifest(dataset, shards).unwrap().digest();
    let change = |change: fn(&mut ShardEntry)| {
        let mut shards = shards.clone();
        change(&mut shards[1]);
        digest("d", &shards)
    };
    let digests = [
        digest("d", &shards),
        digest("e", &shards),
        digest("d", &shards[..1]),
        digest("d", &[shards[1].clone(), shards[0].clone()]),
        change(|shard| shard.name = "c".to_owned()),
        change(|shard| shard.samples = 3),
        change(|shard| shard.bytes = 6),
        change(|shard| shard.digest = Digest(8)),
    ];
    for (i, one) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(one), "digest {i} came before");
    }
}

#[test]
fn every_sample_has_a_number_of_its_own() {
    let data = dataset("a", &[2, 0, 3]);
    let id = |shard, index| data.sample_id(&SampleRef { dataset: 7, shard, index, pass: 1 });
    let all = [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)];
    for (running, (shard, index)) in all.into_iter().enumerate() {
        assert_eq!(id(shard, index), Some(SampleId(7 << 48 | running as u64)));
        assert_eq!(data.shard_start(shard) + u64::from(index), running as u64);
    }
    for (shard, index) in [(0, 2), (1, 0), (2, 3), (3, 0), (u32::MAX, u32::MAX)] {
        assert_eq!(id(shard, index), None);
    }
}

#[test]
fn scales_of_blocks_lie_behind_their_tensor_and_a_narrow_block_has_one_too() {
    let recipe = Recipe::preset("dinov3", Dtype::Mxfp8E4m3).unwrap();
    let layout = Layout::new(&recipe, 5);
    let tensors: Vec<_> = layout
        .tensors()
        .iter()
        .map(|t| (t.name.as_str(), t.dtype, t.shape(5), t.offset_bytes))
        .collect();
    let (globals, locals) = (10 * 3 * 256 * 256, 40 * 3 * 112 * 112);
    let behind = [0, globals, globals + globals / 32];
    let (local, last) = (behind[2], behind[2] + locals);
    assert_eq!(
        tensors,
        [
            ("global_crops", Dtype::Mxfp8E4m3, vec![10, 3, 256, 256], 0),
            ("global_crops_scales", Dtype::E8m0, vec![10, 3, 256, 8], behind[1]),
            ("local_crops", Dtype::Mxfp8E4m3, vec![40, 3, 112, 112], local),
            ("local_crops_scales", Dtype::E8m0, vec![40, 3, 112, 4], last),
            ("labels", Dtype::I64, vec![5], last + 40 * 3 * 112 * 4),
        ]
    );
    let mut taken = recipe;
    taken.tensors[1].name = "global_crops_scales".into();
    let error = taken.validate().unwrap_err().to_string();
    assert!(error.contains("something else of the name"), "{error}");
}
