//! What stands in a batch for one sample.
#![expect(
    clippy::too_many_arguments,
    reason = "the constructor that pickling needs has all of a record"
)]

use std::sync::Arc;

use headwater_core::Manifest;
use headwater_receiver::Batch;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// A sample of a batch: its source, key and label.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "headwater")]
#[derive(PartialEq)]
pub(crate) struct Sample {
    /// Name of its dataset.
    dataset: String,
    /// File name of its shard.
    shard: String,
    /// Its number in the shard, from 0.
    index: u32,
    /// Number from which its random draws follow. It belongs to the requested sample, also if
    /// another one replaced it.
    id: u64,
    /// Number of earlier passes through its dataset in this epoch.
    pass_index: u32,
    /// Its key, unique in the shard.
    key: String,
    /// Its label; -1 if it does not have one.
    label: i64,
    /// Why this sample replaces the requested one; `None` if it was requested itself.
    substituted: Option<String>,
}

// === impl Sample ===

impl Sample {
    /// The samples of a batch, in order. `manifests`: of the loader's datasets, in their order.
    pub(crate) fn all(batch: &Batch, manifests: &[Arc<Manifest>]) -> Vec<Self> {
        let asked_and_found = batch.samples().iter().zip(batch.provenance());
        let samples = asked_and_found.map(|(asked, found)| {
            let manifest = &manifests[usize::from(asked.dataset)];
            let substitution = found.substituted.as_ref();
            Self {
                dataset: manifest.dataset().to_owned(),
                shard: manifest.shards()[asked.shard as usize].name.clone(),
                // Another sample is always taken from the same shard.
                index: substitution.map_or(asked.index, |other| other.used_index),
                id: manifest.sample_id(asked).expect("its manifest has it").0,
                pass_index: asked.pass,
                key: found.key.clone(),
                label: found.label,
                substituted: substitution.map(|other| other.reason.clone()),
            }
        });
        samples.collect()
    }
}

#[pymethods]
impl Sample {
    /// For `pickle` and `copy`.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let (py, sample) = (slf.py(), slf.get());
        let Self { dataset, shard, index, id, pass_index, key, label, substituted } = sample;
        let all = (dataset, shard, index, id, pass_index, key, label, substituted);
        Ok((slf.get_type(), all.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        let Self { dataset, shard, index, key, label, .. } = self;
        let stands_in = if self.substituted.is_some() { " substituted" } else { "" };
        format!(
            "<headwater.Sample {dataset} {shard}[{index}] key={key:?} label={label}{stands_in}>"
        )
    }
}
