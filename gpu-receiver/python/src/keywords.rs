//! The keywords of a loader: those of other loaders put into ours, functions and arrays taken out, the rest as plain data.

use std::ffi::CString;

use headwater_receiver::Callbacks;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::device::allocator;
use crate::json;
use crate::order::order_arrays;
use crate::reduce::amax_reduce;
use crate::shared::Shared;

/// Puts our keywords in place of other loaders' for the same, and gives `data` back with the home folder for `~`.
pub(crate) fn translated<'py>(
    options: &Bound<'py, PyDict>,
    data: Option<&Bound<'py, PyAny>>,
    batch_size: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(batch_size) = batch_size {
        options.set_item("batch_size", batch_size)?;
    }
    if let Some(name) = options.get_item("dtype")?.and_then(|name| name.extract::<String>().ok())
        && let Some(ours) = json::dtype(&name)
    {
        options.set_item("dtype", ours)?;
    }
    let words = options.py().import("headwater._keywords")?;
    words.call_method1("translate", (options, data.is_some()))?;
    data.map(|data| words.call_method1("located", (data,))).transpose()
}

/// Warns of what was said of the configuration, as Python does.
pub(crate) fn warn(py: Python<'_>, warnings: &[String]) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    for warning in warnings {
        let text = CString::new(warning.as_str())?;
        PyErr::warn(py, &category, &text, 1)?;
    }
    Ok(())
}

/// Frees loaders that only reference cycles keep, as those of a pruned trial's exception do: their slots, threads and
/// descriptors last until Python collects.
pub(crate) fn collect_left(py: Python<'_>) -> PyResult<()> {
    if Shared::live() > 0 {
        py.import("gc")?.call_method0("collect")?;
    }
    Ok(())
}

/// The keywords that are functions or arrays, taken out of the others.
pub(crate) fn callbacks(options: &Bound<'_, PyDict>) -> PyResult<Callbacks> {
    let (amax_reduce, device_allocator) = (amax_reduce(options)?, allocator(options)?);
    // A `torch.device` as well as its name.
    if let Some(device) = options.get_item("device")?.filter(|device| !device.is_none()) {
        options.set_item("device", device.str()?)?;
    }
    Ok(Callbacks { amax_reduce, device_allocator, order: order_arrays(options)?, host: None })
}

/// The keywords that were given; `None` means not given.
pub(crate) fn given(options: &Bound<'_, PyDict>) -> PyResult<Value> {
    let given = PyDict::new(options.py());
    for (key, value) in options.iter().filter(|(_, value)| !value.is_none()) {
        given.set_item(key, value)?;
    }
    json::from_python(given.as_any())
}
