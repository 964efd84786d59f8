//! Only the fast part: decoding and augmenting images that the caller has, by the worker's own functions.
//!
//! No service, no socket; threads only within a call.

use std::cell::RefCell;
use std::sync::Arc;

use headwater_core::recipe::DecodeLimits;
use headwater_core::{Dtype, Layout, Recipe, SampleId};
use headwater_part_rows::RowBytes;
use headwater_receiver::Fp8Meta;
use headwater_render::decode::Decoder;
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{PartSample, RenderError, RenderKey, Renderer as Painter};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::Value;

use crate::encoded::{Encoded, numbers};
use crate::errors::{ConfigError, ImageError};
use crate::json;
use crate::memory::Aligned;
use crate::options;
use crate::tensor::Tensor;
use crate::threads::{Kept, for_each};

thread_local! {
    static PAINTER: Kept<Painter> = const { RefCell::new(None) };
    static DECODER: Kept<Decoder> = const { RefCell::new(None) };
}

/// A recipe, ready to be applied to images: what a worker does, as a function.
///
/// A pure function of recipe, seed, epoch, pass, id and the image's bytes. With a loader's values
/// it gives exactly the bytes of that loader's batch. It can be pickled, and used after fork and
/// spawn.
///
/// Arguments:
///     recipe: name of a preset, path of a TOML file, or a dict as in `[recipe]`.
///     dtype: element type of a preset's image tensors, as for `Loader`.
///     seed: seed of all random draws.
///     threads: that work during a call.
///     group: number of the size in `aspect_buckets`, or of the length in `sequence_lengths`, as in `batch.group`.
///
/// Raises `ConfigError` for a wrong recipe, or one that needs a GPU's decoder.
#[pyclass(frozen, module = "headwater")]
pub(crate) struct Renderer {
    plan: PartPlan,
    seed: u64,
    threads: usize,
    /// Recipe and dtype as they were given.
    given: [Option<Value>; 2],
    group: Option<u32>,
}

/// A sample's row of every region.
struct Row<'a>(Vec<&'a mut [u8]>);

// === impl Row ===

impl RowBytes for Row<'_> {
    fn region_mut(&mut self, i: usize) -> &mut [u8] {
        self.0[i]
    }
}

// === impl Renderer ===

impl Renderer {
    fn render(
        &self,
        py: Python<'_>,
        encoded: &[Encoded],
        keys: &[RenderKey],
        labels: &[i64],
    ) -> PyResult<Vec<Tensor>> {
        let samples = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        let layout = Layout::new(self.plan.recipe(), samples);
        let tensors = layout.tensors();
        let mut buffers: Vec<Aligned> = tensors
            .iter()
            .map(|tensor| Aligned::zeroed(layout.tensor_region(tensor).len_bytes as usize))
            .collect();
        let mut rows: Vec<Row<'_>> = encoded.iter().map(|_| Row(Vec::new())).collect();
        for (buffer, tensor) in buffers.iter_mut().zip(tensors) {
            // Row `view * samples + sample`: each sample is given its views in order.
            let chunks = buffer.as_mut_slice().chunks_exact_mut(tensor.row_bytes as usize);
            chunks.enumerate().for_each(|(at, row)| rows[at % encoded.len()].0.push(row));
        }
        let scales = PartScales::of(self.plan.recipe());
        let items: Vec<_> = rows.into_iter().enumerate().collect();
        let work = |painter: &mut Painter, (at, mut row): (usize, Row<'_>)| {
            let (key, encoded, label) = (keys[at], encoded[at].bytes(), labels[at]);
            let sample = PartSample::of_image(key, encoded, label);
            self.plan.render_sample(painter, &sample, &scales, &mut row)
        };
        py.detach(|| for_each(&PAINTER, Painter::new, self.threads, items, work))
            .map_err(|(at, error)| failed(at, &error))?;
        let recipe = self.plan.recipe();
        let fp8: Vec<usize> = recipe.fp8_tensors().collect();
        let meta = |name: &str| {
            let of = |&tensor: &usize| recipe.tensors[tensor].name == name;
            let amax = scales.amaxes()[fp8.iter().position(of)?];
            Some(Fp8Meta { scale: recipe.fp8_scale(), amax })
        };
        let owning = |(tensor, bytes): (&headwater_core::TensorLayout, Aligned)| {
            let (name, shape) = (tensor.name.clone(), tensor.shape(samples));
            Tensor::owning(name, tensor.dtype, shape, Arc::new(bytes)).with_fp8(meta(&tensor.name))
        };
        Ok(tensors.iter().zip(buffers).map(owning).collect())
    }
}

