//! What makes a sample or a shard a broken one: the same as in training, and more.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use headwater_augment::decode::{DecodeLimits, Decoder};
use headwater_augment::part::SampleFields;
use headwater_config::Config;
use headwater_core::{ShardIndex, fields};
use headwater_storage::InspectedShard;
use headwater_storage_client::{EncodedSample, FieldSelection, IndexedShard, ObjectReader};

use super::sums::sha256;

/// Samples fetched from the disk at a time.
const BATCH_SAMPLES: u32 = 32;

/// What samples have to be, as configured for training.
pub(crate) struct Rules {
    fields: SampleFields,
    /// Names of the field of the image, `|` between alternatives.
    image: String,
    /// Names of the field of the label; none: it is not looked at.
    label: Vec<String>,
    limits: DecodeLimits,
}

/// What was found in a shard.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) samples_broken: u64,
    /// The shard itself, its index or its checksum.
    pub(crate) is_broken: bool,
    pub(crate) faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Number and key of the sample; none: it is the shard.
    sample: Option<(u32, String)>,
    reason: String,
}

// === impl Rules ===

impl Rules {
    /// The rules by which `[receiver]` and `[recipe]` read samples.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let label = &config.receiver.label_field;
        let fields = SampleFields::parse(&config.receiver.image_field, label)
            .context("receiver.image_field and receiver.label_field")?;
        let label = label.split('|').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let image = config.receiver.image_field.clone();
        Ok(Self { fields, image, label, limits: config.recipe.decode_limits() })
    }

    /// Reads a whole shard. `sum` is the SHA-256 that it should have, where that is known.
    pub(crate) fn inspect(&self, path: &Path, sum: Option<&str>) -> Found {
        let mut found = Found::default();
        let inspected = match InspectedShard::open(path) {
            Ok(inspected) => inspected,
            Err(error) => {
                found.shard(error.sentence());
                return found;
            }
        };
        let shard = inspected.shard();
        let index = shard.index();
        found.bytes = shard.object().bytes();
        found.samples = index.samples().into();
        if let Some(fault) = inspected.fault() {
            found.shard(fault.sentence());
        } else if let Err(error) = inspected.check_idx() {
            // The index of a shard that breaks off is of the whole one.
            found.shard(error.sentence());
        }
        if index.samples() == 0 && inspected.fault().is_none() {
            found.shard(
                "holds no sample: members need a name KEY.FIELD, as in `000.jpg`".to_owned(),
            );
        }
        for (key, count) in doubled_keys(index) {
            found.shard(format!(
                "has {count} samples with key `{key}`: keys must be unique in a shard"
            ));
        }
        if let Some(sum) = sum {
            match sha256(&ObjectReader::new(shard.object(), 0)) {
                Ok(is) if is == sum => {}
                Ok(is) => {
                    found.shard(format!("SHA-256 is {is}, should be {sum}: the file was changed"));
                }
                Err(error) => found.shard(error.to_string()),
            }
        }
        let mut decoder = match Decoder::new(self.limits) {
            Ok(decoder) => decoder,
            Err(error) => {
                found.shard(error.to_string());
                return found;
            }
        };
        for start in (0..index.samples()).step_by(BATCH_SAMPLES as usize) {
            let end = (start + BATCH_SAMPLES).min(index.samples());
            self.samples(shard, start..end, &mut decoder, &mut found);
        }
        found
    }

    fn samples(
        &self,
        shard: &IndexedShard,
        range: std::ops::Range<u32>,
        decoder: &mut Decoder,
        found: &mut Found,
    ) {
        let all = FieldSelection::all();
        let indices: Vec<u32> = range.collect();
        // One by one where one of them cannot be had, so that the others still are.
        let one = |index: &u32| shard.read(&[*index], &all).map(|mut one| one.remove(0));
        let samples: Vec<_> = match shard.read(&indices, &all) {
            Ok(samples) => samples.into_iter().map(Ok).collect(),
            Err(_) => indices.iter().map(one).collect(),
        };
        for (index, sample) in indices.into_iter().zip(samples) {
            let reasons = match sample {
                Ok(EncodedSample { fields: Err(verdict), .. }) => vec![verdict.to_string()],
                Ok(sample) => self.reasons(&sample, decoder),
                Err(error) => vec![error.to_string()],
            };
            found.sample(index, shard.index(), reasons);
        }
    }

    /// Why a sample is a broken one.
    fn reasons(&self, sample: &EncodedSample, decoder: &mut Decoder) -> Vec<String> {
        let mut reasons = Vec::new();
        match self.fields.image(sample) {
            Ok(image) => reasons.extend(decoder.decode(&image).err().map(|e| e.to_string())),
            Err(fault) => reasons.push(format!("{fault}, only {}", self.found_instead(sample))),
        }
        let has_label = self.label.iter().any(|name| sample.field(name).is_some());
        if !self.label.is_empty() && !has_label {
            reasons.push(format!("no field `{}` with a label", self.label.join("|")));
        }
        reasons.extend(self.fields.label(sample).err().map(|fault| fault.to_string()));
        reasons
    }

    /// The fields of a sample that has no image.
    fn found_instead(&self, sample: &EncodedSample) -> String {
        let found: Vec<&str> = sample.fields().map(|(name, _)| name.as_str()).collect();
        fields::found_instead(&found, &self.image)
    }
}

/// Keys that several samples have, in the order in which they are found to, with their number.
fn doubled_keys(index: &ShardIndex) -> Vec<(&str, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut doubled = Vec::new();
    for key in (0..index.samples()).filter_map(|sample| index.key(sample)) {
        let count = counts.entry(key).or_default();
        *count += 1;
        if *count == 2 {
            doubled.push(key);
        }
    }
    doubled.into_iter().map(|key| (key, counts[key])).collect()
}

// === impl Found ===

impl Found {
    fn shard(&mut self, reason: String) {
        self.is_broken = true;
        self.faults.push(Fault { sample: None, reason });
    }

    fn sample(&mut self, index: u32, shard: &ShardIndex, reasons: Vec<String>) {
        self.samples_broken += u64::from(!reasons.is_empty());
        let key = shard.key(index).unwrap_or_default();
        let faults = reasons.into_iter();
        self.faults
            .extend(faults.map(|reason| Fault { sample: Some((index, key.to_owned())), reason }));
    }
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        match &self.sample {
            Some((index, key)) => write!(f, "sample {index}, `{key}`: {reason}"),
            None => f.write_str(&reason),
        }
    }
}
