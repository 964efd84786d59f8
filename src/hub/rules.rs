//! What makes a sample or a shard a broken one: the same as in training, and more.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use headwater_config::Config;
use headwater_core::{ShardIndex, fields};
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_render::part::SampleFields;
use headwater_storage::{Damage, FoundShard, InspectedSamples};
use headwater_storage_client::{EncodedSample, FieldSelection, IndexedShard, ShardReadError};

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
    /// Where the recipe decodes nothing: the most bytes of a sample.
    raw_bytes_max: Option<u32>,
}

/// What was found in a shard.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) samples: u64,
    /// Of a tar's file; of other shards' fields.
    pub(crate) bytes: u64,
    /// Whether `SHA256SUMS` says what its file should be.
    pub(crate) has_sum: bool,
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
        let label = &config.receiver.samples.label_field;
        let fields = SampleFields::parse(&config.receiver.samples.image_field, label)
            .context("receiver.image_field and receiver.label_field")?;
        let label = label.split('|').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let image = config.receiver.samples.image_field.clone();
        let limits = config.recipe.decode_limits();
        let raw_bytes_max = config.recipe.recipe()?.raw.map(|raw| raw.bytes_max);
        Ok(Self { fields, image, label, limits, raw_bytes_max })
    }

    /// Whether samples with these fields can be trained on at all.
    ///
    /// # Errors
    /// None of them is the image or the label; says what to configure.
    pub(crate) fn fit(&self, dataset: &str, found: &[String]) -> Result<()> {
        let lacks = |what: &str, wanted: &str, key: &str, otherwise: &str| {
            let only = fields::found_instead(found, wanted);
            anyhow!(
                "no sample of dataset `{dataset}` has {what} `{wanted}` ({key}), only {only}: name one \
                 of these by `--set {key}=NAME`{otherwise}"
            )
        };
        if !fields::has_field(found, &self.image) {
            let raw = "; `--set recipe.preset=raw` reads what is no image";
            return Err(lacks("an image", &self.image, "receiver.image_field", raw));
        }
        let label = self.label.join("|");
        if !self.label.is_empty() && !fields::has_field(found, &label) {
            let without = ", or do without labels by `--set receiver.label_field=`";
            return Err(lacks("a label", &label, "receiver.label_field", without));
        }
        Ok(())
    }

    /// Reads a whole shard.
    pub(crate) fn inspect(&self, shard: &FoundShard) -> Found {
        let mut found = Found::default();
        let InspectedSamples { shard, faults, damage, has_sum, is_tar } = match shard.open() {
            Ok(inspected) => inspected,
            Err(error) => {
                found.shard(error.sentence());
                return found;
            }
        };
        let index = shard.index();
        found.has_sum = has_sum;
        found.bytes = if is_tar { shard.object().bytes() } else { 0 };
        found.samples = index.samples().into();
        if is_tar && index.samples() == 0 && faults.is_empty() {
            found.shard(
                "holds no sample: members need a name KEY.FIELD, as in `000.jpg`".to_owned(),
            );
        }
        faults.iter().for_each(|fault| found.shard(fault.sentence()));
        for (key, count) in doubled_keys(index).into_iter().filter(|_| is_tar) {
            found.shard(format!(
                "has {count} samples with key `{key}`: keys must be unique in a shard"
            ));
        }
        let mut damaged = BTreeMap::new();
        for Damage { sample, fault } in damage {
            match sample {
                Some(sample) => drop(damaged.insert(sample, fault)),
                None => found.shard(fault),
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
            for (index, sample) in read(&shard, start..end) {
                if !is_tar {
                    found.bytes += sample.as_ref().map_or(0, EncodedSample::bytes);
                }
                let mut reasons: Vec<_> = damaged.remove(&index).into_iter().collect();
                reasons.extend(self.reasons(sample, &mut decoder));
                found.sample(index, shard.index(), reasons);
            }
        }
        found
    }

    /// Why a sample is a broken one.
    fn reasons(
        &self,
        sample: Result<EncodedSample, ShardReadError>,
        decoder: &mut Decoder,
    ) -> Vec<String> {
        let sample = match sample {
            Ok(EncodedSample { fields: Err(verdict), .. }) => return vec![verdict.to_string()],
            Ok(sample) => sample,
            Err(error) => return vec![error.to_string()],
        };
        let mut reasons = Vec::new();
        match self.fields.image(&sample) {
            Ok(image) => reasons.extend(self.image_fault(&image, decoder)),
            Err(fault) => reasons.push(format!("{fault}, only {}", self.found_instead(&sample))),
        }
        let has_label = self.label.iter().any(|name| sample.field(name).is_some());
        if !self.label.is_empty() && !has_label {
            reasons.push(format!("no field `{}` with a label", self.label.join("|")));
        }
        reasons.extend(self.fields.label(&sample).err().map(|fault| fault.to_string()));
        reasons
    }

    /// Why an image is broken: it cannot be decoded or, if nothing is decoded, it is too large.
    fn image_fault(&self, image: &[u8], decoder: &mut Decoder) -> Option<String> {
        let Some(most) = self.raw_bytes_max else {
            return decoder.decode(image).err().map(|error| error.to_string());
        };
        let bytes = image.len();
        (bytes > most as usize).then(|| {
            format!("it has {bytes} bytes, over the limit of {most} (recipe.raw_bytes_max)")
        })
    }

    /// The fields of a sample that has no image.
    fn found_instead(&self, sample: &EncodedSample) -> String {
        let found: Vec<&str> = sample.fields().map(|field| field.name.as_str()).collect();
        fields::found_instead(&found, &self.image)
    }
}

/// Samples of a shard. If one of them cannot be read, they are read one by one, so that the others
/// are still checked.
fn read(
    shard: &IndexedShard,
    range: Range<u32>,
) -> Vec<(u32, Result<EncodedSample, ShardReadError>)> {
    let all = FieldSelection::all();
    let indices: Vec<u32> = range.collect();
    let one = |index: &u32| shard.read(&[*index], &all).map(|mut one| one.remove(0));
    let samples: Vec<_> = match shard.read(&indices, &all) {
        Ok(samples) => samples.into_iter().map(Ok).collect(),
        Err(_) => indices.iter().map(one).collect(),
    };
    indices.into_iter().zip(samples).collect()
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
