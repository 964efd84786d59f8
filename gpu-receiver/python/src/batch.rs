//! A ready batch in Python.

use std::sync::Arc;

use headwater_contact_sheet::Sheet;
use headwater_core::{Manifest, Recipe};
use headwater_receiver::Batch as Received;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

use crate::drawn;
use crate::errors::raised;
use crate::packed::Packed;
use crate::sample::Sample;
use crate::tensor::Tensor;

/// A batch. Its tensors are attributes and items, under the names of the recipe.
///
/// Its memory goes back to the receiver when the batch, its tensors and all arrays made from them
/// are gone.
#[pyclass(frozen, mapping, module = "headwater")]
pub(crate) struct Batch {
    received: Received,
    manifests: Arc<[Arc<Manifest>]>,
    recipe: Arc<Recipe>,
    /// Of the layout's small tensors.
    copies: Box<[PyOnceLock<Tensor>]>,
    /// Of masks, patches and mixing.
    drawn: PyOnceLock<Vec<Tensor>>,
    /// Fields that differ in size from sample to sample.
    packed: PyOnceLock<Vec<Packed>>,
}

/// What to say to who takes a batch for a tuple.
const IS_MAPPING: &str = "a batch has its tensors by name, as `batch.images` or `batch[\"images\"]`: `for images, labels in \
                          loader.tuples()` gives tuples of PyTorch's tensors";
/// A method of PyTorch's tensors that a batch is asked for.
const TO_GPU: &str = "cuda";

/// What a name stands for.
#[derive(IntoPyObject)]
enum Named {
    Tensor(Tensor),
    Packed(Packed),
}

// === impl Batch ===

impl Batch {
    /// `manifests`: of the loader's datasets, in their order.
    pub(crate) fn new(
        received: Received,
        manifests: Arc<[Arc<Manifest>]>,
        recipe: Arc<Recipe>,
    ) -> Self {
        let copies = received.layout().tensors().iter().map(|_| PyOnceLock::new()).collect();
        let (drawn, packed) = (PyOnceLock::new(), PyOnceLock::new());
        Self { received, manifests, recipe, copies, drawn, packed }
    }

    /// All tensors by name. Fields that differ in size are included without padding.
    fn all(&self, py: Python<'_>) -> PyResult<impl Iterator<Item = (String, Tensor)>> {
        let layout = self.received.layout().tensors();
        let plain = (0..layout.len()).filter(|index| !self.is_padded(&layout[*index].name));
        let plain: Vec<Tensor> = plain.map(|index| self.at(py, index)).collect::<PyResult<_>>()?;
        let packed = self.packed(py)?.iter().flat_map(Packed::tensors);
        let tensors = plain.into_iter().chain(packed);
        let all = tensors.chain(self.drawn(py).iter().cloned());
        Ok(all.map(|tensor| (tensor.name().to_owned(), tensor)))
    }

    /// Whether a tensor of the slot is one of a field that differs in size.
    fn is_padded(&self, name: &str) -> bool {
        let mut padded = self.recipe.fields.iter().filter(|spec| spec.bytes_max().is_some());
        padded.any(|spec| spec.name == name || spec.sizes_name() == name)
    }

    /// The fields that differ in size; brought together when they are first asked for.
    fn packed(&self, py: Python<'_>) -> PyResult<&[Packed]> {
        if let Some(packed) = self.packed.get(py) {
            return Ok(packed);
        }
        let mut all = Vec::new();
        for spec in &self.recipe.fields {
            let packed = self.received.packed(spec).map_err(raised)?;
            all.extend(packed.map(|packed| Packed::new(spec, &packed)));
        }
        Ok(self.packed.get_or_init(py, || all))
    }

    /// The tensors of masks, patches and mixing; empty without them.
    fn drawn(&self, py: Python<'_>) -> &[Tensor] {
        self.drawn.get_or_init(py, || {
            let masks = self.received.masks().map(drawn::of_masks).into_iter().flatten();
            let patches = self.received.patches().map(drawn::of_patches).into_iter().flatten();
            let mixing = self.received.mixing().map(drawn::of_mixing);
            masks.chain(patches).chain(mixing.into_iter().flatten()).collect()
        })
    }

    /// A tensor of the layout. A small one is a copy: labels that are kept for a metric hold no slot.
    fn at(&self, py: Python<'_>, index: usize) -> PyResult<Tensor> {
        let tensor = Tensor::new(self.received.clone(), index);
        if !tensor.is_small_on_host() {
            return Ok(tensor);
        }
        self.copies[index].get_or_try_init(py, || tensor.copied()).cloned()
    }

    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<Named>> {
        let tensors = self.received.layout().tensors();
        let index = tensors.iter().position(|tensor| tensor.name == name);
        if let Some(index) = index.filter(|_| !self.is_padded(name)) {
            return Ok(Some(Named::Tensor(self.at(py, index)?)));
        }
        if let Some(drawn) = self.drawn(py).iter().find(|tensor| tensor.name() == name) {
            return Ok(Some(Named::Tensor(drawn.clone())));
        }
        for packed in self.packed(py)? {
            if packed.name() == name {
                return Ok(Some(Named::Packed(packed.clone())));
            }
            if let Some(tensor) = packed.tensors().into_iter().find(|tensor| tensor.name() == name)
            {
                return Ok(Some(Named::Tensor(tensor)));
            }
        }
        Ok(None)
    }

    fn missing(&self, py: Python<'_>, name: &str) -> String {
        if name == TO_GPU {
            return "a batch is moved by `batch.to(\"cuda\")`".to_owned();
        }
        let all = self.all(py).into_iter().flatten();
        let names: Vec<String> = all.map(|(name, _)| name).collect();
        format!("the batch has no tensor `{name}`: it has {}", names.join(", "))
    }
}

