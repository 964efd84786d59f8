//! Plain data between Python and serde, through Python's own `json`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyString, PyTuple, PyType};
use serde::Serialize;
use serde_json::Value;

use crate::errors::ConfigError;

/// PyTorch's and NumPy's names of the element types that a recipe can have.
const DTYPES: [(&str, &str); 7] = [
    ("bfloat16", "bf16"),
    ("float16", "f16"),
    ("half", "f16"),
    ("float32", "f32"),
    ("float", "f32"),
    ("uint8", "u8"),
    ("float8_e4m3fn", "fp8_e4m3"),
];

/// Lists within lists, as deep as data may be that hold numbers which JSON does not have.
const DEPTH_MAX: usize = 200;

/// How serde_json begins its error on a whole number that no float can be.
const OUT_OF_RANGE: &str = "number out of range";

/// Dictionaries, lists, strings and numbers; also paths, PyTorch's dtypes, and whatever has `__index__` or
/// `__float__`, such as NumPy's numbers. Numbers that JSON does not have become their names: `"nan"`, `"inf"`, `"-inf"`.
pub(crate) fn from_python(data: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = data.py();
    let arguments = PyDict::new(py);
    arguments.set_item("default", wrap_pyfunction!(plain, py)?)?;
    arguments.set_item("allow_nan", false)?;
    let dumps = py.import("json")?.getattr("dumps")?;
    let text = match dumps.call((data,), Some(&arguments)) {
        // Another one says that the data contain themselves.
        Err(error)
            if error.is_instance_of::<PyValueError>(py) && error.to_string().contains("float") =>
        {
            dumps.call((named(data, 0)?,), Some(&arguments))
        }
        text => text,
    };
    let text: String = text?.extract()?;
    serde_json::from_str(&text).map_err(|error| match error.to_string() {
        large if large.starts_with(OUT_OF_RANGE) => {
            ConfigError::new_err("a number is beyond 1.8e308: give a smaller one")
        }
        other => PyTypeError::new_err(other),
    })
}

/// The same data, with names in place of numbers that JSON does not have.
fn named<'py>(data: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    if depth > DEPTH_MAX {
        let text = format!("the data are nested deeper than {DEPTH_MAX}, or contain themselves");
        return Err(PyValueError::new_err(text));
    }
    let named = |entry: &Bound<'py, PyAny>| named(entry, depth + 1);
    if let Ok(dict) = data.cast::<PyDict>() {
        let copy = PyDict::new(py);
        dict.iter().try_for_each(|(key, value)| copy.set_item(key, named(&value)?))?;
        return Ok(copy.into_any());
    }
    if data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>() {
        let copy = data.try_iter()?.map(|entry| named(&entry?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, copy)?.into_any());
    }
    Ok(name_of(data).unwrap_or_else(|| data.clone()))
}

/// The name of a number that JSON does not have.
fn name_of<'py>(data: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let number = data.cast::<PyFloat>().ok()?.value();
    let name = number.to_string().to_lowercase();
    (!number.is_finite()).then(|| PyString::new(data.py(), &name).into_any())
}

/// The data as dictionaries, lists, strings and numbers.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    data: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(data).map_err(|e| PyTypeError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Our name of an element type.
pub(crate) fn dtype(name: &str) -> Option<&'static str> {
    DTYPES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}

/// The name of PyTorch's or NumPy's own object for an element type: `torch.float32`, `numpy.float32`, a `numpy.dtype`.
fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let module = |kind: &Bound<'_, PyType>| Ok::<_, PyErr>(kind.module()?.to_string());
    if let Ok(kind) = object.cast::<PyType>() {
        return Ok((module(kind)? == "numpy").then_some(kind.name()?.to_string()));
    }
    let kind = object.get_type();
    match module(&kind)?.split('.').next() {
        Some("torch") if kind.name()? == "dtype" => Ok(Some(object.str()?.to_string())),
        Some("numpy") if object.hasattr("itemsize")? && object.hasattr("kind")? => {
            object.getattr("name")?.extract().map(Some)
        }
        _ => Ok(None),
    }
}

/// What `json` should write for an object that it does not know.
#[pyfunction]
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind = object.get_type();
    if let Some(name) = dtype_of(object)? {
        let ours = name.strip_prefix("torch.").or(Some(&name)).and_then(dtype);
        return Ok(PyString::new(object.py(), ours.unwrap_or(&name)).into_any());
    }
    // An `InterpolationMode`, and an array.
    if object.is_instance(&object.py().import("enum")?.getattr("Enum")?)? {
        return object.getattr("value");
    }
    let axes = object.getattr("ndim").and_then(|axes| axes.extract::<u32>());
    match axes {
        Ok(1..) => return object.call_method0("tolist"),
        // NumPy's and PyTorch's truth values can be numbers, and are not meant so.
        Ok(0) => {
            if let Ok(item) = object.call_method0("item")
                && item.is_instance_of::<PyBool>()
            {
                return Ok(item);
            }
        }
        Err(_) => {}
    }
    for (module, function) in [("operator", "index"), ("os", "fspath"), ("builtins", "float")] {
        if let Ok(plain) = object.py().import(module)?.call_method1(function, (object,)) {
            // Of numpy's numbers, too.
            return Ok(name_of(&plain).unwrap_or(plain));
        }
    }
    let kind = kind.name()?;
    Err(PyTypeError::new_err(format!("a {kind} cannot be part of a configuration or a state")))
}