#[pymethods]
impl Renderer {
    /// Reads the recipe. See the class.
    #[new]
    #[pyo3(signature = (recipe=None, *, dtype=None, seed=0, threads=1, group=None))]
    fn new(
        recipe: Option<&Bound<'_, PyAny>>,
        dtype: Option<&Bound<'_, PyAny>>,
        seed: u64,
        threads: usize,
        group: Option<u32>,
    ) -> PyResult<Self> {
        if threads == 0 {
            return Err(PyValueError::new_err("`threads` = 0: give 1 or more"));
        }
        let value = |given: Option<&Bound<'_, PyAny>>| given.map(json::from_python).transpose();
        let given = [value(recipe)?, value(dtype)?];
        let recipe = options::recipe(&given).map_err(ConfigError::new_err)?;
        if !recipe.decoder.is_turbojpeg() {
            return Err(ConfigError::new_err(
                "`recipe.decoder` asks for a GPU's decoder, which only workers have: leave it out",
            ));
        }
        if let Some(field) = recipe.extra_fields().first() {
            return Err(ConfigError::new_err(format!(
                "the recipe reads the field `{field}` beside images, and only images are given here: leave \
                 recipe.fields, and tensors with `field`, out"
            )));
        }
        let plan = PartPlan::new(Arc::new(one_size(recipe, group)?));
        Ok(Self { plan, seed, threads, given, group })
    }

    /// Renders images: the tensors of a batch by their names, without `labels` unless they are given.
    ///
    /// Arguments:
    ///     images: a list of encoded images: `bytes`, an array of u8 with one axis, or a file's path.
    ///     ids: for each image, the number from which its draws follow: a loader's `sample.id`.
    ///         Default: 0, 1, 2 and so on.
    ///     epoch: epoch of the draws.
    ///     passes: for each image, the number of earlier passes through its dataset in this epoch:
    ///         `sample.pass_index`. Default: 0.
    ///     labels: a label for each image.
    ///
    /// Raises `ImageError` for an image that cannot be decoded, whose number it names.
    #[pyo3(signature = (images, *, ids=None, epoch=0, passes=None, labels=None))]
    fn __call__<'py>(
        &self,
        images: &Bound<'py, PyAny>,
        ids: Option<Vec<u64>>,
        epoch: u32,
        passes: Option<Vec<u32>>,
        labels: Option<Vec<i64>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = images.py();
        let encoded = Encoded::all(images)?;
        let count = encoded.len();
        let with_labels = labels.is_some();
        let labels = numbers("labels", labels, count, |_| -1)?;
        let passes = numbers("passes", passes, count, |_| 0)?;
        let ids = numbers("ids", ids, count, |at| at as u64)?;
        let key = |(id, pass)| RenderKey { seed: self.seed, epoch, pass, sample: SampleId(id) };
        let keys: Vec<_> = ids.into_iter().zip(passes).map(key).collect();
        let tensors = self.render(py, &encoded, &keys, &labels)?;
        let named = PyDict::new(py);
        for tensor in tensors {
            if with_labels || tensor.name() != Layout::LABELS {
                named.set_item(tensor.name().to_owned(), tensor)?;
            }
        }
        Ok(named)
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let [recipe, dtype] = &self.given;
        let keywords = PyDict::new(py);
        keywords.set_item("group", self.group)?;
        keywords.set_item("dtype", json::to_python(py, dtype)?)?;
        keywords.set_item("seed", self.seed)?;
        keywords.set_item("threads", self.threads)?;
        let arguments = PyTuple::new(py, [json::to_python(py, recipe)?])?;
        PyTuple::new(py, [arguments.into_any(), keywords.into_any()])
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self.plan.recipe().tensors.iter().map(|t| t.name.as_str()).collect();
        let (names, seed, threads) = (names.join(", "), self.seed, self.threads);
        format!("<headwater.Renderer {names} seed={seed} threads={threads}>")
    }
}

