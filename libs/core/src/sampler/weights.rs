//! Weights of the datasets: configured, changing with time, and set while the job runs.

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

use super::error::SamplerError;

/// Most entries of a history of weights.
pub const HISTORY_MAX: usize = 1 << 16;

/// Weights as a function of the job-wide step.
///
/// The job-wide step of `(epoch, step)` is `epoch * steps + step`, where `steps` is the number of
/// steps of an epoch by the configuration in force; see
/// [`Sampler::job_step`](super::Sampler::job_step).
///
/// Where the first point is later than step 0, the configured weights hold at step 0, as if they
/// were a point there. After the last point its weights hold on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curriculum {
    /// The weights between two points.
    #[serde(default)]
    pub between: Between,
    /// Points with rising steps.
    pub points: Vec<CurriculumPoint>,
}

/// The weights from one job-wide step on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields)]
pub struct CurriculumPoint {
    /// Job-wide step.
    #[key(unit = "none")]
    pub step: u64,
    /// One weight for each dataset, with any sum.
    pub weights: Vec<f64>,
}

/// The weights between two points of a curriculum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// Those of the earlier point.
    #[default]
    Stepwise,
    /// Interpolated, after the weights of both points have been brought to a sum of 1.
    Linear,
}

/// Weights set while the job ran, in force from `(epoch, step)` until the next entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsChange {
    /// Epoch of the first batch that they hold for.
    pub epoch: u32,
    /// Step of that batch.
    pub step: u64,
    /// One weight for each dataset, of any sum, as they were given.
    pub weights: Vec<f64>,
}

/// All that decides on the weights of a step.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    datasets: Vec<String>,
    between: Between,
    /// Rising steps, the first is 0; weights of sum 1.
    points: Vec<CurriculumPoint>,
    history: Vec<WeightsChange>,
}

// === impl WeightsChange ===

impl WeightsChange {
    fn from(&self) -> (u32, u64) {
        (self.epoch, self.step)
    }
}

// === impl Weights ===

impl Weights {
    /// `sizes`: numbers of samples, the weights where `configured` is empty.
    pub(super) fn new(
        datasets: Vec<String>,
        sizes: &[u64],
        configured: &[f64],
        curriculum: Option<&Curriculum>,
    ) -> Result<Self, SamplerError> {
        let mut points = Vec::new();
        let first_step = curriculum.and_then(|c| c.points.first()).map(|point| point.step);
        if first_step != Some(0) {
            let by_size: Vec<f64> = sizes.iter().map(|&samples| samples as f64).collect();
            let weights = if configured.is_empty() { &by_size } else { configured };
            points.push(CurriculumPoint {
                step: 0,
                weights: unit_sum("weights", &datasets, weights)?,
            });
        } else if !configured.is_empty() {
            let problem = "the weights of step 0 are given by `weights` and by the first point: \
                           leave one of them out";
            return Err(SamplerError::Curriculum { problem: problem.to_owned() });
        }
        for (i, point) in curriculum.iter().flat_map(|c| &c.points).enumerate() {
            if i > 0 && points.last().is_some_and(|last| last.step >= point.step) {
                let problem =
                    format!("point {i} (step {}) is not after the one before", point.step);
                return Err(SamplerError::Curriculum { problem });
            }
            let weights = unit_sum(&format!("curriculum point {i}"), &datasets, &point.weights)?;
            points.push(CurriculumPoint { step: point.step, weights });
        }
        let between = curriculum.map_or(Between::default(), |c| c.between);
        Ok(Self { datasets, between, points, history: Vec::new() })
    }

    /// All changes, in the order of their coordinates.
    pub(super) fn history(&self) -> &[WeightsChange] {
        &self.history
    }

    /// Enters a change; one for the same coordinates is replaced.
    pub(super) fn set(&mut self, change: WeightsChange) -> Result<(), SamplerError> {
        let what = format!("weights from epoch {} step {}", change.epoch, change.step);
        unit_sum(&what, &self.datasets, &change.weights)?;
        match self.history.binary_search_by_key(&change.from(), WeightsChange::from) {
            Ok(same) => self.history[same] = change,
            Err(_) if self.history.len() >= HISTORY_MAX => {
                return Err(SamplerError::HistoryFull { limit: HISTORY_MAX });
            }
            Err(place) => self.history.insert(place, change),
        }
        Ok(())
    }

    /// Weights of sum 1 at `(epoch, step)`, which is `job_step` in the whole job.
    pub(super) fn at(&self, epoch: u32, step: u64, job_step: u64) -> Vec<f64> {
        let changes = self.history.partition_point(|change| change.from() <= (epoch, step));
        if let Some(change) = changes.checked_sub(1).map(|last| &self.history[last]) {
            return scaled(&change.weights);
        }
        let place = self.points.partition_point(|point| point.step <= job_step) - 1;
        let point = &self.points[place];
        match (self.between, self.points.get(place + 1)) {
            (Between::Linear, Some(next)) => {
                let share = (job_step - point.step) as f64 / (next.step - point.step) as f64;
                let pairs = point.weights.iter().zip(&next.weights);
                pairs.map(|(&from, &to)| from + (to - from) * share).collect()
            }
            _ => point.weights.clone(),
        }
    }
}

/// Checks weights and brings them to a sum of 1.
fn unit_sum(what: &str, datasets: &[String], weights: &[f64]) -> Result<Vec<f64>, SamplerError> {
    let (what, datasets_named) = (what.to_owned(), || datasets.to_vec());
    if weights.len() != datasets.len() {
        let given = weights.len();
        return Err(SamplerError::WeightsCount { what, given, datasets: datasets_named() });
    }
    for (dataset, weight) in datasets.iter().zip(weights) {
        if !(weight.is_finite() && *weight >= 0.0) {
            let (dataset, weight) = (dataset.clone(), weight.to_string());
            return Err(SamplerError::Weight { what, dataset, weight });
        }
    }
    if weights.iter().all(|&weight| weight == 0.0) {
        return Err(SamplerError::WeightsAllZero { what, datasets: datasets_named() });
    }
    Ok(scaled(weights))
}

/// Divided by the largest first, so that no sum overflows.
fn scaled(weights: &[f64]) -> Vec<f64> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
    weights.iter().map(|weight| weight / largest / sum).collect()
}