#[pymethods]
impl Batch {
    /// Epoch, from 0.
    #[getter]
    fn epoch(&self) -> u32 {
        self.received.epoch()
    }

    /// Step of the epoch, from 0.
    #[getter]
    fn step(&self) -> u64 {
        self.received.step()
    }

    /// The group of its samples in `order_groups`; None if the order has no groups. With
    /// `aspect_buckets`, the tensors have the size with this number; with `sequence_lengths`, the sequences have the length
    /// with this number.
    #[getter]
    fn group(&self) -> Option<u32> {
        self.received.group()
    }

    /// Keys of the samples that are in the batch, in order.
    #[getter]
    fn keys(&self) -> Vec<&str> {
        self.received.provenance().iter().map(|sample| sample.key.as_str()).collect()
    }

    /// The samples of the batch, in order: dataset, shard, index in the shard, key and label of
    /// each.
    #[getter]
    fn samples(&self) -> Vec<Sample> {
        Sample::all(&self.received, &self.manifests)
    }

    /// The samples that were replaced: index in the batch, and what was wrong with the original.
    #[getter]
    fn substituted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let substituted = PyDict::new(py);
        for (index, sample) in self.received.provenance().iter().enumerate() {
            if let Some(substitution) = &sample.substituted {
                substituted.set_item(index, &substitution.reason)?;
            }
        }
        Ok(substituted)
    }

    /// Digest of the content as it is now, in hexadecimal. Equal coordinates give equal digests, whoever
    /// made the batch. Reads the whole batch.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let digest = py.detach(|| self.received.digest()).map_err(raised)?;
        Ok(digest.to_string())
    }

    /// Maximum number of masked patches, the same for all batches of this size; 0 without masks.
    #[getter]
    fn upperbound(&self) -> u64 {
        self.received.masks().map_or(0, headwater_core::Masks::upperbound)
    }

    /// Number of masked patches, which is the length of `mask_indices`; 0 without masks.
    #[getter]
    fn n_masked_patches(&self) -> usize {
        self.received.masks().map_or(0, |masks| masks.indices().len())
    }

    /// All tensors by name.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tensors = PyDict::new(py);
        for (name, tensor) in self.all(py)? {
            tensors.set_item(name, tensor)?;
        }
        Ok(tensors)
    }

    /// Names and tensors, in the order of the recipe; those of masks, patches and mixing last.
    fn items(&self, py: Python<'_>) -> PyResult<Vec<(String, Tensor)>> {
        Ok(self.all(py)?.collect())
    }

    /// All tensors by name as `torch.Tensor`, without a copy: a `headwater.TorchBatch`.
    fn torch<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, batch) = (slf.py(), slf.get());
        let tensors = PyDict::new(py);
        for (name, tensor) in batch.all(py)? {
            tensors.set_item(name, tensor.torch(py)?)?;
        }
        let about = PyDict::new(py);
        about.set_item("epoch", batch.epoch())?;
        about.set_item("step", batch.step())?;
        about.set_item("group", batch.group())?;
        about.set_item("samples", batch.samples())?;
        let fields = PyDict::new(py);
        for packed in batch.packed(py)? {
            fields.set_item(packed.name(), packed.clone())?;
        }
        about.set_item("fields", fields)?;
        about.set_item("upperbound", batch.upperbound())?;
        about.set_item("n_masked_patches", batch.n_masked_patches())?;
        py.import("headwater.torch_batch")?.getattr("TorchBatch")?.call((tensors,), Some(&about))
    }

    /// All tensors by name on a PyTorch device: a `headwater.TorchBatch`. Tensors that are already
    /// there share the receiver's memory; the others are copied.
    #[pyo3(signature = (device, non_blocking=false))]
    fn to<'py>(
        slf: &Bound<'py, Self>,
        device: &Bound<'py, PyAny>,
        non_blocking: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::torch(slf)?.call_method1("to", (device, non_blocking))
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Named> {
        self.find(py, name)?.ok_or_else(|| PyAttributeError::new_err(self.missing(py, name)))
    }

    fn __getitem__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Named> {
        let Ok(name) = name.extract::<String>() else {
            return Err(PyTypeError::new_err(format!("batch[{name}]: {IS_MAPPING}")));
        };
        self.find(py, &name)?.ok_or_else(|| PyKeyError::new_err(self.missing(py, &name)))
    }

    /// Not of tensors: `items` has them with their names.
    fn __iter__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(IS_MAPPING))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.find(py, name)?.is_some())
    }

    /// A contact sheet, as a PNG file: a row for each of the first `samples` samples, with its
    /// views side by side.
    #[pyo3(signature = (samples=8))]
    fn contact_sheet<'py>(&self, py: Python<'py>, samples: usize) -> PyResult<Bound<'py, PyBytes>> {
        let drawn = py.detach(|| Sheet::draw(&self.received, &self.recipe, samples));
        let file = drawn.map_err(raised)?.png();
        let file = file.map_err(|error| PyValueError::new_err(format!("no picture: {error}")))?;
        Ok(PyBytes::new(py, &file))
    }

    /// For notebooks: what the batch is, and its contact sheet.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("headwater.notebook")?.call_method1("batch_html", (slf,))
    }

    fn __len__(&self) -> usize {
        self.received.len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let all = self.all(py).into_iter().flatten();
        let tensors: Vec<String> =
            all.map(|(name, tensor)| format!(" {name}={}", tensor.summary())).collect();
        let (epoch, step) = (self.epoch(), self.step());
        format!("<headwater.Batch epoch={epoch} step={step}{}>", tensors.concat())
    }
}
