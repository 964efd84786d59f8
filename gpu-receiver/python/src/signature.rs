//! The loader's signature, as `help` and editors show it.
//!
//! Keywords are keys of `[receiver]` and `[links]`, so the signature is made of the configuration itself.

use headwater_receiver::ReceiverConfig;
use headwater_transport::links::LinksConfig;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::json;
use crate::options::OF_RECIPE;

/// Keywords before those of `[receiver]`, with their defaults as Python writes them.
const FIRST: [(&str, Option<&str>); 3] =
    [("config", None), ("datasets", None), ("recipe", Some("dinov2"))];
/// The element type of a preset's images where nothing sets it; other choices are the preset's own.
const DTYPE: &str = "bf16";
/// The key of `[receiver]` that is called `batch_size` here.
const BATCH: (&str, &str) = ("batch_samples", "batch_size");
/// Keys that are written only where they are set.
const UNSET: [&str; 4] = ["masks", "mixing", "patches", "shuffle_block"];
/// Keys whose value follows from the trainer where nothing sets them.
const OWN: [&str; 2] = ["python", "python_path"];
/// Keywords that are functions, those that go with `data`, and a service's name.
const LAST: [&str; 6] =
    ["device_allocator", "amax_reduce", "embedded", "augment_threads", "progress", "ray"];

/// An `inspect.Signature` of `Loader(data=None, batch_size=32, *, ..)`.
pub(crate) fn signature(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let inspect = py.import("inspect")?;
    let kinds = inspect.getattr("Parameter")?;
    let parameters = PyList::empty(py);
    let add = |name: &str, kind: &str, default: Bound<'_, PyAny>| -> PyResult<()> {
        let options = PyDict::new(py);
        options.set_item("default", default)?;
        parameters.append(kinds.call((name, kinds.getattr(kind)?), Some(&options))?)
    };
    let none = || py.None().into_bound(py);
    let defaults = json::to_python(py, &ReceiverConfig::default())?;
    let defaults = defaults.cast_into::<PyDict>()?;
    let (key, name) = BATCH;
    let samples = defaults.get_item(key)?.unwrap_or_else(none);
    defaults.del_item(key)?;
    add("data", "POSITIONAL_OR_KEYWORD", none())?;
    add(name, "POSITIONAL_OR_KEYWORD", samples)?;
    let keyword = |name: &str, default| add(name, "KEYWORD_ONLY", default);
    for (name, default) in FIRST {
        keyword(name, default.into_pyobject(py)?.into_any())?;
    }
    for name in OF_RECIPE {
        keyword(name, (name == "dtype").then_some(DTYPE).into_pyobject(py)?.into_any())?;
    }
    for (key, default) in defaults.iter() {
        let key: String = key.extract()?;
        let default = if OWN.contains(&key.as_str()) { none() } else { default };
        keyword(&key, default)?;
    }
    let links = json::to_python(py, &LinksConfig::default())?.cast_into::<PyDict>()?;
    for (key, default) in links.iter() {
        keyword(&key.extract::<String>()?, default)?;
    }
    for name in UNSET.into_iter().chain(LAST) {
        keyword(name, none())?;
    }
    inspect.getattr("Signature")?.call1((parameters,))
}