/// The recipe of a group of batches.
fn one_size(recipe: Recipe, group: Option<u32>) -> PyResult<Recipe> {
    let sizes = recipe.buckets();
    let key = if recipe.sequences.is_some() { "sequence_lengths" } else { "aspect_buckets" };
    let differs = recipe.has_buckets() || recipe.sequences.is_some();
    let wrong = |text: String| Err(ConfigError::new_err(text));
    match group {
        None if recipe.has_buckets() || sizes > 1 => {
            wrong(format!("the recipe has `{key}`: give `group`, 0 to {}", sizes - 1))
        }
        Some(_) if !differs => {
            wrong("`group` is given, and the recipe has no `aspect_buckets`: leave it out".into())
        }
        Some(group) if group >= sizes => {
            wrong(format!("`group` is {group}, and the recipe's `{key}` are {sizes}"))
        }
        group => Ok(recipe.in_bucket(group.unwrap_or(0))),
    }
}

/// Renders images by a recipe: short for `Renderer(recipe, ..)(images, ..)`. For many calls keep a
/// `Renderer`, which reads the recipe once.
#[pyfunction]
#[pyo3(signature = (
    images, recipe=None, *, dtype=None, seed=0, ids=None, epoch=0, passes=None, labels=None, threads=1, group=None
))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn render<'py>(
    images: &Bound<'py, PyAny>,
    recipe: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    seed: u64,
    ids: Option<Vec<u64>>,
    epoch: u32,
    passes: Option<Vec<u32>>,
    labels: Option<Vec<i64>>,
    threads: usize,
    group: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    Renderer::new(recipe, dtype, seed, threads, group)?.__call__(images, ids, epoch, passes, labels)
}

/// Decodes images to `u8[height, width, 3]`, R G B: the pixels that recipes begin with, as they are stored. JPEG,
/// PNG, WebP, GIF, BMP, TIFF or PNM.
///
/// Arguments:
///     images: a list of encoded images: `bytes`, an array of u8 with one axis, or a file's path.
///     threads: that work during the call.
///
/// Raises `ImageError` for an image that cannot be decoded, whose number it names.
#[pyfunction]
#[pyo3(signature = (images, *, threads=1))]
pub(crate) fn decode(images: &Bound<'_, PyAny>, threads: usize) -> PyResult<Vec<Tensor>> {
    let encoded = Encoded::all(images)?;
    let work = |decoder: &mut Decoder, image: &Encoded| {
        let image = decoder.decode(image.bytes())?;
        let mut bytes = Aligned::unspecified(image.pixels_len());
        let (height, width) = (image.extent().height.into(), image.extent().width.into());
        decoder.write_pixels(bytes.as_mut_slice());
        Ok(Tensor::owning("image".to_owned(), Dtype::U8, vec![height, width, 3], Arc::new(bytes)))
    };
    let make = || Ok(Decoder::new(DecodeLimits::default())?);
    let decoded =
        images.py().detach(|| for_each(&DECODER, make, threads, encoded.iter().collect(), work));
    decoded.map_err(|(at, error): (usize, RenderError)| failed(at, &error))
}

fn failed(at: usize, error: &RenderError) -> PyErr {
    let text = headwater_core::escape_control(&format!("image {at}: {error}")).into_owned();
    match error {
        RenderError::Passing { .. } => PyMemoryError::new_err(text),
        _ => ImageError::new_err(text),
    }
}
