//! The loader: a receiver that Python opens, iterates, moves and asks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::sampler::{EpochEnd, State, Term};
use headwater_core::serde_words;
use headwater_receiver::{Position, Receiver, ReceiverError, Resume};
use headwater_telemetry::Target;
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::detached::detached;
use crate::errors::{ConfigError, StateError, raised};
use crate::group::group;
use crate::iteration::Iteration;
use crate::keywords::{callbacks, collect_left, given, translated, warn};
use crate::local::{python, scripts};
use crate::opening::{open, refuse_dataloader_workers};
use crate::options::{self, Arguments};
use crate::pace::Pace;
use crate::progress::Progress;
use crate::ray::Following;
use crate::shared::{Shared, before_state, check_epoch};
use crate::signature::signature;
use crate::trace::Trace;
use crate::{json, telemetry};

/// Batches of a training rank, in order.
///
/// Iterate over it once an epoch: `for batch in loader: ..`. It needs no DataLoader around it: its
/// own threads prepare `window_batches` batches in advance.
///
/// Arguments:
///     data: a path, a pattern such as "photos-{000..127}.tar", a URL, a list of them, or a dict of them by the
///         datasets' names. The loader then starts a storage node and a worker on this host. All ranks of the host
///         share them, and they end with the last rank. A path that ends with `.toml` is taken as `config`.
///     config: path of a `headwater.toml`; without it the one that `$HEADWATER_CONFIG` names, else
///         `headwater.toml` in the working directory.
///     datasets: a name, or a list of names, of `(name, weight)` or of `{"name": .., "weight": ..}`.
///     recipe: name of a preset, path of a TOML file, or a dict as in `[recipe]`; it replaces the
///         file's whole `[recipe]`.
///     dtype: element type of a preset's image tensors: "bf16", "f16", "f32", "u8", "fp8_e4m3" or
///         "mxfp8_e4m3", or PyTorch's `torch.bfloat16` and so on.
///     image_size, resize_size, crop_scale: of a preset with one size, in pixels and shares of the area.
///     global_crops_size, global_crops_scale, local_crops_number, local_crops_size,
///         local_crops_scale: of a preset with two sizes of crops.
///     interpolation, mean, std, exif_orientation: of any recipe. docs/recipes.md describes all of these.
///     batch_size: samples in this rank's batch.
///     storage, workers: addresses of the two tiers, lists of "host:port", or one string "a:1,b:1".
///     ray: name of a service that `headwater.ray.start` has started, in place of these addresses.
///     rank, world_size: this process's place among those that share the global batch; by default
///         those of `torch.distributed` where a group is made, else from the launcher's variables
///         (torchrun, Open MPI, MVAPICH, MPICH, `srun`). Only `world_size=1`: the only rank.
///     device: "cpu", or "cuda:0" and so on: where batches are handed out.
///     device_allocator: "torch", or a function that takes a number of bytes and returns an array
///         on the GPU.
///     order: "global", "per-rank", or numbers of samples: an array with one axis, or with two and
///         a row for each epoch. docs/order.md describes it.
///     order_list, order_groups, order_weights: paths of files, or arrays.
///     amax_reduce: function that replaces each number of a list by its maximum over all ranks.
///     embedded: with `data`, "threads": the services run in threads of this process, not in a
///         process that ranks share.
///     augment_threads: with `data`, the number of threads that render. Default: the cores that
///         this process may use, minus one for each rank of this host.
///     progress: with `data`, a function that gets two numbers: indexed shards and all shards.
///
/// The other keywords are the keys of `[receiver]`; docs/configuration.md has their meaning. A
/// keyword overrides the environment, and the environment overrides the file. If none of them sets
/// a key, it has its default. `None` means that the keyword is not given.
///
/// Raises `ConfigError` for a wrong argument, and `StorageError` if no storage node answers.
#[pyclass(frozen, module = "headwater")]
pub(crate) struct Loader {
    shared: Arc<Shared>,
}

// === impl Loader ===

impl Loader {
    /// Does something with the receiver without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Send + FnOnce(&Receiver) -> Result<T, ReceiverError>,
    ) -> PyResult<T> {
        detached(py, |detached| work(&*self.shared.receiver(detached)?).map_err(raised))
    }
}

