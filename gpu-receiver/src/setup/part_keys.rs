//! A part's key changes with every setting that can change a byte or a label, and with no other.

use std::sync::Arc;

use headwater_core::manifest::ShardEntry;
use headwater_core::part::{BadSamplePolicy, PartKey};
use headwater_core::recipe::PRESETS;
use headwater_core::{Digest, Dtype, Manifest, Recipe, SampleRef};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::hello;
use crate::config::{ReceiverConfig, SampleConfig};

/// Keys of `[receiver]` that a byte or a label of a part can follow from.
const OF_PARTS: [&str; 4] = ["seed", "on_bad_sample", "image_field", "label_field"];

/// Other values of the keys that are not text, whole numbers or switches.
const OTHER_VALUES: [(&str, &str); 16] = [
    ("order", r#""per-rank""#),
    ("epoch_end", r#""short_last""#),
    ("gpudirect", r#""on""#),
    ("rdma_gid_index", "3"),
    ("hedge_median_multiple", "7.5"),
    ("on_bad_sample", r#""fail""#),
    ("verify", r#""off""#),
    ("curriculum", r#"[{"step": 1, "weights": [1.0]}]"#),
    ("curriculum_between", r#""linear""#),
    ("masks", r#"{"patch": 16}"#),
    ("mixing", r#"{"mode": "pair"}"#),
    ("patches", r#"{"kind": "ijepa", "patch": 16}"#),
    ("resume_allow", r#"["seed"]"#),
    ("shm_allow_uids", "[7]"),
    ("links", r#"["tcp"]"#),
    ("workers", r#"["elsewhere:7402"]"#),
];

/// The key of a part of a job.
fn key(config: &ReceiverConfig, recipe: &Recipe, shards: u32, samples: &[SampleRef]) -> PartKey {
    let shard = |number: u32| ShardEntry {
        name: format!("photos-{number}.tar"),
        samples: 100,
        bytes: 1,
        digest: Digest(number.into()),
    };
    let shards = (0..shards).map(shard).collect();
    let manifest = Manifest::new("photos".into(), vec!["jpg".into()], shards).expect("a manifest");
    let scope = hello(config, recipe, &[Arc::new(manifest)]).part_scope();
    scope.key(3, 0, samples, &[])
}

fn recipe() -> Recipe {
    Recipe::preset("dinov2", Dtype::Bf16).expect("a preset")
}

/// All settings by their keys.
fn settings(config: &ReceiverConfig) -> serde_json::Map<String, Value> {
    let mut settings = serde_json::to_value(config).expect("plain data");
    // Left out where there are none.
    for key in ["masks", "mixing", "patches"] {
        settings.as_object_mut().expect("a section").entry(key).or_insert(Value::Null);
    }
    settings.as_object().expect("a section").clone()
}

/// The configuration with another value of one key.
fn changed(config: &ReceiverConfig, key: &str) -> ReceiverConfig {
    let mut all = settings(config);
    let old = all[key].clone();
    let other = OTHER_VALUES.iter().find(|(named, _)| *named == key);
    all[key] = match (other, &old) {
        (Some((_, text)), _) => serde_json::from_str(text).expect("a value"),
        (None, Value::String(text)) => json!(format!("{text}x")),
        (None, Value::Number(number)) => json!(number.as_u64().expect("whole") + 1),
        (None, Value::Bool(switch)) => json!(!switch),
        (None, Value::Array(list)) => {
            json!(list.iter().cloned().chain([json!("x")]).collect::<Vec<Value>>())
        }
        _ => panic!("receiver.{key} is {old}: give another value of it in OTHER_VALUES"),
    };
    assert_ne!(all[key], old, "receiver.{key} has that value already");
    serde_json::from_value(Value::Object(all))
        .unwrap_or_else(|error| panic!("receiver.{key}: {error}: add it to OTHER_VALUES"))
}

prop_compose! {
    fn config()(
        seed in any::<u64>().prop_map(|seed| seed / 2),
        image_field in "[a-z]{1,4}(\\|[a-z]{1,4})?",
        label_field in "([a-z]{1,4})?",
        batch_samples in 1..64u32,
    ) -> ReceiverConfig {
        let samples = SampleConfig { image_field, label_field, ..SampleConfig::default() };
        ReceiverConfig { seed, samples, batch_samples, ..ReceiverConfig::default() }
    }
}

prop_compose! {
    fn samples()(list in prop::collection::vec((0..4u32, 0..100u32, 0..3u32), 1..8))
        -> Vec<SampleRef> {
        let sample = |(shard, index, pass)| SampleRef { dataset: 0, shard, index, pass };
        list.into_iter().map(sample).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_follows_from_the_settings_of_parts_and_from_no_other(
        config in config(), samples in samples(),
    ) {
        let recipe = recipe();
        let base = key(&config, &recipe, 4, &samples);
        prop_assert_eq!(base, key(&config.clone(), &recipe, 4, &samples));
        for name in settings(&config).keys() {
            let other = key(&changed(&config, name), &recipe, 4, &samples);
            let is_of_parts = OF_PARTS.contains(&name.as_str());
            prop_assert_eq!(other != base, is_of_parts, "receiver.{}", name);
        }
        prop_assert_ne!(base, key(&config, &recipe, 5, &samples), "another manifest");
    }

    #[test]
    fn two_jobs_share_a_key_only_if_they_agree_in_every_setting_of_parts(
        one in config(), two in config(), samples in samples(), mixed in 0..16u8,
    ) {
        // Some settings of the other job, so that jobs that nearly agree are tried too.
        let pick = |bit: u8| mixed >> bit & 1 == 1;
        let mut other = ReceiverConfig { job: "another".into(), ..one.clone() };
        if pick(0) { other.seed = two.seed; }
        if pick(1) { other.samples.image_field = two.samples.image_field; }
        if pick(2) { other.samples.label_field = two.samples.label_field; }
        if pick(3) { other.samples.on_bad_sample = BadSamplePolicy::Fail; }
        let of_parts = |config: &ReceiverConfig| {
            let all = settings(config);
            OF_PARTS.map(|name| all[name].clone())
        };
        let (recipe, agree) = (recipe(), of_parts(&one) == of_parts(&other));
        let same = key(&one, &recipe, 4, &samples) == key(&other, &recipe, 4, &samples);
        prop_assert_eq!(same, agree);
    }
}

/// Every value anywhere in the recipe, as a path.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}/{name}"), found));
        }
        Value::Array(entries) => {
            let numbered = entries.iter().enumerate();
            numbered.for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Other values of the same kind.
fn others(value: &Value) -> Vec<Value> {
    let dtypes = ["bf16", "f16", "f32", "u8", "fp8_e4m3", "mxfp8_e4m3"];
    match value {
        Value::Number(number) if number.is_u64() => {
            let number = number.as_u64().expect("whole");
            [number + 1, number / 2].map(|number| json!(number)).to_vec()
        }
        Value::Number(number) => {
            let number = number.as_f64().expect("a number");
            [number * 0.75, number * 1.25, number + 0.125].map(|number| json!(number)).to_vec()
        }
        Value::String(text) if dtypes.contains(&text.as_str()) => dtypes.map(Value::from).to_vec(),
        Value::String(text) => vec![json!(format!("{text}x"))],
        Value::Bool(switch) => vec![json!(!switch)],
        _ => Vec::new(),
    }
}

#[test]
fn a_key_changes_with_every_value_of_a_recipe() {
    let (config, sample) =
        (ReceiverConfig::default(), SampleRef { dataset: 0, shard: 0, index: 0, pass: 0 });
    for (name, _) in PRESETS {
        let recipe = Recipe::preset(name, Dtype::Bf16).expect("a preset");
        let base = key(&config, &recipe, 4, &[sample]);
        let json = serde_json::to_value(&recipe).expect("plain data");
        let mut paths = Vec::new();
        leaves(&json, "", &mut paths);
        let mut tried = 0;
        for path in &paths {
            let place = |json: &mut Value, value| *json.pointer_mut(path).expect("a path") = value;
            for value in others(json.pointer(path).expect("a path")) {
                let mut other = json.clone();
                place(&mut other, value.clone());
                let Ok(other) = serde_json::from_value::<Recipe>(other) else { continue };
                if other == recipe || other.validate().is_err() {
                    continue;
                }
                tried += 1;
                assert_ne!(key(&config, &other, 4, &[sample]), base, "{name}: {path} = {value}");
            }
        }
        assert!(tried >= paths.len() / 3, "{name}: {tried} changes of {} values", paths.len());
    }
}