#[pymethods]
impl Loader {
    /// The arguments with their defaults.
    #[classattr]
    fn __signature__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(signature(py)?.unbind())
    }

    /// Opens a receiver. See the class.
    #[new]
    #[pyo3(signature = (data=None, batch_size=None, *, config=None, **options))]
    fn new(
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        batch_size: Option<&Bound<'_, PyAny>>,
        config: Option<PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        refuse_dataloader_workers(py)?;
        collect_left(py)?;
        let options = options.cloned().unwrap_or_else(|| PyDict::new(py));
        let data = translated(&options, data, batch_size)?;
        let callbacks = callbacks(&options)?;
        let progress = Progress::take(&options)?;
        let following = Following::begin(&options)?;
        let keywords = given(&options)?.as_object().cloned().unwrap_or_default();
        let arguments = Arguments {
            data: data.as_ref().map(json::from_python).transpose()?,
            config,
            keywords,
            scripts: scripts(py)?,
            group: group(py)?,
            python: python(py)?,
        };
        let mut options = options::gather(arguments).map_err(ConfigError::new_err)?;
        if options.host.is_some() && !callbacks.order.is_empty() {
            return Err(ConfigError::new_err(
                "`host_share` and a list of samples in memory do not go together, because another process \
                 makes the batches: give the list as a file, by `order_list`",
            ));
        }
        if options.host.is_some() && following.is_some() {
            return Err(ConfigError::new_err(
                "`host_share` and `ray` do not go together, because each process has the addresses of the service \
                 in files of its own, and the process with the copy cannot follow them when their maker ends: set \
                 `host_share` to false, or give `storage` and `workers` in place of `ray`",
            ));
        }
        following.as_ref().map_or(Ok(()), |service| service.lead(py, &mut options.receiver))?;
        // Sessions and slots are descriptors, and the usual limit of a shell is 1,024.
        headwater_access::raise_open_files();
        let target = Target::rank(&options.receiver.job, options.receiver.rank);
        telemetry::start(py, &options.telemetry, &options.log_origin, &target)?;
        warn(py, &options.warnings)?;
        let (shown, security) = (options.telemetry.clone(), options.security.clone());
        let (rank, world_size) = (options.receiver.rank, options.receiver.world_size);
        let launched = options.is_launched.then_some((rank, world_size));
        telemetry::trace(py, &options.telemetry, rank, world_size)?;
        let trace_bytes_max = options.telemetry.trace_bytes_max;
        let opened = open(py, options, callbacks, progress)?;
        let ambiguous = Vec::from_iter(crate::data::shared_numbers(opened.receiver.manifests()));
        // What was opened ends there, too, if it cannot be shown.
        let loader: PyResult<Self> = detached(py, move |detached| {
            telemetry::show_batches(detached, &opened.receiver, &shown, &security)?;
            telemetry::ready(detached);
            let mut pace = Pace::default();
            if opened.receiver.config().checkpoints.resume != Resume::No {
                pace.resumed_at(opened.receiver.position());
            }
            Ok(Self {
                shared: Arc::new(Shared::new(opened, following, pace, trace_bytes_max, launched)),
            })
        });
        loader.and_then(|loader| warn(py, &ambiguous).map(|()| loader))
    }

    /// An iteration over an epoch, which begins with its first batch. It then ends a running iteration, whose next call
    /// raises `BusyError`.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Iteration> {
        // Who has closed it, or forked, hears of it here.
        self.with(py, |_| Ok(()))?;
        Ok(Iteration::new(Arc::clone(&self.shared)))
    }

    /// The batches of an iteration as tuples of PyTorch's tensors, in the order of the recipe:
    /// `for images, labels in loader.tuples():`.
    fn tuples<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("headwater.sampling")?.getattr("tuples")?.call1((slf,))
    }

    /// Batches have no numbers here.
    fn __getitem__(&self, number: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(format!(
            "loader[{number}]: batches come in order, `for batch in loader`; `seek(epoch, step)` goes to one. It needs no \
             DataLoader around it"
        )))
    }

    /// Steps of the current epoch: the same on every rank, unless `epoch_end` is "exact".
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |r| Ok(r.steps_per_epoch(r.position().epoch) as usize))
    }

    /// The current epoch.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |receiver| Ok(receiver.position().epoch))
    }

    /// Position in the current epoch: the step of the next batch.
    #[getter]
    fn step(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |receiver| Ok(receiver.position().step))
    }

    /// Sets the epoch of the next iteration: the whole epoch, or its rest after a loaded state
    /// that was not iterated yet. Raises `ConfigError` for an epoch before that of such a state.
    fn set_epoch(&self, py: Python<'_>, epoch: u32) -> PyResult<()> {
        detached(py, |detached| {
            let receiver = self.shared.receiver(detached)?;
            check_epoch(&receiver, epoch)?;
            let mut pace = self.shared.pace(detached)?;
            let start = pace.set_epoch(epoch).map_err(|resumed| before_state(epoch, resumed))?;
            start.map_or(Ok(()), |start| receiver.seek(start).map_err(raised))
        })
    }

    /// As `set_epoch`, for a framework: it may count an epoch that it takes no batch of, after a resume, and counts the
    /// epochs of training for a validation loader that has one.
    #[pyo3(name = "_follow_epoch")]
    fn follow_epoch(&self, py: Python<'_>, epoch: u32) -> PyResult<()> {
        let (epochs, block) =
            self.with(py, |r| Ok((r.config().epochs, r.config().order.shuffle_block)))?;
        if epochs == 1 && epoch > 0 && block != Some(0) {
            let text = c"this loader has `epochs` = 1, and gives the same batches in each epoch of the training: leave `epochs` \
                         out, unless it is for validation (`shuffle=False`)";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)?;
        }
        detached(py, |detached| {
            let receiver = self.shared.receiver(detached)?;
            let epoch = if epochs == 1 { 0 } else { epoch };
            check_epoch(&receiver, epoch)?;
            let start = self.shared.pace(detached)?.follow_epoch(epoch);
            start.map_or(Ok(()), |start| receiver.seek(start).map_err(raised))
        })
    }

    /// The epochs from the current one up to `end`, each set when it comes: `for epoch in loader.epochs(100): for batch
    /// in loader: ..`. After a resume it begins with the rest of the state's epoch.
    fn epochs(slf: PyRef<'_, Self>, end: u32) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let shared = Arc::clone(&slf.shared);
        let first = detached(py, |detached| -> PyResult<u32> {
            let receiver = shared.receiver(detached)?;
            let here = receiver.position();
            let is_over = here.step >= receiver.steps_per_epoch(here.epoch);
            // A loaded place may be this rank's end of an exact epoch, while others have a batch more.
            let is_moved = shared.pace(detached)?.was_moved();
            let is_over = is_over && !(is_moved && receiver.is_own_end(here));
            Ok(here.epoch.saturating_add(is_over.into()))
        })?;
        let epochs = py.import("headwater.sampling")?.getattr("epochs")?;
        epochs.call1((slf, first, end))
    }

    /// Where frameworks look for `set_epoch`, a `headwater.sampling.Sampler`.
    #[getter]
    fn sampler(slf: PyRef<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        py.import("headwater.sampling")?.getattr("Sampler")?.call1((slf,))
    }

    /// Where frameworks look for the batches of an epoch, a `headwater.sampling.BatchSampler`.
    #[getter]
    fn batch_sampler(slf: PyRef<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("headwater.sampling")?.getattr("BatchSampler")?.call1((slf,))
    }

    /// Where frameworks look for the number of samples, a `headwater.sampling.Dataset`.
    #[getter]
    fn dataset(slf: PyRef<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let samples: u64 = slf.shared.manifests.iter().map(|manifest| manifest.samples()).sum();
        py.import("headwater.sampling")?.getattr("Dataset")?.call1((samples,))
    }

    /// Names of the classes by their numbers: of folders, a table, the hub's column `label`, `classes.json` beside tars.
    /// `None` where they are not known, or datasets have other ones.
    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        crate::data::classes(&self.shared.manifests)
    }

    /// Samples in this rank's batch.
    #[getter]
    fn batch_size(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |receiver| Ok(receiver.config().batch_samples))
    }

    /// Whether an epoch's last batch is dropped where it would be short.
    #[getter]
    fn drop_last(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |receiver| Ok(receiver.config().order.epoch_end == EpochEnd::DropLast))
    }

    /// 0: no processes of PyTorch's load data.
    #[getter]
    fn num_workers(&self) -> u32 {
        0
    }

    /// Makes the next iteration begin at this step and go on to the end of the epoch. Ends a
    /// running iteration.
    fn seek(&self, py: Python<'_>, epoch: u32, step: u64) -> PyResult<()> {
        detached(py, |detached| {
            let receiver = self.shared.receiver(detached)?;
            let mut pace = self.shared.pace(detached)?;
            let place = Position { epoch, step };
            check_epoch(&receiver, epoch)?;
            receiver.seek(place).map_err(raised)?;
            pace.moved_to(place);
            Ok(())
        })
    }

    /// The position of the next batch, and everything that determines the order, as plain data. It
    /// is the same on every rank.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.with(py, Receiver::state)?)
    }

    /// Makes the next iteration continue where the state was taken. Ends a running iteration.
    /// Raises `StateError` if other samples would follow, unless `allow` has all terms that
    /// differ.
    #[pyo3(signature = (state_dict, *, allow=None))]
    fn load_state_dict(
        &self,
        py: Python<'_>,
        state_dict: &Bound<'_, PyAny>,
        allow: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let wrong = |problem| StateError::new_err(format!("the state is not usable: {problem}"));
        let state: State = plain(state_dict)?.map_err(wrong)?;
        let wrong = |problem| ConfigError::new_err(format!("`allow`: {problem}"));
        let allow: Vec<Term> =
            allow.map(|a| plain(a)?.map_err(wrong)).transpose()?.unwrap_or_default();
        detached(py, |detached| {
            let receiver = self.shared.receiver(detached)?;
            let mut pace = self.shared.pace(detached)?;
            let restored = receiver.restore(state, allow).map_err(raised)?;
            pace.resumed_at(Position { epoch: restored.epoch, step: restored.step });
            Ok(())
        })
    }

    /// Writes the state to `checkpoint_dir` as the checkpoint of `step`, which the trainer counts.
    /// Only rank 0 writes; other ranks do nothing.
    fn checkpoint(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        self.with(py, |receiver| receiver.checkpoint(step))
    }

    /// Sets the weights of all datasets, from the next batch on. Every rank must call it at the
    /// same step.
    fn set_weights(&self, py: Python<'_>, weights: Vec<f64>) -> PyResult<()> {
        self.with(py, |receiver| receiver.set_weights(weights))
    }

    /// Sets the weight of one dataset, from the next batch on. The other weights stay as they were
    /// last given.
    fn set_weight_by_name(&self, py: Python<'_>, name: &str, weight: f64) -> PyResult<()> {
        self.with(py, |receiver| receiver.set_weight_by_name(name, weight))
    }

    /// Each dataset's share of the next batch, by name.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shares = self.with(py, |receiver| Ok(receiver.weights()))?;
        let weights = PyDict::new(py);
        for (manifest, weight) in self.shared.manifests.iter().zip(shares) {
            weights.set_item(manifest.dataset(), weight)?;
        }
        Ok(weights)
    }

    /// Number of samples of each dataset, by name.
    #[getter]
    fn datasets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |_| Ok(()))?;
        let datasets = PyDict::new(py);
        for manifest in self.shared.manifests.iter() {
            datasets.set_item(manifest.dataset(), manifest.samples())?;
        }
        Ok(datasets)
    }

    /// The receiver's configuration: every key of `[receiver]` and of `[links]`.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let config = self.with(py, |receiver| Ok(receiver.config().clone()))?;
        let keys = json::to_python(py, &config)?.cast_into::<PyDict>()?;
        let links = json::to_python(py, &config.link_settings)?.cast_into::<PyDict>()?;
        keys.update(links.as_mapping())?;
        Ok(keys.into_any())
    }

    /// The whole recipe: mean, standard deviation, tensors and their views.
    #[getter]
    fn recipe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.with(py, |receiver| Ok(receiver.recipe().clone()))?)
    }

    /// Sets the list of workers: `host:port`, a host list, `dns:name:port` or `file:/path`.
    fn set_workers(&self, py: Python<'_>, workers: Vec<String>) -> PyResult<()> {
        self.with(py, |receiver| receiver.set_workers(&workers))
    }

    /// Where this process serves `/metrics` and `/healthz`, as `host:port`; `None` without
    /// `telemetry.metrics_listen`.
    #[getter]
    fn metrics_address(&self, py: Python<'_>) -> Option<String> {
        telemetry::address(py)
    }

    /// A `headwater.Trace` that writes to `path` what this loader's threads and services do.
    /// `.json`: trace events for https://ui.perfetto.dev; `.pfw.gz`: DFTracer's. It begins with
    /// `start()` or `with`. The file ends at `bytes_max` bytes, by default at
    /// `telemetry.trace_bytes_max`.
    #[pyo3(signature = (path, *, bytes_max=None))]
    fn trace(&self, py: Python<'_>, path: PathBuf, bytes_max: Option<u64>) -> PyResult<Trace> {
        let bytes_max = bytes_max.unwrap_or_else(|| self.shared.trace_bytes_max);
        let place =
            |receiver: &Receiver| Ok((receiver.config().rank, receiver.config().world_size));
        Trace::new(Arc::clone(&self.shared), self.with(py, place)?, &path, bytes_max)
    }

    /// Figures since the loader was made, a `headwater.Stats`: a dict that prints as a table.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let figures = self.with(py, |receiver| Ok(receiver.stats()))?;
        let by = figures.stalled_by.iter().map(|(cause, time)| (cause.name(), time.as_secs_f64()));
        let stalled_by: BTreeMap<&str, f64> = by.collect();
        let stats = json!({
            "batches": figures.batches,
            "samples": figures.samples,
            "host_batches": figures.host_batches,
            "parts": figures.parts,
            "parts_on_device": figures.parts_on_device,
            "parts_shared": figures.parts_shared,
            "parts_recomputed": figures.parts_recomputed,
            "pace_waits": figures.pace_waits,
            "substituted": figures.substituted,
            "encoded_bytes": figures.encoded_bytes,
            "link_bytes": figures.link_bytes,
            "workers": figures.workers,
            "stalled_s": figures.stalled.as_secs_f64(),
            "stalled_by_s": stalled_by,
            "part_read_us": figures.median_us(|times| times.read_us),
            "part_render_us": figures.median_us(|times| times.render_us),
            "part_deliver_us": figures.median_us(|times| times.deliver_us),
        });
        let stats = json::to_python(py, &stats)?;
        py.import("headwater.notebook")?.getattr("Stats")?.call1((stats,))
    }

    /// Ends all sessions and threads. Batches that you hold stay valid.
    fn close(&self, py: Python<'_>) {
        if self.shared.is_at_home() {
            detached(py, |detached| self.shared.close(detached));
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a headwater.Loader cannot be copied or sent to another process: make one there; it \
             needs no DataLoader around it",
        ))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let numbers = |receiver: &Receiver| {
            let config = receiver.config();
            Ok((config.rank, config.world_size, config.batch_samples))
        };
        let Ok((rank, world_size, batch)) = self.with(py, numbers) else {
            return Ok("<headwater.Loader closed or forked>".to_owned());
        };
        let names = self.shared.manifests.iter().map(|manifest| manifest.dataset());
        let names = PyList::new(py, names.collect::<Vec<_>>())?.repr()?;
        Ok(format!("<headwater.Loader {names} rank={rank}/{world_size} batch_size={batch}>"))
    }
}

/// Python's plain data as a type of ours, or why it is not.
fn plain<T: DeserializeOwned>(data: &Bound<'_, PyAny>) -> PyResult<Result<T, String>> {
    Ok(serde_json::from_value(json::from_python(data)?)
        .map_err(|error| serde_words::problem(&error)))
}
